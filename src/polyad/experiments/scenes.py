"""The scenes of the experiments, in memory: known ones and stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyad.errors import InputError, SceneError
from polyad.experiments.standins import STANDINS, make_standin
from polyad.scene.classes import ClassInfo, class_table, palette
from polyad.scene.sources import KNOWN_SCENES, open_known, open_known_labels


@dataclass(frozen=True, eq=False)
class SceneData:
    """A scene and its ground truth.

    Attributes
    ----------
    cube : ndarray of float32, shape (height, width, bands)
    labels : ndarray of int, shape (height, width)
        0 is unlabelled.
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
    check_scene(name)
    raster = open_known_labels(name)
    values = open_known(name).transpose("y", "x", "band").to_numpy().astype(np.float32)
    return SceneData(values, raster.to_numpy(), class_table(raster))


def check_scene(name: str) -> None:
    """Refuse a name that is neither a known scene nor a stand-in, and list those that are."""
    known = [*KNOWN_SCENES, *STANDINS]
    if name not in known:
        raise InputError(f"{name!r} is no known scene; known are {', '.join(known)}")


def present_scenes(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the scenes that can be read, and for each other one why it cannot."""
    here, missing = [], {}
    for name in names:
        check_scene(name)
        try:
            if name not in STANDINS:
                open_known_labels(name), open_known(name)
            here.append(name)
        except SceneError as error:
            missing[name] = str(error)
    return here, missing
