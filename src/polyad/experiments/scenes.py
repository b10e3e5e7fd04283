"""The scenes of the experiments, in memory: known ones, and made ones for tests and timing.

A known scene is run only if its files have the sums that are known of its name, or if it comes with
an installed package. Every record says what the data were: sums, shape and range.

A made scene (``standin-...``) has the shape, classes and label counts of a real one. Its spectra
and its layout are invented, so that an accuracy reached on it says nothing about the real scene.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from polyad.codec import Fixed, Record
from polyad.errors import SceneError
from polyad.experiments.settings import known
from polyad.scene.assess.pages import sha256_of
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES, KnownScene, data_folder
from polyad.scene.raster.classes import ClassInfo, class_table, palette
from polyad.scene.read.scenes import open_known, open_known_labels

MADE, PACKAGED = "made up for tests", "the known values, in another file"
KNOWN_FILES = "the known files"


class Identity(Record):
    """What the data of a run were.

    Attributes
    ----------
    cube, labels : str
        SHA-256 of the values: float32 and uint16, little-endian, row by row.
    cube_file, labels_file : str or None
        SHA-256 of the files; None where the scene comes with a package or is made up.
    shape : (height, width, bands)
    low, high : float
        Range of the cube's values.
    status : str
        Where the data are from.
    """

    cube: str
    labels: str
    cube_file: str | None
    labels_file: str | None
    shape: Annotated[tuple[int, int, int], Fixed]
    low: float
    high: float
    status: str


@dataclass(frozen=True, eq=False)
class SceneData:
    """A scene and its ground truth.

    Attributes
    ----------
    cube : ndarray of float32, shape (height, width, bands)
    labels : ndarray of int, shape (height, width)
        0 is unlabeled.
    classes : tuple of ClassInfo
    identity : Identity
    """

    cube: NDArray[np.float32]
    labels: NDArray[np.uint16]
    classes: tuple[ClassInfo, ...]
    identity: Identity


@dataclass(frozen=True)
class StandIn:
    """Shape and pixels per class of a scene to be made up."""

    shape: tuple[int, int, int]
    counts: tuple[int, ...]


STANDINS: dict[str, StandIn] = {
    "standin-pavia-university": StandIn(
        (610, 340, 103), (6631, 18649, 2099, 3064, 1345, 5029, 1330, 3682, 947)
    ),
    "standin-botswana": StandIn(
        (1476, 256, 145),
        (270, 101, 251, 215, 269, 269, 259, 203, 314, 248, 305, 181, 268, 95),
    ),
    "standin-tiny": StandIn((40, 32, 12), (300, 200, 100)),
}
_TILE = 8  # pixels; labels of a made scene come in fields of this side


def scene_title(name: str) -> str:
    """Return a scene's name for a heading; a stand-in keeps the name that says so.

    Examples
    --------
    >>> scene_title("botswana"), scene_title("standin-tiny")
    ('Botswana', 'standin-tiny')
    """
    return KNOWN_SCENES[name].title if name in KNOWN_SCENES else name


@lru_cache(maxsize=2)
def load_scene(name: str) -> SceneData:
    """Return a known scene or a stand-in by name.

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
    known("scene", name, {**KNOWN_SCENES, **STANDINS})
    if name in STANDINS:
        cube, labels = make_standin(STANDINS[name])
        table = enumerate(palette(len(STANDINS[name].counts)), start=1)
        classes = tuple(ClassInfo(k, f"made {k}", color) for k, color in table)
    else:
        _check_files(name, KNOWN_SCENES[name])
        opened, raster = open_known(name), open_known_labels(name)
        cube = opened.transpose("y", "x", "band").to_numpy().astype(np.float32)
        labels, classes = raster.to_numpy(), class_table(raster)
    return SceneData(cube, labels, classes, _identify(name, cube, labels))


def present_scenes(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the scenes that can be read, and for each other one why it cannot."""
    present, missing = [], {}
    for name in names:
        try:
            load_scene(name)
            present.append(name)
        except SceneError as error:
            missing[name] = str(error)
    return present, missing


def values_sum(values: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's values: of floats as float32, of integers as uint16."""
    kind = "<f4" if values.dtype.kind == "f" else "<u2"
    return hashlib.sha256(np.ascontiguousarray(values, dtype=kind).data).hexdigest()


def _identify(name: str, cube: NDArray[np.float32], labels: NDArray[np.uint16]) -> Identity:
    """Return what the data are; of a known scene, its files were checked."""
    files: list[str | None] = [None, None]
    status = MADE
    if name in KNOWN_SCENES:
        status = PACKAGED
        if not KNOWN_SCENES[name].bundled:
            files, status = [file.sha256 for file in KNOWN_SCENES[name].files], KNOWN_FILES
    height, width, bands = cube.shape
    return Identity(
        cube=values_sum(cube), labels=values_sum(labels), cube_file=files[0], labels_file=files[1],
        shape=(height, width, bands), low=float(cube.min()), high=float(cube.max()), status=status,
    )  # fmt: skip


def _check_files(name: str, row: KnownScene) -> None:
    """Raise `SceneError` if files that are there are not the known ones."""
    for file in () if row.bundled else row.files:
        path = data_folder() / file.name
        if path.is_file() and (got := sha256_of(path)) != file.sha256:
            raise SceneError(
                f"these may not be the data of {row.title}: {path} has SHA-256 {got}, expected "
                f"{file.sha256}; fetch the original with `polyad fetch {name}`"
            )


def make_standin(
    row: StandIn, random_state: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Make a cube and its labels.

    Each class has a smooth spectrum; a pixel is its class's spectrum times a brightness, plus
    noise. Fields of 8 x 8 pixels are dealt to the classes in random places.

    Parameters
    ----------
    row : StandIn
    random_state : int

    Returns
    -------
    cube : ndarray of float32, shape (height, width, bands)
    labels : ndarray of uint16, shape (height, width)
        0 is unlabeled.

    Examples
    --------
    >>> cube, labels = make_standin(STANDINS["standin-tiny"])
    >>> cube.shape, np.bincount(labels.ravel())[1:].tolist()
    ((40, 32, 12), [300, 200, 100])
    """
    rng = np.random.default_rng(random_state)
    labels = _fields(row, rng)
    height, width, bands = row.shape
    wave = np.linspace(0, 1, bands)
    terms = np.arange(1, 7)[:, None]
    waves = np.cos(np.pi * terms * wave) / terms  # (6, bands)
    spectra = 3 + rng.normal(size=(len(row.counts) + 1, 6)) @ waves  # (classes, bands)
    brightness = 1 + 0.1 * rng.standard_normal((height, width, 1), dtype=np.float32)
    cube = spectra.astype(np.float32)[labels] * brightness
    cube += 0.3 * rng.standard_normal(cube.shape, dtype=np.float32)
    return cube * 1000, labels


def _fields(row: StandIn, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Deal whole tiles to each class in turn, the last one only in part."""
    height, width, _ = row.shape
    labels = np.zeros((height, width), dtype=np.uint16)
    down, across = height // _TILE, width // _TILE
    tiles = iter(rng.permutation(down * across))
    for k, count in enumerate(row.counts, start=1):
        left = count
        while left > 0:
            top, start = divmod(int(next(tiles)), across)
            field = labels[_TILE * top :, _TILE * start :][:_TILE, :_TILE]
            here = min(left, field.size)
            field[np.unravel_index(np.arange(here), field.shape)] = k
            left -= here
    return labels
