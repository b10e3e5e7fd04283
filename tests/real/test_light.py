"""Real scenes in another light, and how few of their pixels look corrupt."""

import numpy as np
import pytest

from polyad.errors import PolyadWarning
from polyad.scene.learn.radiometry import prepared, replaced_pixels
from polyad.scene.learn.sampling import per_class
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.selection import usable_bands, valid_mask
from polyad.scene.read.labels import drop_nodata, open_labels
from polyad.scene.read.scenes import open_scene


@pytest.fixture(params=["indian-pines", "pavia", "potsdam"])
def opened(request):
    """A real scene in memory with its labels."""
    if request.param == "indian-pines":
        scene = open_scene("indian-pines")
        labels = open_labels("indian-pines", scene)
    elif request.param == "pavia":
        path = request.getfixturevalue("pavia")
        scene = open_scene(f"{path}:paviaU")
        labels = open_labels(f"{path}:paviaU_gt", scene)
    else:
        folder = request.getfixturevalue("potsdam")
        scene = open_scene(folder / "potsdam_train.tif")
        labels = open_labels(folder / "potsdam_train_labels.tif", scene)
    scene = usable_bands(scene).load()
    return scene, drop_nodata(scene, labels)


def test_hardly_a_pixel_of_a_real_scene_looks_corrupt(opened):
    scene = prepared(opened[0])
    scene.read(slice(None), slice(None))
    assert replaced_pixels(scene) <= 1e-3 * valid_mask(scene).sum()


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_a_real_scene_in_another_light_is_mapped_as_before(preset, opened):
    scene, labels = opened
    split = per_class(labels, 10, 100)
    goal = "other-scenes" if preset == "best" else "this-scene"
    model = train_on(scene, labels, split.train, preset=preset, goal=goal, random_state=100)
    valid = valid_mask(scene)[..., None]
    values = scene.values.astype(np.float32)
    gain = 1.3 * (1 + np.random.default_rng(0).uniform(-0.03, 0.03, model.bands))
    tenth = 0.1 * (values[valid[..., 0]].max() - values[valid[..., 0]].min())
    other = scene.copy(data=np.where(valid, values * gain + tenth, values).astype(np.float32))
    test = tuple(split.test.T)
    before = (map_scene(model, scene).values == labels.values)[test].mean()
    after = (map_scene(model, other, adapt=True).values == labels.values)[test].mean()
    assert after > before - 0.03
    with pytest.warns(PolyadWarning, match="radiometric shift"):
        map_scene(model, other, adapt=False)
