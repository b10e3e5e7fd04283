"""The matrix: every preset, goal, ending and way to a map gives the classes of `map_scene`.

A cell that cannot is refused in one sentence before any work, and leaves nothing behind. Of the
matrix `make test` runs enough cells that every two options meet, without the cluster.
"""

import json
from itertools import combinations, product

import httpx
import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from polyad.cli import main
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_file, map_scene, prediction_sets
from polyad.scene.raster.classes import uncertainty_bands
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene
from polyad.scene.write.writers import write_map
from tests.models import for_pixels
from tests.waiting import PATIENCE

HEIGHT, WIDTH, BANDS = 48, 40, 12
PRESETS = {
    "paper": {"preset": "paper"},
    "fast": {"preset": "fast"},
    "best, this-scene": {"preset": "best", "goal": "this-scene"},
    "best, superpixels": {"preset": "best", "goal": "this-scene"},
    "best, other-scenes": {"preset": "best", "goal": "other-scenes"},
}
ENDINGS = (".tif", ".hdr", ".png", ".nc", ".zarr", ".npy")
WHOLE_SCENE = "best, this-scene"
SUPERPIXELS = "best, superpixels"  # as a scene of more than 10,000 pixels has them


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A georeferenced GeoTIFF of three fields with a corner of nodata, and a few labels."""
    place = tmp_path_factory.mktemp("ways")
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    truth = ((y // 16 + x // 14) % 3 + 1).astype(np.uint8)
    cube = rng.normal(0, 300, (4, BANDS))[truth] + rng.normal(1000, 120, (HEIGHT, WIDTH, BANDS))
    cube[:5, -6:] = -9
    profile = {
        "driver": "GTiff", "height": HEIGHT, "width": WIDTH, "crs": "EPSG:32633",
        "transform": from_origin(400000, 5800000, 3.7, 3.7),
    }  # fmt: skip
    with rasterio.open(
        place / "scene.tif", "w", count=BANDS, dtype="int16", nodata=-9, **profile
    ) as out:
        out.write(np.moveaxis(cube, -1, 0).astype(np.int16))
    labels = np.zeros_like(truth)
    for value in (1, 2, 3):
        rows, cols = np.nonzero((truth == value) & (cube[..., 0] > -9))
        few = rng.choice(len(rows), 8, replace=False)
        labels[rows[few], cols[few]] = value
    with rasterio.open(place / "labels.tif", "w", count=1, dtype="uint8", nodata=0, **profile) as o:
        o.write(labels, 1)
    return place


@pytest.fixture(scope="module")
def models(folder):
    """A model file for each preset and goal."""
    scene = open_scene(folder / "scene.tif")
    labels = open_labels(folder / "labels.tif", scene)
    for name, options in PRESETS.items():
        quick = {"epochs": 3} if name == "paper" else {}
        model = train(scene, labels, window=3, hidden=6, **options, **quick)
        if name == SUPERPIXELS:
            model = for_pixels(model, 10**6)
        model.save(folder / f"{name}.polyad")
    return {name: folder / f"{name}.polyad" for name in PRESETS}


@pytest.fixture(scope="module")
def wanted(folder, models):
    """Classes and probabilities of each model, from `map_scene`."""
    scene = open_scene(folder / "scene.tif")
    return {
        name: map_scene(SceneModel.load(path), scene, probabilities=True)
        for name, path in models.items()
    }


@pytest.fixture(scope="module")
def scheduler():
    pytest.importorskip("distributed")
    import dask.config

    from polyad.distributed import open_cluster

    with open_cluster("local:1") as client:
        ours = client.security
        files = {"ca-file": ours.tls_ca_file, "client.cert": ours.tls_client_cert}
        files["client.key"] = ours.tls_client_key
        with dask.config.set({f"distributed.comm.tls.{k}": v for k, v in files.items()}):
            yield client.scheduler.address


def by_command(model, scene, out, shares):
    run(model, scene, ["--out", out], shares)


def by_map_file(model, scene, out, shares):
    map_file(SceneModel.load(model), open_scene(scene), out, **shares)


def by_out_dir(model, scene, out, shares):
    maps = out.parent / "maps"
    run(model, scene, ["--out-dir", maps, "--ending", out.suffix], shares)
    for path in maps.glob("scene*"):
        path.rename(out.parent / path.name.replace("scene", out.stem))
    maps.rmdir()  # nothing else is in it


WAYS = {"command": by_command, "map_file": by_map_file, "--out-dir": by_out_dir}
CLUSTER = "--cluster"


@pytest.fixture
def way(request):
    """One of `WAYS`, or the cluster, which is started for whoever asks for it."""
    if request.param != CLUSTER:
        return WAYS[request.param]
    scheduler = request.getfixturevalue("scheduler")

    def by_cluster(model, scene, out, shares):
        run(model, scene, ["--out", out, CLUSTER, scheduler], shares)

    return by_cluster


# What a folder of maps refuses, and by which words.
SINGLE = {
    "probabilities": "--probabilities names one file",
    "uncertainty": "--uncertainty names one file",
}


def run(model, scene, options, shares=None):
    more = [word for name, path in (shares or {}).items() for word in (f"--{name}", path)]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, ["map", model, scene, *options, *more])])
    if ended.value.code:
        raise Refused(ended.value.code)


class Refused(Exception):
    """The command ended with another exit code than 0."""


def pairwise(*axes):
    """Return cells of the product of ``axes`` in which every two values of two axes meet."""

    def pairs(cell):
        return {*combinations(enumerate(cell), 2)}

    cells, chosen = [*product(*axes)], []
    missing = set().union(*map(pairs, cells))
    while missing:
        chosen.append(max(cells, key=lambda cell: len(pairs(cell) & missing)))
        missing -= pairs(chosen[-1])
    return chosen


def test_pairwise_cells_hold_every_pair_and_are_few():
    cells = pairwise("ab", "xyz", (1, 2))
    assert len(cells) <= 8
    for first, second in ((0, 1), (0, 2), (1, 2)):
        axes = ("ab", "xyz", (1, 2))
        met = {(cell[first], cell[second]) for cell in cells}
        assert met == {*product(axes[first], axes[second])}


BESIDE = {"ids": (), "shares": ("probabilities", "uncertainty"), "uncertainty": ("uncertainty",)}


QUICK = {*pairwise(PRESETS, ENDINGS, BESIDE, WAYS)}
CELLS = [
    pytest.param(*cell, marks=() if cell in QUICK else pytest.mark.slow)
    for cell in product(PRESETS, ENDINGS, BESIDE, (*WAYS, CLUSTER))
]


@pytest.mark.every_case
@pytest.mark.parametrize(("preset", "ending", "beside", "way"), CELLS, indirect=["way"])
def test_each_cell_gives_the_classes_of_map_scene_or_one_sentence(
    preset, ending, beside, way, folder, models, wanted, tmp_path, capsys
):
    out, shares = tmp_path / f"map{ending}", {k: tmp_path / f"{k}.tif" for k in BESIDE[beside]}
    model, scene = models[preset], folder / "scene.tif"
    sentence = next((SINGLE[kind] for kind in shares if way is by_out_dir), None)
    if sentence is not None:
        with pytest.raises(Refused, match="2"):
            way(model, scene, out, shares)
        told = capsys.readouterr().err.strip()
        assert sentence in told
        assert "\n" not in told
        assert not list(tmp_path.iterdir())
        return
    way(model, scene, out, shares)
    class_map, proba = wanted[preset]
    if ending == ".png":
        write_map(tmp_path / "same.png", class_map)
        assert out.read_bytes() == (tmp_path / "same.png").read_bytes()
    else:
        read = open_labels(out)
        np.testing.assert_array_equal(read.values, class_map.values)
        assert ending == ".npy" or read.attrs["class_names"] == class_map.attrs["class_names"]
    folders = {p.name for p in tmp_path.iterdir() if p.is_dir()}
    assert folders == ({out.name} if ending == ".zarr" else set())  # no tiles are left
    expected = {"probabilities": proba.values, "uncertainty": uncertainty_bands(proba.values)}
    for name, path in shares.items():
        with rasterio.open(path) as found:
            bands = np.moveaxis(found.read(), 0, -1)
            np.testing.assert_allclose(bands, expected[name], atol=1e-6, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", [CLUSTER], indirect=True)
@pytest.mark.parametrize("preset", ["fast", WHOLE_SCENE, SUPERPIXELS])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_way_writes_the_same_bytes(ending, preset, folder, models, way, tmp_path):
    written = []
    for number, each in enumerate((*WAYS.values(), way)):
        place = tmp_path / str(number)
        place.mkdir()
        beside = () if each is by_out_dir else ("probabilities", "uncertainty")
        shares = {kind: place / f"{kind}.tif" for kind in beside}
        each(models[preset], folder / "scene.tif", place / f"map{ending}", shares)
        files = [p for p in place.rglob("*") if p.is_file()]
        written.append({str(p.relative_to(place)): p.read_bytes() for p in files})
    for found in written:
        assert found == {name: content for name, content in written[0].items() if name in found}
        assert {*written[0]} - {*found} <= {"probabilities.tif", "uncertainty.tif"}


@pytest.mark.slow
@pytest.mark.parametrize("way", [CLUSTER], indirect=True)
@pytest.mark.parametrize("preset", ["fast", WHOLE_SCENE, "best, other-scenes"])
@pytest.mark.parametrize("ending", [".tif", ".zarr"])
@pytest.mark.filterwarnings("ignore:sets will hold")
def test_every_way_writes_the_same_sets(ending, preset, folder, models, wanted, way, tmp_path):
    written = []
    for number, each in enumerate((*WAYS.values(), way)):
        place = tmp_path / str(number)
        place.mkdir()
        level = {"coverage": 0.8}
        each(models[preset], folder / "scene.tif", place / f"map{ending}", level)
        files = [p for p in place.rglob("*") if p.is_file()]
        written.append({str(p.relative_to(place)): p.read_bytes() for p in files})
    assert {"map_set_size.tif", "map_sets.tif"} <= {*written[0]}
    assert all(found == written[0] for found in written)
    sets = prediction_sets(SceneModel.load(models[preset]), wanted[preset][1], 0.8).values
    with (
        rasterio.open(tmp_path / "0/map_set_size.tif") as size,
        rasterio.open(tmp_path / "0/map_sets.tif") as members,
    ):
        np.testing.assert_array_equal(size.read(1), sets.sum(axis=2))
        np.testing.assert_array_equal(np.moveaxis(members.read() == 1, 0, -1), sets)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != SUPERPIXELS])
def test_the_page_exports_the_map_of_its_own_model(preset, folder, tmp_path):
    pytest.importorskip("fastapi")
    from polyad.app import TrainSettings, prepare

    quick = {"hidden": 6} | ({"epochs": 3} if preset == "paper" else {})
    settings = TrainSettings(window=3, parameters=quick, **PRESETS[preset])
    page = prepare(
        folder / "scene.tif", folder / "labels.tif", journal=tmp_path / "j.jsonl", settings=settings
    ).start()
    try:
        with httpx.Client(base_url=page.url, timeout=PATIENCE) as client:
            for name in ("map.tif", "model.polyad"):
                answer = client.get(f"/api/files/{name}", follow_redirects=True)
                assert answer.status_code == 200, answer.text
                (tmp_path / name).write_bytes(answer.content)
    finally:
        page.stop()
    model = SceneModel.load(tmp_path / "model.polyad")
    again = map_scene(model, open_scene(folder / "scene.tif"))
    np.testing.assert_array_equal(open_labels(tmp_path / "map.tif").values, again.values)
    assert model.recipe is None or model.recipe.preset == PRESETS[preset]["preset"]


def test_a_failed_map_of_no_finished_tile_leaves_no_tiles_behind(
    folder, models, tmp_path, monkeypatch
):
    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("polyad.scene.map.tile_mapper.Mapper.classify", fail)
    with pytest.raises(Refused):
        by_out_dir(models["fast"], folder / "scene.tif", tmp_path / "map.tif", {})
    assert [p.name for p in tmp_path.iterdir()] == ["maps"]
    assert not list((tmp_path / "maps").iterdir())


@pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")
def test_a_model_for_one_scene_maps_others_by_its_network_with_a_warning(
    folder, models, tmp_path, capsys
):
    with rasterio.open(folder / "scene.tif") as source:
        pixels, profile = source.read(), source.profile
    with rasterio.open(tmp_path / "other.tif", "w", **profile) as out:
        out.write(pixels[:, ::-1])
    model = models[WHOLE_SCENE]
    for options in (["--out", tmp_path / "a.npy"], ["--out-dir", tmp_path, "--ending", ".npy"]):
        run(model, tmp_path / "other.tif", options)
        told = capsys.readouterr().err.strip()
        assert "used on another one" in told
        assert "\n" not in told
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "other.npy"))


def test_json_of_a_map_names_it(folder, models, tmp_path, capsys):
    out = tmp_path / "map.npy"
    run(models["fast"], folder / "scene.tif", ["--out", out, "--json"])
    assert json.loads(capsys.readouterr().out)["map"] == str(out)


@pytest.mark.parametrize(
    "arguments",
    [
        "map fast.polyad scene.tif --out scene.tif",
        "map fast.polyad scene.tif --out link.tif",
        "map fast.polyad scene.tif --out x.tif --probabilities scene.tif",
        "map fast.polyad scene.tif --out fast.polyad.tif --probabilities ./scene.tif",
        "map fast.polyad scene.tif --out-dir .",
        "train scene.tif labels.tif --out labels.tif",
        "train scene.tif labels.tif --out scene.tif",
        "evaluate fast.polyad scene.tif labels.tif --report labels.tif",
        "evaluate fast.polyad scene.tif labels.tif --report fast.polyad",
    ],
)
def test_no_input_is_written_over(arguments, folder, models, tmp_path, monkeypatch, capsys):
    for path in (folder / "scene.tif", folder / "labels.tif", models["fast"]):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "link.tif").symlink_to(tmp_path / "scene.tif")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    report = "--report" in arguments  # of no input's kind, which is told first
    wanted = "expected a name ending in .html" if report else "which would be lost"
    assert wanted in capsys.readouterr().err
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert {path.name for path in tmp_path.iterdir()} == {*before, "link.tif"}


def test_a_refused_folder_of_maps_is_not_made(folder, models, tmp_path, capsys):
    for scene, ending in ((tmp_path / "missing.tif", ".tif"), (folder / "scene.tif", ".xyz")):
        with pytest.raises(Refused):
            run(models["fast"], scene, ["--out-dir", tmp_path / "maps", "--ending", ending])
    assert not list(tmp_path.iterdir())
