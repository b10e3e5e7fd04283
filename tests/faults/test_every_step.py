"""Every durable write, failed and killed at each of its steps: the old state or the new, whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad import RankRClassifier
from polyad.app.journal import Journal
from polyad.distributed.tile_store import TileStore
from polyad.experiments.records import MapStore, RecordStore, RunRecord
from polyad.experiments.settings import RunSettings
from polyad.scene.assess import report as report_module
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.scene import describe
from polyad.scene.read.labels import open_labels
from polyad.scene.read.samples import open_points
from polyad.scene.write.geotiff import open_quietly
from polyad.scene.write.tables import write_points, write_scores
from polyad.scene.write.writers import MapWriter, write_map
from tests.models import bare_model, tile_plan

SCENE = xr.DataArray(np.zeros((6, 5, 3), np.float32), dims=("y", "x", "band"))
ABOUT = {"shape": [6, 5], "scene": "0123"}


def class_map(version: int, side: int = 5) -> xr.DataArray:
    """Return a map; the versions differ in ids, number of classes, names and colors."""
    ids = (np.arange(6 * side, dtype=np.uint8).reshape(6, side) * (version + 1)) % (version + 3)
    table = [ClassInfo(k, f"v{version} no {k}", f"#00{k}{version}FF") for k in range(1, 6)]
    return with_classes(xr.DataArray(ids, dims=("y", "x")), table[: version + 2])


def shares(version: int) -> xr.DataArray:
    values = np.full((6, 5, version + 2), 0.1 * (version + 1), np.float32)
    return xr.DataArray(values, dims=("y", "x", "class"))


def read_map(path: Path) -> Any:
    found = open_labels(str(path), SCENE)
    return found.values.tolist(), class_table(found)


def check(bench: Any, write: Any, read: Any, also: tuple[Any, ...] = ()) -> int:
    """Check a write of version 1 over version 0."""
    return bench.check(lambda folder: write(folder, 0), lambda folder: write(folder, 1), read, also)


# --- maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".tif", ".npy", ".nc", ".zarr"])
def test_class_map(bench, ending: str) -> None:
    name = f"map{ending}"
    steps = check(
        bench,
        lambda folder, version: write_map(folder / name, class_map(version)),
        lambda folder: read_map(folder / name),
    )
    assert steps > 5


def test_envi_map_of_another_size_and_type(bench) -> None:
    def larger(folder: Path) -> None:
        given = class_map(1).astype(np.uint16)
        table = [*class_table(given), ClassInfo(999, "far", "#123456")]
        write_map(folder / "map.img", with_classes(given, table))

    def read(folder: Path) -> Any:
        with open_quietly(folder / "map.img", "r") as found:  # other programs must be able to
            ids = found.read(1).tolist()
        return ids, read_map(folder / "map.hdr")

    small = lambda folder: write_map(folder / "map.hdr", class_map(0))  # noqa: E731
    bench.check(small, larger, read)
    bench.check(larger, small, lambda folder: read_map(folder / "map.hdr"))


def test_envi_map_with_the_same_header_is_replaced_by_one_rename(bench) -> None:
    given = class_map(0)
    bench.check(
        lambda folder: write_map(folder / "map.hdr", given),
        lambda folder: write_map(folder / "map.hdr", given.copy(data=given.values[::-1])),
        lambda folder: read_map(folder / "map.hdr"),
    )


@pytest.mark.parametrize("at", range(0, 60, 10))
def test_envi_map_after_a_real_kill(bench, at: int) -> None:
    path = bench.place() / "map.hdr"
    write_map(path, class_map(0))
    before = read_map(path)
    bench.kill(lambda: write_map(path, class_map(1)), at)
    left = read_map(path)
    write_map(path, class_map(1))
    assert left in (before, read_map(path))
    assert sorted(p.name for p in path.parent.iterdir()) == ["map.hdr", "map.img"]


def test_png_map(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = "polyad.scene.draw.figures"
    monkeypatch.setattr(f"{figures}.map_figure", lambda given: given.attrs["class_names"])
    monkeypatch.setattr(f"{figures}.to_png", lambda names: json.dumps(names).encode())
    check(
        bench,
        lambda folder, version: write_map(folder / "map.png", class_map(version)),
        lambda folder: json.loads((folder / "map.png").read_bytes()),
    )


def read_both(folder: Path, name: str = "map.tif") -> Any:
    path, proba = folder / name, None
    if (folder / "p.tif").exists():
        with open_quietly(folder / "p.tif", "r") as found:
            proba = found.read().tolist()
    return read_map(path), proba


@pytest.mark.parametrize(
    ("ending", "beside"),
    [(".tif", "probabilities"), (".npy", "probabilities"), (".tif", "uncertainty")],
)
def test_a_map_is_never_beside_the_probabilities_of_another(
    bench, ending: str, beside: str
) -> None:
    def write(folder: Path, version: int) -> None:
        ids = class_map(version)
        paths = {"path": folder / f"map{ending}", beside: folder / "p.tif"}
        with MapWriter(shape=ids.shape, output=class_table(ids), **paths) as out:
            out.write((slice(None), slice(None)), ids.values, shares(version).values)

    states = []
    for version in (0, 1):
        place = bench.place()
        write(place, version)
        states.append(read_both(place, f"map{ending}"))
    alone = tuple((ids, None) for ids, _ in states)
    check(bench, write, lambda folder: read_both(folder, f"map{ending}"), alone)


def test_style_and_names_are_never_beside_the_map_of_another(bench) -> None:
    """What is beside a map is its own or missing, whatever is done to its writer."""

    def state(folder: Path) -> Any:
        names = class_table(open_labels(str(folder / "map.tif"), SCENE))
        for side in ("map.tif.aux.xml", "map.qml"):
            text = (folder / side).read_text() if (folder / side).exists() else names[0].name
            assert all(c.name in text for c in names[:1]), f"{side} of another map"
        return names

    check(bench, lambda f, version: write_map(f / "map.tif", class_map(version)), state)


# --- models, scores, reports ---------------------------------------------------------------------


def test_model(bench) -> None:
    def fitted(seed: int) -> SceneModel:
        patches = np.random.default_rng(seed).normal(size=(12, 1, 1, 3))
        network = RankRClassifier(hidden=2, epochs=1, random_state=seed)
        network.fit(patches, np.arange(12) % 2 + 1)
        return bare_model(network, 1, (ClassInfo(1, "a", ""), ClassInfo(2, "b", "")), 3)

    models = fitted(0), fitted(1)
    check(
        bench,
        lambda folder, version: models[version].save(folder / "model.polyad"),
        lambda folder: SceneModel.load(folder / "model.polyad").estimator.history_,
    )


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_scores(bench, ending: str) -> None:
    name, scores = f"scores{ending}", ({"kappa": 0.5}, {"overall_accuracy": 0.75, "kappa": 0.1})
    check(
        bench,
        lambda folder, version: write_scores(folder / name, scores[version]),
        lambda folder: (folder / name).read_text(),
    )


@pytest.mark.parametrize("ending", [".csv", ".geojson", ".gpkg"])
def test_sample(bench, ending: str) -> None:
    name, grid = f"sample{ending}", Grid((6, 5), CRS.from_epsg(32633), Affine(10, 0, 0, 0, -10, 0))
    if ending == ".gpkg":
        pytest.importorskip("pyogrio")

    def write(folder: Path, n: int) -> None:
        pixels = np.stack([np.arange(n), np.arange(n)], axis=1)
        write_points(folder / name, grid, pixels, {"id": list(range(n)), "reference": ["a"] * n})

    def read(folder: Path) -> Any:
        table = with_classes(class_map(0), [ClassInfo(1, "a", "")])
        placed = describe(table, crs=grid.crs, transform=grid.transform)
        return open_points(folder / name, placed).pixels.tolist()

    bench.check(lambda folder: write(folder, 3), lambda folder: write(folder, 4), read)


def test_report(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = SimpleNamespace(values=None, view=lambda scene: scene)
    monkeypatch.setattr(report_module, "adapt_model", lambda model, *_: model)
    monkeypatch.setattr(report_module, "class_evaluation", lambda *_, **__: None)
    monkeypatch.setattr(report_module, "blank_map", lambda *_: class_map(0))
    monkeypatch.setattr(report_module, "report_page", lambda *given: given[-1].title * 9999)

    def write(folder: Path, version: int) -> None:
        path, title = folder / "report.html", f"version {version}"
        report_module.write_report(path, model, SCENE, class_map(0), title=title)

    check(bench, write, lambda folder: (folder / "report.html").read_text())


# --- experiments ---------------------------------------------------------------------------------


def record(seed: int) -> RunRecord:
    settings = replace(RunSettings("standin-tiny", "rank-1", 5, epochs=3), seed=seed)
    scores = {"3": {"oa": 0.65, "aa": 0.7, "kappa": 0.5, "oa_no_overlap": None}}
    counts = {"n_train": 15, "n_test": 100, "n_test_no_overlap": 0, "parameters": 42}
    run = {"key": settings.key, "settings": settings.to_stored()}
    curve = {"epochs": [[1, 3, 1]], "curve": [5000, 6000, 6543], "scores": scores}
    return RunRecord.from_data(run | curve | counts | {"seconds": {}, "versions": {}}, "record")


def test_records(bench) -> None:
    check(
        bench,
        lambda folder, version: RecordStore(folder).append(record(version)),
        lambda folder: {r.key for r in RecordStore(folder).load()},
    )


def test_maps_of_experiments(bench) -> None:
    def read(folder: Path) -> Any:
        found = MapStore(folder).load("cell")
        return None if found is None else found.tolist()

    check(bench, lambda f, version: MapStore(f).save("cell", class_map(version).values), read)


# --- journals ------------------------------------------------------------------------------------


def test_journal_of_the_page(bench) -> None:
    """An answered command is there after a restart; one that was not is there whole, or not."""

    def commands(folder: Path) -> list[dict[str, Any]]:
        journal = Journal(folder / "labels.jsonl", ABOUT)
        journal.close()
        return journal.commands

    def write(folder: Path, *wanted: str) -> None:
        journal = Journal(folder / "labels.jsonl", ABOUT)
        try:
            for do in wanted:
                if {"do": do} not in journal.commands:
                    journal.append({"do": do})
        finally:
            journal.close()

    bench.check(
        lambda folder: write(folder, "old"), lambda folder: write(folder, "old", "new"), commands
    )


def test_finished_tiles_of_a_cluster(bench) -> None:
    """A tile that is taken as finished has its bytes."""
    plan = tile_plan()

    def put(folder: Path, numbers: list[int]) -> None:
        store = TileStore(folder, plan, "0" * 16)
        for number in set(numbers) - set(store.finished):
            store.put(number, np.full((2, 3), number + 1, np.uint8), None, 0, None)

    def finished(folder: Path) -> dict[int, Any]:
        store = TileStore(folder, plan, "0" * 16)
        return {number: store.get(number)[0].tolist() for number in store.finished}

    bench.check(lambda folder: put(folder, [0]), lambda folder: put(folder, [0, 1]), finished)
