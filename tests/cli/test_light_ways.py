"""Another light and corrupt pixels on the ways that users take: every command, the same bytes."""

import json

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from land import run
from polyad.errors import PolyadWarning
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.mapping import map_file, map_scene
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

HEIGHT, WIDTH, BANDS = 60, 44, 24
pytestmark = pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")


def write(path, values, dtype="int16"):
    profile = {
        "driver": "GTiff", "height": HEIGHT, "width": WIDTH, "crs": "EPSG:32633",
        "transform": from_origin(400000, 5800000, 3.7, 3.7), "dtype": dtype,
        "count": 1 if values.ndim == 2 else BANDS, "nodata": 0 if values.ndim == 2 else -9,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as out:
        out.write(values.astype(dtype)[None] if values.ndim == 2 else np.moveaxis(values, -1, 0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scene, the same in another light, and that with a column of noise and broken pixels."""
    place = tmp_path_factory.mktemp("light")
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    truth = (y // 15 + x // 11) % 3
    wave = np.linspace(0, 1, BANDS)
    spectra = np.array([1500 + 500 * np.sin(3 * wave + k) + 250 * k * wave for k in range(3)])
    cube = spectra[truth] * rng.uniform(0.95, 1.05, (HEIGHT, WIDTH, 1))
    cube = np.rint(cube + rng.normal(0, 12, cube.shape))
    cube[:4, :9] = -9
    light = np.where(cube == -9, -9, np.rint(1.3 * cube + 150))
    broken = light.copy()
    broken[:, 30] = rng.uniform(500, 4000, (HEIGHT, BANDS))
    broken[[20, 33], [5, 17]] = 30000
    for name, values in (("scene", cube), ("light", light), ("broken", broken)):
        write(place / f"{name}.tif", values.astype(np.int16))
    labels = np.where(rng.random((HEIGHT, WIDTH)) < 0.06, truth + 1, 0)
    write(place / "labels.tif", labels, "uint8")
    write(place / "truth.tif", truth + 1, "uint8")
    for name, options in {
        "fast": ["--preset", "fast"],
        "best": ["--preset", "best", "--goal", "other-scenes"],
    }.items():
        run("train", place / "scene.tif", place / "labels.tif", "--out", place / name, *options)
    return place


def accuracy(path, folder):
    same = open_labels(path).values == open_labels(folder / "truth.tif").values
    same[:4, :9] = True
    return same.mean()


def test_the_command_warns_without_and_adapts_with_the_option(folder, tmp_path, capsys):
    model, scene = folder / "fast", folder / "light.tif"
    run("map", model, scene, "--out", tmp_path / "a.tif")
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "polyad: warning: radiometric shift" in said.err
    assert "about 1.30 times the training scene's plus 15" in said.err
    run("map", model, scene, "--out", tmp_path / "b.tif", "--adapt")
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("adapted to the scene's light by")
    assert accuracy(tmp_path / "b.tif", folder) > 0.95 > accuracy(tmp_path / "a.tif", folder)


def test_a_model_for_other_scenes_adapts_by_itself(folder, tmp_path, capsys):
    run("map", folder / "best", folder / "light.tif", "--out", tmp_path / "a.tif", "--json")
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert said.err == ""
    assert told["adapted"].startswith("adapted to the scene's light")
    assert told["pixels_replaced"] == 0
    assert accuracy(tmp_path / "a.tif", folder) > 0.95
    run("map", folder / "best", folder / "light.tif", "--out", tmp_path / "b.tif", "--no-adapt")
    assert "radiometric shift" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["constant", "random"])
def test_a_scene_that_no_light_explains_is_told_once_and_mapped_as_it_is(
    name, folder, tmp_path, capsys
):
    rng, shape = np.random.default_rng(0), (HEIGHT, WIDTH, BANDS)
    values = np.full(shape, 5) if name == "constant" else rng.integers(0, 4000, shape)
    write(tmp_path / "other.tif", values.astype(np.int16))
    words = (folder / "best", tmp_path / "other.tif")
    run("map", *words, "--out", tmp_path / "a.tif", "--no-adapt")
    said = capsys.readouterr()
    assert "radiometric shift" not in said.err
    (sentence,) = said.err.removeprefix("polyad: warning: ").splitlines()
    assert "near the training scene" in sentence
    run("map", *words, "--out", tmp_path / "b.tif", "--adapt")
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith(f"not adapted: {sentence}\n")
    maps = [open_labels(tmp_path / path).values for path in ("a.tif", "b.tif")]
    np.testing.assert_array_equal(*maps)
    run("evaluate", *words, folder / "truth.tif", "--adapt", "--json")
    assert json.loads(capsys.readouterr().out)["adapted"] == f"not adapted: {sentence}"


def test_evaluate_takes_the_same_option(folder, tmp_path, capsys):
    words = ("evaluate", folder / "fast", folder / "light.tif", folder / "truth.tif")
    run(*words, "--json", "--adapt")
    told = json.loads(capsys.readouterr().out)
    assert told["overall_accuracy"] > 0.95
    assert told["adapted"].startswith("adapted to the scene's light")
    run(*words, "--adapt", "--report", tmp_path / "page.html")
    assert "adapted to the scene" in capsys.readouterr().out
    assert "adapted to the scene" in (tmp_path / "page.html").read_text()
    run(*words, "--json")
    said = capsys.readouterr()
    assert "radiometric shift" in said.err
    assert json.loads(said.out)["overall_accuracy"] < 0.9


def test_corrupt_pixels_are_counted_and_mapped_as_their_neighbors(folder, tmp_path, capsys):
    words = ("map", folder / "best", folder / "broken.tif", "--out")
    run(*words, tmp_path / "a.tif", "--json")
    assert json.loads(capsys.readouterr().out)["pixels_replaced"] == HEIGHT + 2
    assert accuracy(tmp_path / "a.tif", folder) > 0.95
    run(*words, tmp_path / "b.tif", "--tile", "16")
    told = "62 pixels looked corrupt and were replaced by their neighbors"
    assert told in capsys.readouterr().out
    maps = [open_labels(tmp_path / path).values for path in ("a.tif", "b.tif")]
    np.testing.assert_array_equal(*maps)


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_train_map_and_evaluate_count_the_same_corrupt_pixels(folder, tmp_path, capsys, preset):
    few = open_labels(folder / "labels.tif").values.copy()
    few[:, 18:] = 0  # far from the column of noise, which a window around a label does not reach
    write(tmp_path / "few.tif", few, "uint8")
    # Best reads the part inside a mask once for the noise and once for the graphs
    write(tmp_path / "mask.tif", np.arange(HEIGHT)[:, None].repeat(WIDTH, 1) >= 10, "uint8")
    mask = ("--mask", tmp_path / "mask.tif") if preset == "best" else ()
    scene, counts = folder / "broken.tif", []
    for words in (
        ("train", scene, tmp_path / "few.tif", "--out", tmp_path / "m", "--preset", preset),
        ("map", tmp_path / "m", scene, "--out", tmp_path / "a.tif"),
        ("evaluate", tmp_path / "m", scene, folder / "truth.tif"),
    ):
        run(*words, *mask)
        counts += [line for line in capsys.readouterr().out.splitlines() if "corrupt" in line]
    found = (HEIGHT - 10 if mask else HEIGHT) + 2
    assert counts == [f"{found} pixels looked corrupt and were replaced by their neighbors"] * 3


def test_of_a_large_scene_that_was_read_in_part_no_number_is_given(folder, monkeypatch):
    from polyad.scene.learn.radiometry import corrupt_pixels

    scene = SceneModel.load(folder / "fast").view(open_scene(folder / "broken.tif"))
    monkeypatch.setattr("polyad.scene.learn.radiometry.SMALL", 100)
    assert corrupt_pixels(scene) is None
    scene.despiking.whole = True
    assert corrupt_pixels(scene) is not None


@pytest.mark.parametrize("name", ["fast", "best"])
def test_every_way_writes_the_same_bytes(name, folder, tmp_path, capsys):
    model, scene = folder / name, folder / "broken.tif"
    run("map", model, scene, "--out", tmp_path / "map.tif", "--adapt")
    run("map", model, scene, "--out-dir", tmp_path / "maps", "--adapt")
    said = capsys.readouterr().out
    assert said.count("adapted to the scene's light") == 2
    assert said.count("62 pixels looked corrupt") == 2
    map_file(SceneModel.load(model), open_scene(scene), tmp_path / "same.tif", adapt=True)
    wanted = (tmp_path / "map.tif").read_bytes()
    assert (tmp_path / "maps/broken.tif").read_bytes() == wanted
    assert (tmp_path / "same.tif").read_bytes() == wanted


def test_many_scenes_are_each_adapted_to_their_own_light(folder, tmp_path, capsys):
    scenes = [folder / f"{name}.tif" for name in ("scene", "light", "broken")]
    run("map", folder / "best", *scenes, "--out-dir", tmp_path, "--json")
    told = json.loads(capsys.readouterr().out)
    assert [a is None for a in told["adapted"]] == [True, False, False]
    for scene in scenes:
        assert accuracy(tmp_path / scene.name, folder) > 0.95


@pytest.mark.slow
def test_a_cluster_maps_in_the_scenes_light(folder, tmp_path, capsys):
    pytest.importorskip("distributed")
    scene, out = folder / "broken.tif", tmp_path / "map.tif"
    run("map", folder / "best", scene, "--out", out, "--cluster", "local:1", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["pixels_replaced"] == HEIGHT + 2
    run("map", folder / "best", scene, "--out", tmp_path / "same.tif")
    assert out.read_bytes() == (tmp_path / "same.tif").read_bytes()


def test_a_lazy_map_is_that_of_map_scene(folder):
    pytest.importorskip("dask")
    from polyad.distributed import map_lazy

    model, scene = SceneModel.load(folder / "fast"), open_scene(folder / "broken.tif")
    wanted = map_scene(model, scene, adapt=True).values
    lazy = map_lazy(model, scene.chunk(y=17, x=13), adapt=True)
    np.testing.assert_array_equal(lazy.values, wanted)


def test_the_page_maps_tiles_as_the_whole(folder, tmp_path):
    pytest.importorskip("fastapi")
    from polyad.app import TrainSettings, prepare

    scene = open_scene(folder / "broken.tif")
    options = {"journal": tmp_path / "j", "settings": TrainSettings(preset="fast")}
    with pytest.warns(PolyadWarning, match="2 labels lie where the scene has no data"):
        page = prepare(scene, open_labels(folder / "labels.tif"), **options).start()
    try:
        wanted = map_scene(page.model(), scene).values
        np.testing.assert_array_equal(page.workspace.trainer.newest_map.ids, wanted)
    finally:
        page.stop()
