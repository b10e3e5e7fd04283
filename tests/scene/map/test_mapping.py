"""Whole-scene mapping is patch by patch, only faster and in less memory."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import xarray as xr
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from polyad import RankRClassifier, RankRNet
from polyad.errors import InputError, OutputError, SceneMismatch
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.assess.evaluation import map_pixels
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_file, map_scene
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.scenes import open_scene, scene_from_array
from tests.models import bare_model

BANDS = 5
IDS = np.array([2, 5, 300])
UTM = Affine(10.0, 0.0, 500_000.0, 0.0, -10.0, 4_000_000.0)


def rank_r(
    shape, rank=2, hidden=7, ids=IDS, hidden_bias=True, activation="tanh", dtype=torch.float32,
    standardize=-1, seed=0,
):  # fmt: skip
    """A classifier with random weights and standardization: nothing needs to be learned."""
    model = RankRClassifier(rank, hidden, hidden_bias=hidden_bias, activation=activation)
    generator = torch.Generator().manual_seed(seed)
    model.network_ = RankRNet(
        shape, hidden, len(ids), rank, activation, hidden_bias=hidden_bias, dtype=dtype,
        generator=generator,
    )  # fmt: skip
    if hidden_bias:
        torch.nn.init.normal_(model.network_.hidden.bias, generator=generator)
    model.classes_, model.sample_shape_, model.n_features_in_ = ids, tuple(shape), shape[0]
    model.scaler_ = None
    if standardize is not None:
        rng = np.random.default_rng(seed)
        size = shape[standardize]
        scaler = ModeStandardScaler(standardize)
        scaler.mean_, scaler.scale_ = rng.normal(size=size), rng.uniform(0.5, 2.0, size)
        scaler.sample_shape_, scaler.n_features_in_ = tuple(shape), shape[0]
        model.scaler_ = scaler
    return model


def scene_of(height, width, bands=BANDS, dtype=np.float32, seed=0):
    values = np.random.default_rng(seed).normal(size=(height, width, bands)) * 3
    if np.dtype(dtype).kind in "iu":
        values = np.clip(values * 20 + 100, 0, 300)
    return scene_from_array(values.astype(dtype), crs="EPSG:32633", transform=UTM)


def patch_by_patch(model, scene, window):
    """The slow way: cut a patch around every pixel and ask the classifier."""
    height, width = scene.shape[:2]
    rows, cols = np.indices((height, width)).reshape(2, -1)
    patches = extract_patches(scene, rows, cols, window).astype(np.float32)
    shape = getattr(model, "sample_shape_", patches.shape[1:])
    return model.predict_proba(patches.reshape(-1, *shape)).reshape(height, width, -1)


def assert_equal_maps(model, scene, side, **options):
    wanted = patch_by_patch(model, scene, side)
    class_map, proba = map_scene(model, scene, probabilities=True, **options)
    np.testing.assert_allclose(proba.values, wanted, atol=2e-5)
    # A pixel on the very edge between two classes may fall to either side
    order = np.sort(wanted, axis=-1)
    clear = order[..., -1] - order[..., -2] > 1e-4
    best = model.classes_[wanted.argmax(axis=-1)]
    np.testing.assert_array_equal(class_map.values[clear], best[clear])
    np.testing.assert_array_equal(class_map.values, model.classes_[proba.values.argmax(axis=-1)])


# -- equality with patch by patch --------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    window=st.sampled_from([1, 3, 5, 7, 9]),
    rank=st.integers(1, 3),
    hidden_bias=st.booleans(),
    activation=st.sampled_from(["tanh", "relu", "sigmoid", "identity"]),
    tile=st.one_of(st.none(), st.integers(1, 21)),
    seed=st.integers(0, 5),
)
def test_separable_equals_patch_by_patch(
    height, width, window, rank, hidden_bias, activation, tile, seed
):
    model = rank_r(
        (window, window, BANDS), rank, hidden_bias=hidden_bias, activation=activation, seed=seed
    )
    assert_equal_maps(model, scene_of(height, width, seed=seed), window, tile=tile)


@pytest.mark.parametrize("pieces", [17, 60, 10**6])
def test_no_seam_is_seen_between_the_pieces_of_a_tile(pieces, monkeypatch):
    model, scene = rank_r((5, 5, BANDS)), scene_of(70, 40)
    wanted = map_scene(model, scene, probabilities=True)[1].values
    monkeypatch.setattr("polyad.scene.map.classifier.piece_side", lambda model: pieces)
    found = map_scene(model, scene, probabilities=True)[1].values
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "u2", "i2", "i4", ">i2", ">f4"])
def test_scenes_of_every_type(dtype):
    model = rank_r((3, 3, BANDS))
    if np.dtype(dtype).kind in "iu":
        model.scaler_.mean_ += 100
        model.scaler_.scale_ *= 50
    scene = scene_of(15, 11, dtype=dtype)
    assert_equal_maps(model, scene, 3)
    scene.values.flags.writeable = False
    assert_equal_maps(model, scene, 3)


def test_values_whose_sum_is_beyond_float32_are_values_all_the_same():
    model, scene = rank_r((3, 3, BANDS)), scene_of(15, 11) * np.float32(1e36) + np.float32(1e37)
    model.scaler_.mean_ += 1e37
    model.scaler_.scale_ *= 1e36
    assert scene.values.sum(dtype=np.float64) > np.finfo(np.float32).max
    assert_equal_maps(model, scene, 3)


@pytest.mark.parametrize(
    ("shape", "options", "window"),
    [
        ((3, 3, BANDS), {"dtype": torch.float64}, 3),
        ((3, 3, BANDS), {"standardize": None}, 3),
        ((BANDS,), {}, 1),
        ((3 * 3 * BANDS,), {}, 3),
    ],
)
def test_networks_of_other_kinds(shape, options, window):
    assert_equal_maps(rank_r(shape, **options), scene_of(9, 8), window, window=window)


@pytest.mark.parametrize("standardize", [-1, -2, None])
def test_samples_of_order_four(standardize):
    model = rank_r((3, 3, 4, 6), standardize=standardize)
    assert_equal_maps(model, scene_of(10, 12, bands=24), 3)
    assert_equal_maps(model, scene_of(10, 12, bands=24), 3, tile=5)


def test_a_fitted_network_on_real_numbers():
    scene = scene_of(20, 20, bands=12, dtype="uint16")
    labels = xr.DataArray(np.random.default_rng(1).choice([0, 0, 2, 9], (20, 20)), dims=("y", "x"))
    model = train(scene, labels.astype("uint16"), window=5, hidden=9, epochs=10, rank=2)
    assert_equal_maps(model.estimator, scene, 5)


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_a_lazily_opened_file_is_mapped_as_the_array_in_memory(tmp_path, interleave):
    scene = scene_of(33, 21, dtype="int16")
    axes = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    (tmp_path / "s.img").write_bytes(scene.values.transpose(axes).tobytes())
    (tmp_path / "s.hdr").write_text(
        f"ENVI\nsamples = 21\nlines = 33\nbands = {BANDS}\ndata type = 2\nbyte order = 0\n"
        f"interleave = {interleave}\n"
    )
    model = rank_r((5, 5, BANDS))
    found = map_scene(model, open_scene(tmp_path / "s.hdr"), probabilities=True, tile=8)
    wanted = map_scene(model, scene, probabilities=True, tile=8)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.values, b.values)


def test_given_pixels_are_classified_as_in_the_map():
    scene = scene_of(40, 30)
    model = bare_model(
        rank_r((3, 3, BANDS)), 3, tuple(ClassInfo(int(v), f"c{v}", "#000000") for v in IDS), BANDS
    )
    pixels = np.argwhere(np.random.default_rng(0).random((40, 30)) < 0.1)[::-1]
    ids, proba = map_pixels(model, scene, pixels)
    class_map, shares = map_scene(model, scene, probabilities=True)
    np.testing.assert_array_equal(ids, class_map.values[tuple(pixels.T)])
    np.testing.assert_array_equal(proba, shares.values[tuple(pixels.T)])


# -- what comes out ----------------------------------------------------------------------------


def test_a_map_has_the_ids_learned_and_lies_where_its_scene_lies():
    scene = scene_of(30, 30).isel(y=slice(5, 25), x=slice(3, 29))
    class_map, proba = map_scene(rank_r((3, 3, BANDS)), scene, probabilities=True)
    assert class_map.dtype == np.uint16  # 300 does not fit in a byte
    assert set(np.unique(class_map.values)) == set(IDS)
    assert georeference(class_map) == georeference(scene)
    assert class_map.rio.nodata == 0
    np.testing.assert_allclose(proba.values.sum(axis=-1), 1.0, atol=1e-6)
    assert list(proba["class"].values) == [c.name for c in class_table(class_map)]


# -- pixels without data -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "nodata", "blank"),
    [("float32", None, np.nan), ("float32", None, np.inf), ("float32", -9999.0, -9999.0),
     ("int16", -9999, -9999), ("uint16", 0, 0)],
)  # fmt: skip
def test_pixels_without_data_come_out_as_no_class(dtype, nodata, blank):
    scene = scene_of(12, 14, dtype=dtype) + np.dtype(dtype).type(1)
    scene = scene_from_array(scene.values.astype(dtype), nodata=nodata)
    scene.values[3, 4, 2] = blank  # one band is enough
    scene.values[0, 0] = blank
    class_map, proba = map_scene(rank_r((3, 3, BANDS)), scene, probabilities=True, tile=5)
    gone = np.zeros((12, 14), bool)
    gone[3, 4] = gone[0, 0] = True
    np.testing.assert_array_equal(class_map.values == 0, gone)
    np.testing.assert_array_equal(np.isnan(proba.values), np.repeat(gone[..., None], 3, axis=-1))


@pytest.mark.parametrize("shape", [(3, 3, BANDS), (3, 3, 1, BANDS)])
def test_a_pixel_without_data_counts_as_the_mean_in_its_neighbors_windows(shape):
    model, scene = rank_r(shape), scene_of(9, 9)
    scene.values[4, 4] = model.scaler_.mean_
    wanted = map_scene(model, scene, probabilities=True)[1].values
    scene.values[4, 4, 1] = np.nan
    found = map_scene(model, scene, probabilities=True)[1].values
    here = np.isnan(found)
    assert here.any(axis=-1).sum() == 1
    np.testing.assert_allclose(found[~here], wanted[~here], atol=1e-6)


# -- classifiers of other kinds ----------------------------------------------------------------


def samples(scene, window=1, n=60):
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, scene.shape[0], n), rng.integers(0, scene.shape[1], n)
    return extract_patches(scene, rows, cols, window), rng.choice([4, 9], n)


@pytest.mark.parametrize(
    "classifier",
    [SVC(), RandomForestClassifier(5, random_state=0), make_pipeline(StandardScaler(), SVC())],
    ids=lambda c: type(c).__name__,
)
def test_any_classifier_of_spectra_is_mapped(classifier):
    scene = scene_of(14, 12)
    X, y = samples(scene)
    classifier.fit(X[:, 0, 0], y)
    class_map, proba = map_scene(classifier, scene, probabilities=True, tile=6)
    wanted = classifier.predict(scene.values.reshape(-1, BANDS)).reshape(14, 12)
    np.testing.assert_array_equal(class_map.values, wanted)
    np.testing.assert_allclose(proba.values.sum(axis=-1), 1.0, atol=1e-6)


def middle(X):
    return X[:, X.shape[1] // 2, X.shape[2] // 2]


@pytest.mark.parametrize("flat", [False, True])
def test_a_pipeline_of_patches_is_mapped(flat):
    scene = scene_of(14, 12)
    X, y = samples(scene, window=3)
    first = FunctionTransformer() if flat else FunctionTransformer(middle)
    pipeline = make_pipeline(first, StandardScaler(), RandomForestClassifier(9, random_state=0))
    pipeline.fit(X.reshape(len(X), -1) if flat else X, y)
    rows, cols = np.indices((14, 12)).reshape(2, -1)
    patches = extract_patches(scene, rows, cols, 3)
    patches = patches.reshape(len(patches), -1) if flat else patches
    class_map, proba = map_scene(pipeline, scene, window=3, probabilities=True, tile=5)
    np.testing.assert_array_equal(class_map.values.ravel(), pipeline.predict(patches))
    np.testing.assert_allclose(proba.values.reshape(-1, 2), pipeline.predict_proba(patches))


# -- refusals ----------------------------------------------------------------------------------


def fitted(classifier, shape, y=(1, 2)):
    X = np.random.default_rng(0).normal(size=(20, *shape))
    return classifier.fit(X, np.resize(y, 20))


@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        (rank_r((3, 3, 4)), {}, SceneMismatch, "wants 4 bands, scene has 5"),
        (rank_r((4,)), {}, SceneMismatch, "wants 4 bands, scene has 5"),
        (fitted(SVC(), (4,)), {}, SceneMismatch, "wants 4 bands, scene has 5"),
        (fitted(SVC(), (4,)), {"window": 3}, InputError, "expected a model of windows of 3 x 3"),
        (rank_r((3, 3, 5)), {"window": 5}, InputError, "windows of side 3, got window=5"),
        (rank_r((4, 4, 5)), {}, InputError, "odd"),
        (rank_r((3, 5, 5)), {}, InputError, "square windows"),
        (rank_r((3, 5)), {}, InputError, "square windows"),
        (rank_r((3, 3, 5), standardize=0), {}, InputError, "standardize=-1"),
        (rank_r((3, 3, 5), ids=np.array(["a", "b"])), {}, InputError, "whole numbers"),
        (rank_r((3, 3, 5), ids=np.array([0, 1])), {}, InputError, "between 1 and 65535"),
        (rank_r((3, 3, 5)), {"tile": 0}, InputError, "at least 1 pixel"),
    ],
)
def test_what_cannot_be_mapped_is_refused_in_one_sentence(model, options, error, words):
    with pytest.raises(error, match=words):
        map_scene(model, scene_of(6, 6), **options)


@pytest.mark.parametrize(
    ("name", "probabilities", "words"),
    [("map.xyz", None, "'.xyz'"), ("map", None, "'no ending'"), ("no/map.tif", None, "no such f"),
     ("map.png", "p.png", "'.png'"), ("map.tif", "p.npy", "'.npy'"),
     ("map.tif", "no/p.tif", "no such folder"), ("map.tif", "map.tif", "replace the other")],
)  # fmt: skip
def test_an_output_that_cannot_be_written_is_refused_before_mapping(
    tmp_path, monkeypatch, name, probabilities, words
):
    def never(*args, **kwargs):
        raise AssertionError("the scene was read")

    monkeypatch.setattr("polyad.scene.raster.windows.read_block", never)
    shares = None if probabilities is None else tmp_path / probabilities
    with pytest.raises((OutputError, InputError), match=words):
        map_file(rank_r((3, 3, BANDS)), scene_of(6, 6), tmp_path / name, probabilities=shares)
    assert list(tmp_path.iterdir()) == []


# -- memory ------------------------------------------------------------------------------------


RESIDENT = """
import resource, sys
import numpy as np
from polyad import RankRClassifier
from polyad.scene.map.mapping import as_scene_model, map_file
from polyad.scene.read.scenes import open_scene

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

folder = sys.argv[1]
X = np.random.default_rng(0).normal(1000, 300, (20, 5, 5, 100)).astype(np.float32)
model = RankRClassifier(hidden=20, epochs=2, random_state=0).fit(X, np.arange(20) % 3 + 1)
map_file(model, open_scene(folder + "/small.npy"), folder + "/small.tif")
before = peak()
scene = open_scene(folder + "/large.npy")
map_file(model, scene, folder + "/large.tif")
print(peak() - before, scene.nbytes)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="counts resident memory as Unix does")
def test_memory_is_bounded_by_the_tile_and_not_by_the_scene(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "small.npy", rng.integers(0, 4000, (300, 400, 100), dtype=np.uint16))
    large = np.lib.format.open_memmap(
        tmp_path / "large.npy", "w+", dtype=np.uint16, shape=(1500, 400, 100)
    )
    large[:100] = 1000
    large.flush()
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT, str(tmp_path)], capture_output=True, text=True, check=True
    )
    grown, size = map(int, done.stdout.split())
    assert size == 120_000_000
    assert grown < 40 * 2**20
