"""Scenes of a few pixels, and what tests of labels ask of them."""

import numpy as np
from affine import Affine

from polyad.scene.raster.classes import class_table
from polyad.scene.read.scenes import scene_from_array

UTM = "EPSG:32632"
NORTH_UP = Affine(20.0, 0.0, 500_000.0, 0.0, -20.0, 5_000_000.0)
IDS = np.array([[0, 1, 1, 3], [0, 0, 3, 3], [1, 0, 0, 0]], dtype=np.uint8)


def scene(transform=NORTH_UP, crs=UTM, shape=(3, 4)):
    return scene_from_array(np.ones((*shape, 2)), crs=crs, transform=transform)


def plain_scene(shape=(3, 4)):
    return scene_from_array(np.ones((*shape, 2)))


def text(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def names_of(labels):
    return {info.value: info.name for info in class_table(labels)}
