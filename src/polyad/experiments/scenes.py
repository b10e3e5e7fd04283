"""The scenes of the experiments, in memory: known ones and stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.experiments.identity import (
    MARK,
    Identity,
    base_name,
    check_known,
    check_present,
    check_shape,
    identify,
)
from polyad.experiments.models import known
from polyad.experiments.standins import STANDINS, make_standin
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.raster.classes import ClassInfo, class_table, palette
from polyad.scene.read.scenes import open_known, open_known_labels

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
    identity : Identity or None
        Sums, shape and range; None of data that a caller made.
    """

    cube: NDArray[np.float32]
    labels: NDArray[np.uint16]
    classes: tuple[ClassInfo, ...]
    identity: Identity | None = None


@lru_cache(maxsize=2)
def load_scene(name: str) -> SceneData:
    """Return a scene by name.

    Parameters
    ----------
    name : str
        A known scene, a stand-in, or ``name@sum``: a copy of a known scene whose sum we do not
        know, and which the user accepted.

    Raises
    ------
    SceneError
        The scene is known, but its files are not on this machine, or are other files.
    InputError
        There is no scene of that name.

    Examples
    --------
    >>> load_scene("indian-pines").cube.shape
    (145, 145, 200)
    """
    base = base_name(name)
    known("scene", base, EVERY_SCENE)
    data = _standin(name) if name in STANDINS else _read(base)
    identity = identify(base, data.cube, data.labels)
    if name == base:
        if base in KNOWN_SCENES:
            check_known(base, KNOWN_SCENES[base], identity)
    elif name != marked(base, identity):
        raise SceneError(
            f"the files of {base} changed: {name} was asked for, {marked(base, identity)} is "
            "there; put the former files back, or ask again by name, with --accept"
        )
    return replace(data, identity=identity)


def marked(base: str, identity: Identity) -> str:
    """Return the name of a scene; of a copy that we do not know, with its sum."""
    return base if identity.verified else f"{base}{MARK}{identity.mark}"


def _standin(name: str) -> SceneData:
    cube, labels = make_standin(STANDINS[name])
    table = enumerate(palette(len(STANDINS[name].counts)), start=1)
    return SceneData(cube, labels, tuple(ClassInfo(k, f"made {k}", c) for k, c in table))


def _read(name: str) -> SceneData:
    """Return a known scene, whatever its values are, if its shape is right."""
    row = KNOWN_SCENES[name]
    check_present(name, row)
    cube, raster = open_known(name), open_known_labels(name)
    check_shape(name, row, cube.shape, raster.shape)
    values = cube.transpose("y", "x", "band").to_numpy().astype(np.float32)
    return SceneData(values, raster.to_numpy(), class_table(raster))


def present_scenes(names: Sequence[str], accept: bool = False) -> tuple[list[str], dict[str, str]]:
    """Return the scenes that can be read, and for each other one why it cannot.

    With ``accept``, a scene of the right shape whose sums we do not know can be read too: its name
    then has its sum behind it.
    """
    present, missing = [], {}
    for name in names:
        known("scene", name, EVERY_SCENE)
        try:
            if accept and name in KNOWN_SCENES:
                data = _read(name)
                name = marked(name, identify(name, data.cube, data.labels))
            load_scene(name)
            present.append(name)
        except SceneError as error:
            missing[name] = str(error)
    return present, missing
