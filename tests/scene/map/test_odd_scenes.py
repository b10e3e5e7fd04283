"""Scenes that nobody would make on purpose: a map or one sentence, never a traceback or noise."""

import numpy as np
import pytest
import xarray as xr

from polyad.errors import InputError, SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene

NOISE = np.random.default_rng(0).normal(size=(14, 13, 6))
ROWS, COLS = np.mgrid[:14, :13, :6][:2]
LIVES = [
    ("fast", "this-scene"),
    ("paper", "this-scene"),
    ("best", "this-scene"),
    ("best", "other-scenes"),
]

MAPPED = {
    "half of the bands constant": np.where(np.arange(6) < 3, 3.0, NOISE),
    "all bands alike": np.repeat(NOISE[..., :1], 6, axis=2),
    "all rows alike": np.repeat(NOISE[:1], 14, axis=0),
    "enormous": 1e25 * NOISE,
    "next to nothing": 1e-30 * NOISE,
    "half of the rows without data": np.where(ROWS % 2 == 0, np.nan, NOISE),
    "no pixel with a neighbor": np.where((ROWS + COLS) % 2 == 0, np.nan, NOISE),
    "some pixels beyond single precision": np.where(ROWS == 4, 1e300, NOISE),
    "long double": NOISE.astype(np.longdouble),
    "half precision": NOISE.astype(np.float16),
    "two values": (COLS < 6).astype(np.int16),
    "one row": NOISE[:1].repeat(3, axis=1),
    "one column": NOISE[:, :1].repeat(2, axis=0),
    "one band": NOISE[..., :1],
}
REFUSED = {
    "constant": (np.full((14, 13, 6), 5), "have the same spectrum"),
    "one constant band": (np.zeros((14, 13, 1)), "have the same spectrum"),
    "no difference in single precision": (5 + 1e-8 * NOISE, "have the same spectrum"),
    "all of single precision": (1e38 * np.clip(NOISE, -3, 3), "must lie within 1e.30 of 0"),
    "nothing in single precision": (1e-300 * NOISE, "have the same spectrum"),
    "NaN all over": (np.nan * NOISE, "no labeled pixel of .* has data"),
    "beyond single precision": (1e300 * (9 + NOISE), "no labeled pixel of .* has data"),
    "all bands without data here or there": (
        np.where(np.arange(6) == np.arange(13)[:, None] % 6, np.inf, NOISE),
        "no labeled pixel of .* has data in every band: bands 1 have none there",
    ),
    "one pixel": (np.ones((1, 1, 6)), "are of class 'class 1'"),
    "two pixels": (NOISE[:1, :2], "more pixels with data than 10, got 2"),
    "complex": (NOISE * 1j, "must be real numbers, got complex128"),
}


def as_scene_and_labels(values):
    scene = xr.DataArray(values, dims=("y", "x", "band"))
    ids = np.resize([1, 0, 2, 0, 0], values.shape[:2])
    ids[:, -1] = 2  # also where the pattern is that of the missing pixels
    ids[0, 0] = 1
    return scene, xr.DataArray(ids, dims=("y", "x"))


@pytest.mark.parametrize(("preset", "goal"), LIVES)
@pytest.mark.parametrize("name", MAPPED)
def test_an_odd_scene_is_mapped_where_it_has_data(name, preset, goal, tmp_path):
    scene, labels = as_scene_and_labels(MAPPED[name])
    model = train(scene, labels, window=3, preset=preset, goal=goal, hidden=4, epochs=3)
    model.save(tmp_path / "m.polyad")
    ids, proba = map_scene(SceneModel.load(tmp_path / "m.polyad"), scene, probabilities=True)
    there = (np.abs(MAPPED[name].astype(np.float64)) < 1e39).all(axis=-1)
    assert (ids.values[there] > 0).all()
    assert np.isfinite(proba.values[there]).all()
    assert (ids.values[~there] == 0).all()


@pytest.mark.parametrize(("preset", "goal"), LIVES)
@pytest.mark.parametrize("name", REFUSED)
def test_a_scene_that_tells_nothing_is_refused_in_one_sentence(name, preset, goal):
    values, match = REFUSED[name]
    scene, labels = as_scene_and_labels(values)
    if name == "one pixel":
        labels[:] = 1
    if preset != "best" and match.startswith("have the same"):
        pytest.skip("a constant scene is mapped by a network, as the class of most labels")
    if name == "two pixels" and (preset, goal) != ("best", "this-scene"):
        pytest.skip("only label propagation needs neighbors")
    window = 3 if max(values.shape[:2]) >= 3 else 1
    with pytest.raises((SceneError, InputError), match=match):
        train(scene, labels, window=window, preset=preset, goal=goal, hidden=4, epochs=3)
