"""The scenes of the experiments, in memory: known ones and stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.experiments.models import known
from polyad.experiments.standins import STANDINS, make_standin
from polyad.scene.files.known import KNOWN_SCENES
from polyad.scene.raster.classes import ClassInfo, class_table, palette
from polyad.scene.read.known_scenes import open_known, open_known_labels

EVERY_SCENE: dict[str, object] = {**KNOWN_SCENES, **STANDINS}


@dataclass(frozen=True, eq=False)
class SceneData:
    """A scene and its ground truth.

    Attributes
    ----------
    cube : ndarray of float32, shape (height, width, bands)
    labels : ndarray of int, shape (height, width)
        0 is unlabeled.
    classes : tuple of ClassInfo
    """

    cube: NDArray[np.float32]
    labels: NDArray[np.uint16]
    classes: tuple[ClassInfo, ...]


@lru_cache(maxsize=2)
def load_scene(name: str) -> SceneData:
    """Return a scene by name.

    Raises
    ------
    SceneError
        The scene is known, but its files are not on this machine.
    InputError
        There is no scene of that name.

    Examples
    --------
    >>> load_scene("indian-pines").cube.shape
    (145, 145, 200)
    """
    if name in STANDINS:
        cube, labels = make_standin(STANDINS[name])
        count = len(STANDINS[name].counts)
        table = enumerate(palette(count), start=1)
        return SceneData(cube, labels, tuple(ClassInfo(k, f"made {k}", c) for k, c in table))
    known("scene", name, EVERY_SCENE)
    raster = open_known_labels(name)
    values = open_known(name).transpose("y", "x", "band").to_numpy().astype(np.float32)
    return SceneData(values, raster.to_numpy(), class_table(raster))


def present_scenes(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the scenes that can be read, and for each other one why it cannot."""
    present, missing = [], {}
    for name in names:
        known("scene", name, EVERY_SCENE)
        try:
            if name not in STANDINS:
                open_known_labels(name), open_known(name)
            present.append(name)
        except SceneError as error:
            missing[name] = str(error)
    return present, missing
