"""`polyad map` and `train` with --merge, --colors and --uncertainty, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr

from land import run
from polyad import SceneModel, map_file, map_scene, open_labels, open_scene, train
from polyad.distributed import map_files
from polyad.errors import InputError, SceneError
from polyad.scene.assess.evaluation import evaluate
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.write.writers import write_map

NAMES = ["corn", "soy", "Wald, alt", "water"]
SHAPE = (40, 36)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene of four fields in a GeoTIFF, labels with names, and a model."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    y, x = np.indices(SHAPE)
    truth = (1 + (y // 20) * 2 + x // 18).astype(np.uint8)
    cube = rng.normal(0, 1, (5, 8))[truth] + rng.normal(0, 0.8, (*SHAPE, 8))
    cube[:3, :3] = np.nan
    with rasterio.open(
        folder / "scene.tif", "w", driver="GTiff", height=SHAPE[0], width=SHAPE[1], count=8,
        dtype="float32", nodata=np.nan, crs="EPSG:32633",
        transform=rasterio.transform.from_origin(4e5, 5.8e6, 30, 30),
    ) as out:  # fmt: skip
        out.write(np.moveaxis(cube, -1, 0).astype(np.float32))
    labels = np.where(rng.random(SHAPE) < 0.15, truth, 0).astype(np.uint8)
    table = [ClassInfo(k, name, "") for k, name in enumerate(NAMES, start=1)]
    write_map(folder / "labels.tif", with_classes(xr.DataArray(labels, dims=("y", "x")), table))
    run("train", folder / "scene.tif", folder / "labels.tif", "--out", folder / "m.polyad")
    (folder / "colors.csv").write_text('corn,#ffdd00\n"Wald, alt",0,90,50\n', encoding="utf-8")
    return folder


def names_of(path: Path) -> list[str]:
    return [c.name for c in class_table(open_labels(path))]


def test_map_of_merged_classes_has_the_sum_of_their_probabilities(
    place: Path, tmp_path: Path
) -> None:
    rules = ["--merge", "corn+soy=crops", "--merge", "Wald, alt=forest"]
    out, shares = tmp_path / "map.tif", tmp_path / "p.tif"
    given = (place / "m.polyad", place / "scene.tif")
    run("map", *given, "--out", out, "--probabilities", shares, *rules)
    _, proba = map_scene(
        SceneModel.load(place / "m.polyad"), open_scene(place / "scene.tif"), probabilities=True
    )
    wanted = np.stack([proba[..., 0] + proba[..., 1], proba[..., 2], proba[..., 3]])
    with rasterio.open(shares) as found:
        assert found.descriptions == ("crops", "forest", "water")
        np.testing.assert_allclose(found.read(), wanted, atol=1e-6)
    assert names_of(out) == ["crops", "forest", "water"]
    ids = np.array([1, 3, 4])[np.nan_to_num(wanted).argmax(axis=0)]
    np.testing.assert_array_equal(open_labels(out).values, np.where(np.isnan(wanted[0]), 0, ids))


@pytest.mark.parametrize(
    "ways",
    [
        ["--out-dir", "maps"],
        pytest.param(["--cluster", "local:1", "--out", "map.tif"], marks=pytest.mark.slow),
    ],
)
def test_merged_and_colored_maps_are_the_same_by_every_way_and_their_pixels_counted(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ways: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    run("map", place / "m.polyad", place / "scene.tif", *ways)
    assert capsys.readouterr().out.startswith("1,431 of 1,440 pixels mapped in ")  # 9 without data
    run("map", place / "m.polyad", place / "scene.tif", *ways, "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["pixels"], told["mapped"]) == (1440, 1431)
    for name in ("scene.tif", "two.tif"):
        Path(name).write_bytes((place / "scene.tif").read_bytes())
    more = ["--merge", "corn+soy=corn", "--colors", place / "colors.csv"]
    run("map", place / "m.polyad", "scene.tif", "--out", "one.tif", *more)
    scenes = ["scene.tif", "two.tif"] if "--out-dir" in ways else ["scene.tif"]
    run("map", place / "m.polyad", *scenes, *ways, *more)
    made = list(Path("maps").glob("*.tif")) if "--out-dir" in ways else [Path("map.tif")]
    assert len(made) == len(scenes)
    for path in made:
        assert path.read_bytes() == Path("one.tif").read_bytes()
        assert path.with_suffix(".qml").read_bytes() == Path("one.qml").read_bytes()


def test_colors_reach_palette_names_and_style(place: Path, tmp_path: Path) -> None:
    """With commas, and as a spreadsheet saves a CSV where the comma is the decimal sign."""
    out, given = tmp_path / "map.tif", (place / "m.polyad", place / "scene.tif", "--out")
    run("map", *given, out, "--colors", place / "colors.csv")
    text = "\ufeffclass;color\r\ncorn;#ffdd00\r\nWald, alt;0;90;50\r\n"
    (tmp_path / "colors.csv").write_text(text, encoding="utf-8", newline="")
    run("map", *given, tmp_path / "b.tif", "--colors", tmp_path / "colors.csv")
    assert (tmp_path / "b.tif").read_bytes() == out.read_bytes()
    with rasterio.open(out) as found:
        assert found.colormap(1)[1] == (255, 221, 0, 255)
        assert found.colormap(1)[3] == (0, 90, 50, 255)
    assert 'label="Wald, alt" color="#005a32"' in (tmp_path / "map.qml").read_text("utf-8")
    run("map", *given, tmp_path / "again.tif", "--colors", tmp_path / "map.qml")
    assert (tmp_path / "again.qml").read_bytes() == (tmp_path / "map.qml").read_bytes()


def test_training_learns_merged_classes_and_keeps_their_colors(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model = tmp_path / "m.polyad"
    run("train", place / "scene.tif", place / "labels.tif", "--out", model,
        "--merge", "corn+soy=crops", "--merge", "3=forest", "--json")  # fmt: skip
    assert json.loads(capsys.readouterr().out)["classes"] == ["crops", "forest", "water"]
    scene = open_scene(place / "scene.tif")
    labels = open_labels(place / "labels.tif", scene)
    colored = train(scene, labels, merge="corn+soy=crops", colors={"crops": "#010203"})
    colored.save(model)
    assert SceneModel.load(model).classes[0] == ClassInfo(1, "crops", "#010203")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--merge", "corm+soy=x"], "no class is called 'corm'; the classes are 1 corn, 2 soy"),
        (["--merge", "corn"], "expected classes and the name of the new one"),
        (["--colors", "missing.csv"], "missing.csv: no such file"),
        (["--colors", "other.csv"], "no class is called 'rye'"),
        (["--colors", "o.qml", "--out", "o.tif"], "it is the input o.qml"),
        (["--uncertainty", "u.png"], "expected a name ending in .tif"),
        (["--uncertainty", "map.tif"], "one would replace the other"),
    ],
)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_wrong_options_end_in_one_sentence_and_write_nothing(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture,
    options: list[str], said: str, many: bool,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("other.csv").write_text("rye,#112233\n")
    entry = '<paletteEntry value="1" label="corn" color="#ffdd00"/>'
    Path("o.qml").write_text(f"<qgis>{entry}</qgis>")
    before = sorted(p.name for p in tmp_path.iterdir())
    cluster = ["--cluster", "local:1"] if many else []
    monkeypatch.setattr(
        "polyad.distributed.maps.open_cluster", lambda where: pytest.fail("a cluster started")
    )
    assert run("map", place / "m.polyad", place / "scene.tif", *options, *cluster) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert "\n" not in told
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_uncertainty_says_in_its_bands_what_they_are(
    place: Path, tmp_path: Path, dtype: str
) -> None:
    out = tmp_path / "u.tif"
    run("map", place / "m.polyad", place / "scene.tif", "--out", tmp_path / "map.npy",
        "--uncertainty", out, "--probability-type", dtype)  # fmt: skip
    with rasterio.open(out) as found:
        assert found.descriptions[1] == "1 - (largest - second largest probability)"
        assert found.dtypes == (dtype,) * 3
        bands = found.read(masked=True) * found.scales[0]
        assert bands.mask[:, :3, :3].all()
        assert bands.mask.sum() == 3 * 9
        assert 0 <= bands.min() <= bands.max() <= 1
    assert (bands[1] >= bands[0] - 1e-6).all()  # 1 - (p1 - p2) is never below 1 - p1


def test_merged_model_is_assessed_by_its_merged_classes_and_not_saved(
    place: Path, tmp_path: Path
) -> None:
    scene = open_scene(place / "scene.tif")
    labels = open_labels(place / "labels.tif", scene)
    split = np.argwhere(labels.values > 0)[::2]
    fitted = train(scene, labels.where(np.isin(np.arange(labels.size), np.ravel_multi_index(
        split.T, labels.shape)).reshape(labels.shape), 0).astype(np.uint16))  # fmt: skip
    merged = fitted.merged("corn+soy=crops")
    assert merged.label_counts is not None
    assert fitted.label_counts is not None
    counts = fitted.label_counts
    assert merged.label_counts["crops"] == counts["corn"] + counts["soy"]
    scores = evaluate(merged, scene, labels)
    assert [c.name for c in scores.classes] == ["crops", "Wald, alt", "water"]
    with pytest.raises(InputError, match="merge the labels that it is trained on"):
        merged.save(tmp_path / "m.polyad")


def test_bare_classifier_is_merged_by_ids(place: Path, tmp_path: Path) -> None:
    from sklearn.naive_bayes import GaussianNB

    scene = open_scene(place / "scene.tif")
    labels = open_labels(place / "labels.tif", scene)
    rows, cols = np.nonzero((labels.values > 0) & ~np.isnan(scene.values[..., 0]))
    bare = GaussianNB().fit(scene.values[rows, cols], labels.values[rows, cols])
    map_file(bare, scene, tmp_path / "map.tif", window=1, merge="1+2=crops")
    assert names_of(tmp_path / "map.tif") == ["crops", "class 3", "class 4"]


def test_scene_that_fails_first_does_not_keep_the_next_from_being_merged(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.tif").write_bytes(b"II*\0")
    (tmp_path / "b.tif").write_bytes((place / "scene.tif").read_bytes())
    with pytest.raises(SceneError, match="1 of 2 scenes"):
        map_files(
            SceneModel.load(place / "m.polyad"), [tmp_path / "a.tif", tmp_path / "b.tif"],
            out_dir=tmp_path / "maps", merge="corn+soy=crops",
        )  # fmt: skip
    assert names_of(tmp_path / "maps" / "b.tif")[0] == "crops"


@pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")
def test_a_map_in_a_folder_without_any_class_is_warned_of(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed")
    np.save(tmp_path / "empty.npy", np.full((6, 5, 8), np.nan, np.float32))
    capsys.readouterr()
    run("map", place / "m.polyad", tmp_path / "empty.npy", "--out-dir", tmp_path / "maps")
    told = capsys.readouterr()
    assert told.out.startswith("0 of 30 pixels mapped in ")
    assert "empty.tif has a class: none has data in all bands that the model wants" in told.err
