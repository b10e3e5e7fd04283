"""Forged model files: each is refused in one sentence, or maps a scene in bounded work."""

import copy
import hashlib
import json
import os
import struct
import warnings
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from polyad import load
from polyad.errors import ModelFileError, PolyadError, PolyadWarning, SceneMismatch
from polyad.estimators.file_format import HEADER_BYTES
from polyad.scene.assess.evaluation import held_out
from polyad.scene.info import describe
from polyad.scene.learn import steps
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import packed
from polyad.scene.learn.training import train
from polyad.scene.map.classifier import piece_side
from polyad.scene.map.mapping import map_scene, scene_tiles
from tests.models import bare_model

SHAPE, BANDS = (12, 13), 5


def make_scene():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(13) // 7, 12).reshape(13, 12).T
    values = truth[..., None] * np.arange(BANDS) + rng.normal(size=(*SHAPE, BANDS))
    return xr.DataArray(values.astype(np.float32), dims=("y", "x", "band")), truth + 1


@pytest.fixture(scope="module")
def scene():
    return make_scene()[0]


@pytest.fixture(scope="module")
def labels():
    values = np.zeros(SHAPE, np.uint16)
    values[3::4] = make_scene()[1][3::4]
    return xr.DataArray(values, dims=("y", "x"))


@pytest.fixture(scope="module")
def files(scene, labels, tmp_path_factory):
    """Model files of each goal of the best preset, and of the plain network."""
    folder = tmp_path_factory.mktemp("models")
    options = {"window": 3, "hidden": 4, "epochs": 3}
    for goal in ("this-scene", "other-scenes"):
        model = train(scene, labels, preset="best", goal=goal, starts=1, folds=0, **options)
        model.save(folder / goal)
    train(scene, labels, **options).save(folder / "plain")
    return {path.name: path for path in folder.iterdir()}


def header_of(path):
    with safe_open(path, framework="pt") as content:
        return json.loads(content.metadata()["polyad"])


def forge(path, text, out, weights=None):
    """Write the model with another header, or with other weights, and the checksum to match."""
    weights = load_file(path) if weights is None else weights
    digest = hashlib.sha256(text.encode())
    for name in sorted(weights):
        digest.update(f"{name} {weights[name].dtype} {tuple(weights[name].shape)}".encode())
        digest.update(weights[name].numpy().tobytes())
    save_file(weights, out, {"polyad": text, "sha256": digest.hexdigest()})
    return out


def put(tree, keys, value):
    """Return a copy of ``tree`` with another value at the end of ``keys``."""
    tree = copy.deepcopy(tree)
    place = tree
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return tree


SCENE = ("about", "scene")
STEP = (*SCENE, "recipe", "steps", 0)
ACCURACY = (*SCENE, "training", "accuracy")
FORGED = {
    "a propagation for years": ("this-scene", (*STEP, "settings", "iterations"), 10**9),
    "all pixels neighbors": ("this-scene", (*STEP, "settings", "neighbors"), 10**6),
    "a thousand graphs": ("this-scene", (*STEP, "settings", "graphs"), [[8, 2.0]] * 1000),
    "a setting of the future": ("this-scene", (*STEP, "settings", "power"), 2),
    "weights of NaN": ("this-scene", (*STEP, "weights"), [float("nan"), 1.0]),
    "targets beyond the classes": ("this-scene", (*STEP, "targets", 0), 2),
    "too few targets": ("this-scene", (*STEP, "targets"), [0]),
    "a filter of a thousand pixels": ("other-scenes", (*STEP, "radius"), 1000),
    "a filter without ridge": ("other-scenes", (*STEP, "ridge"), 0),
    "a guide of other bands": ("other-scenes", (*STEP, "mean"), [0.0]),
    "a ragged guide": ("other-scenes", (*STEP, "projection", 0), [1.0]),
    "an unknown step": ("other-scenes", (*STEP, "step"), "explode"),
    "a window of a kilometer": ("plain", (*SCENE, "window"), 10**9),
    "a color that is markup": ("plain", (*SCENE, "output", "classes", 0, 2), "<script>"),
    "a color that is none": ("plain", (*SCENE, "output", "classes", 0, 2), [300, 0, 0]),
    "a name for the terminal": ("plain", (*SCENE, "output", "classes", 0, 1), "\x1b]0;x\x07"),
    "half a character": ("plain", (*SCENE, "output", "classes", 0, 1), "\ud800"),
    "an endless name": ("plain", (*SCENE, "output", "classes", 0, 1), "x" * 10**6),
    "a class that is no id": ("plain", (*SCENE, "output", "classes", 0, 0), 65536),
    "a line for the terminal": ("other-scenes", (*SCENE, "recipe", "line"), "\x1b[2J"),
    "a pixel before the scene": ("plain", (*SCENE, "training", "packed_pixels"), "/////wAAAAA="),
    "half a pixel": ("plain", (*SCENE, "training", "packed_pixels"), "AAAA"),
    "pixels that are no code": ("plain", (*SCENE, "training", "packed_pixels"), "é"),
    "infinite wavelengths": ("plain", (*SCENE, "spectral", "wavelength"), [float("inf")] * BANDS),
    "infinite fill": ("plain", (*SCENE, "fill"), [1e39] * BANDS),
    "seconds of NaN": ("plain", (*SCENE, "training", "seconds"), float("nan")),
    "a view of the future": ("plain", (*SCENE, "training", "choice", "experts", 0, 0), "x-ray"),
    "an accuracy beyond all": ("plain", (*SCENE, "training", "choice", "overall"), 1.5),
    "an accuracy of no folds": ("plain", (*ACCURACY, "spatial", "folds"), 0),
    "an accuracy of another class": ("plain", (*ACCURACY, "spatial", "classes", 0, "name"), "?"),
    "a class that needs labels and is none": (
        "plain",
        (*ACCURACY, "needed"),
        [{"name": "?", "places": 5}],
    ),
    "more weights than experts": ("plain", (*SCENE, "training", "choice", "weights"), [0.5] * 9),
    "a light of other bands": ("plain", (*SCENE, "radiometry", "scene", 0), [0.0]),
    "a light of NaN": ("plain", (*SCENE, "radiometry", "scene", 0, 0), float("nan")),
    "too few quantiles": ("plain", (*SCENE, "radiometry", "training"), [[0.0] * BANDS]),
    "quantiles that fall": ("plain", (*SCENE, "radiometry", "scene", 0), [1e30] * BANDS),
    "half a spectrum": ("plain", (*SCENE, "radiometry", "spectra"), "AAAA"),
    "no spectrum": ("plain", (*SCENE, "radiometry", "spectra"), ""),
    "infinite spectra": ("plain", (*SCENE, "radiometry", "spectra"), "AACAfw==" * BANDS),
    "spectra without end": ("plain", (*SCENE, "radiometry", "spectra"), "A" * 10**6),
    "a soundness of nothing": ("plain", (*SCENE, "soundness"), {}),
    "as many corrupt pixels as none": ("plain", (*SCENE, "training", "replaced"), -1),
    "a key of the future": ("plain", (*SCENE, "power"), 2),
    "epochs for years": ("plain", ("parameters", "epochs"), 10**12),
    "a negative number of units": ("plain", ("parameters", "hidden"), -1),
    "a history of text": ("plain", ("history", "loss"), ["x"]),
    "a history of other length": ("plain", ("history", "seconds"), [1.0]),
    "as many features as nobody has": ("plain", ("feature_names",), ["a"] * 7),
    "a class beyond any type": ("plain", ("classes", "values", 0), 10**30),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_header_is_refused_by_its_key(what, files, tmp_path):
    name, keys, value = FORGED[what]
    forged = put(header_of(files[name]), keys, value)
    path = forge(files[name], json.dumps(forged), tmp_path / "m.polyad")
    key = next(k for k in reversed(keys) if isinstance(k, str))
    with pytest.raises(ModelFileError, match=key) as refused:
        SceneModel.load(path)
    message = str(refused.value)
    assert len(message) < 600 + len(str(path))
    assert message.isprintable()


def test_a_model_whose_classes_were_renamed_is_kept_with_its_accuracy(files, tmp_path):
    model = SceneModel.load(files["plain"])
    other = model.renamed([c._replace(name=f"new {c.name}") for c in model.classes])
    other.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert [c.name for c in again.classes] == ["new class 1", "new class 2"]
    assert [c.name for c in again.accuracy.spatial.classes] == ["new class 1", "new class 2"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("center", [0.0]),
        ("scale", [0.0] * 18),
        ("tail", [float("nan")] * 18),
        ("sum_center", [0.0]),
        ("sum_scale", [-1.0] * 32),
        ("power", 1),
    ],
)
def test_a_forged_soundness_is_refused_by_its_key(key, value, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(*SHAPE, 20)).astype(np.float32)
    wide = xr.DataArray(values, dims=("y", "x", "band"))
    marks = np.zeros(SHAPE, np.uint16)
    marks[2, :6], marks[8, :6] = 1, 2
    model = train(wide, xr.DataArray(marks, dims=("y", "x")), window=1, hidden=2, epochs=1)
    model.save(tmp_path / "good")
    forged = put(header_of(tmp_path / "good"), (*SCENE, "soundness", key), value)
    path = forge(tmp_path / "good", json.dumps(forged), tmp_path / "m.polyad")
    with pytest.raises(ModelFileError, match=key):
        SceneModel.load(path)


def test_training_pixels_outside_the_scene_are_refused(files, tmp_path, scene, labels):
    for name in ("this-scene", "plain"):
        header = header_of(files[name])
        n = len(SceneModel.load(files[name]).training.pixels)
        moved = packed([[10**6, 3]] * n)
        forged = put(header, (*SCENE, "training", "packed_pixels"), moved)
        model = SceneModel.load(forge(files[name], json.dumps(forged), tmp_path / name))
        use = map_scene if name == "this-scene" else lambda m, s: held_out(m, s, labels)
        with pytest.raises(ModelFileError, match=r"pixels up to \[1000000, 3\], the scene has 12"):
            use(model, scene)


# -- what reading costs -----------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["[],", "{},", '{"a":1},', "0,", '"ab",'])
def test_a_header_of_millions_of_values_is_refused_before_it_is_read(sign, files, tmp_path):
    head = json.dumps(header_of(files["plain"]))
    text = head[:-1] + ', "power": [' + sign * (5 * 2**20) + "0]}"
    path = forge(files["plain"], text, tmp_path / "m.polyad")
    with pytest.raises(ModelFileError, match=r"lists and .* commas, got|expected a header"):
        load(path)


def test_a_header_longer_than_any_is_refused_by_its_length(files, tmp_path):
    path = tmp_path / "m.polyad"
    path.write_bytes(struct.pack("<Q", HEADER_BYTES + 1) + b'{"a": ')
    os.truncate(path, HEADER_BYTES + 10**6)  # a sparse file
    with pytest.raises(ModelFileError, match="expected a header of at most 33,554,432 bytes"):
        load(path)


@pytest.mark.parametrize("size", [2**29, 2**40])
def test_a_tensor_that_the_header_has_no_place_for_is_not_read(size, files, tmp_path):
    """A sparse file: the size of a file tells nothing of what somebody paid for it."""
    entry = {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}
    meta = {"polyad": json.dumps(header_of(files["plain"])), "sha256": ""}
    text = json.dumps({"__metadata__": meta, "network.hidden.bias": entry}).encode()
    path = tmp_path / "m.polyad"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + size)
    with pytest.raises(ModelFileError, match=r"lacks the tensor|and weights of 268,435,456"):
        load(path)


@pytest.mark.unix
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.polyad")
    for read in (load, SceneModel.load, lambda p: describe(str(p))):
        with pytest.raises(ModelFileError, match="is a named pipe"):
            read(tmp_path / "m.polyad")


def test_tiles_of_very_many_classes_are_small(files, scene):
    model = SceneModel.load(files["plain"])
    many = bare_model(model.estimator, 3, model.classes * 30_000, BANDS)
    large = xr.DataArray(np.broadcast_to(np.float32(0), (4000, 4000, BANDS)), dims=scene.dims)
    assert scene_tiles(large, model=model) == scene_tiles(large)
    tile = scene_tiles(large, model=many)[0]
    assert np.prod(tile.shape) * len(many.classes) * 4 <= 512 * 2**20
    assert piece_side(many) == 16


# -- any change at all ------------------------------------------------------------------------

NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 17, 255, 65535, 65536, 2**31, 2**63, 10**30, -(10**30)])
VALUES = st.one_of(
    NUMBERS,
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=8),
    st.sampled_from(["", "auto", "object", "<U1", "<f8", "guided", "propagate", "best", "#00ff00"]),
    st.lists(NUMBERS, max_size=3),
    st.lists(st.lists(st.floats(), max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=3), NUMBERS, max_size=2),
)


def paths_of(tree, start=()):
    """Yield the keys to everything in a tree; of a list the first and the last entry."""
    if start:
        yield start
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from paths_of(value, (*start, key))
    elif isinstance(tree, list) and tree:
        for place in sorted({0, len(tree) - 1}):
            yield from paths_of(tree[place], (*start, place))


@st.composite
def changes(draw, tree):
    """Return the tree with one to three values changed, dropped, doubled or added."""
    for _ in range(draw(st.integers(1, 3))):
        tree = copy.deepcopy(tree)
        *way, last = draw(st.sampled_from(list(paths_of(tree))))
        place = tree
        for key in way:
            place = place[key]
        how = draw(st.sampled_from(["change", "change", "change", "drop", "double", "add"]))
        if how == "change":
            place[last] = draw(VALUES)
        elif how == "drop":
            del place[last]
        elif isinstance(place, list):
            place.insert(last, place[last])
        elif how == "add":
            place[draw(st.text(max_size=6))] = draw(VALUES)
    return tree


@pytest.mark.parametrize("name", ["this-scene", "other-scenes", "plain"])
def test_any_change_is_refused_or_maps_the_scene_in_bounded_work(
    name, files, tmp_path, scene, monkeypatch
):
    iterations = []
    propagate = steps.propagate_labels
    monkeypatch.setattr(
        "polyad.scene.learn.steps.propagate_labels",
        lambda graph, seeds, alpha, steps, *check: (
            iterations.append(steps) or propagate(graph, seeds, alpha, min(steps, 5), *check)
        ),
    )
    header, weights = header_of(files[name]), load_file(files[name])
    path = tmp_path / "m.polyad"

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(changes(header))
    def tried(changed):
        text = json.dumps(changed)
        forge(files[name], text, path, weights)
        try:
            model = SceneModel.load(path)
        except ModelFileError:
            return
        except SceneMismatch:  # it says nothing of a scene
            return
        iterations.clear()
        with warnings.catch_warnings(), suppress(PolyadError):
            warnings.simplefilter("ignore", PolyadWarning)  # of a scene it was not trained on
            assert map_scene(model, scene).shape == SHAPE
        assert sum(iterations) <= 4 * 500
        describe(str(path))

    tried()
