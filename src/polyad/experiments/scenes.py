"""The scenes of the experiments, in memory: known ones, and a made one for tests and timing.

A known scene is run only if its files have the sums that are known of its name, or if it comes with
an installed package. Every record says what the data were: sums, shape and range.

The spectra and the layout of the made scene are invented: an accuracy reached on it says nothing
about a real one.
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


STANDIN = "standin-tiny"


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
    """Return a known scene or the made one by name.

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
    known("scene", name, dict.fromkeys((*KNOWN_SCENES, STANDIN)))
    files: list[str | None] = [None, None]
    if name == STANDIN:
        status = MADE
        cube, labels = make_standin()
        classes = tuple(ClassInfo(k, f"made {k}", c) for k, c in enumerate(palette(3), start=1))
    else:
        row, status = KNOWN_SCENES[name], PACKAGED
        if not row.bundled:
            _check_files(name, row)
            files, status = [file.sha256 for file in row.files], KNOWN_FILES
        opened, raster = open_known(name), open_known_labels(name)
        cube = opened.transpose("y", "x", "band").to_numpy().astype(np.float32)
        labels, classes = raster.to_numpy(), class_table(raster)
    height, width, bands = cube.shape
    identity = Identity(
        cube=values_sum(cube), labels=values_sum(labels), cube_file=files[0], labels_file=files[1],
        shape=(height, width, bands), low=float(cube.min()), high=float(cube.max()), status=status,
    )  # fmt: skip
    return SceneData(cube, labels, classes, identity)


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


def _check_files(name: str, row: KnownScene) -> None:
    """Raise `SceneError` if files that are there are not the known ones."""
    for file in row.files:
        path = data_folder() / file.name
        if path.is_file() and (found := sha256_of(path)) != file.sha256:
            raise SceneError(
                f"these may not be the data of {row.title}: {path} has SHA-256 {found}, expected "
                f"{file.sha256}; fetch the original with `polyad fetch {name}`"
            )


def make_standin(
    shape: tuple[int, int, int] = (40, 32, 12), counts: Sequence[int] = (300, 200, 100)
) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Make a cube of ``shape`` and its labels, ``counts`` pixels per class, for tests and timing.

    Each class has a smooth spectrum; a pixel is its class's spectrum times a brightness, plus
    noise. Fields of 8 x 8 pixels are dealt to the classes in random places.

    Examples
    --------
    >>> cube, labels = make_standin()
    >>> cube.shape, np.bincount(labels.ravel())[1:].tolist()
    ((40, 32, 12), [300, 200, 100])
    """
    rng = np.random.default_rng(0)
    height, width, bands = shape
    labels = np.zeros((height, width), dtype=np.uint16)
    across = width // 8
    fields = iter(rng.permutation(height // 8 * across))
    for k, left in enumerate(counts, start=1):
        while left > 0:
            row, column = np.multiply(8, divmod(int(next(fields)), across))
            field = np.where(np.arange(64) < left, k, 0).reshape(8, 8)
            labels[row : row + 8, column : column + 8] = field
            left -= 64
    terms = np.arange(1, 7)[:, None]
    waves = np.cos(np.pi * terms * np.linspace(0, 1, bands)) / terms  # (6, bands)
    spectra = 3 + rng.normal(size=(len(counts) + 1, 6)) @ waves  # (classes, bands)
    brightness = 1 + 0.1 * rng.standard_normal((height, width, 1), dtype=np.float32)
    cube = spectra.astype(np.float32)[labels] * brightness
    cube += 0.3 * rng.standard_normal(cube.shape, dtype=np.float32)
    return cube * 1000, labels
