"""What a target is, what every one of them needs, and how inputs are changed."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from attacks.trees import Tree, mutate, pack, unpack

BUDGET = 20_000_000  # bytes that may be read at once
SHAPE = (4, 5, 3)


class Uninteresting(Exception):
    """The bytes make no file that could be sent."""


@dataclass(frozen=True)
class Target:
    """One thing to attack.

    Attributes
    ----------
    seeds : callable
        Returns good inputs to begin with.
    attempt : callable
        Takes an input and an empty folder.
    tree : bool
        Inputs are JSON text of trees, changed node by node; else bytes.
    words : tuple of bytes
        What the format is made of, for changes of bytes.
    """

    seeds: Callable[[], list[bytes]]
    attempt: Callable[[bytes, Path], None]
    tree: bool = False
    words: tuple[bytes, ...] = ()


def open_and_read(path: Path | str) -> None:
    """Open a scene, describe it as `polyad info` does, and read it where it is not too large."""
    from polyad.scene.info import describe
    from polyad.scene.read.scenes import open_scene

    describe(str(path), max_bytes=BUDGET)
    scene = open_scene(path, max_bytes=BUDGET)
    if scene.nbytes <= BUDGET:
        scene.load()
    scene.isel(y=slice(0, 2), x=slice(0, 2)).load()


def open_as_labels(path: Path) -> None:
    """Open labels with and without the scene that they are said to belong to."""
    from polyad.errors import PolyadError
    from polyad.scene.read.labels import open_labels

    try:
        open_labels(path, a_scene(), max_bytes=BUDGET)
    except PolyadError:
        open_labels(path, max_bytes=BUDGET)


def open_as_either(path: Path) -> None:
    """Open a file as a scene and as labels; it may be refused as both."""
    from polyad.errors import PolyadError

    for use in (open_and_read, open_as_labels):
        with contextlib.suppress(PolyadError):
            use(path)


@functools.cache
def a_scene() -> Any:
    """Return a small georeferenced scene."""
    from polyad.scene.read.scenes import scene_from_array

    values = np.random.default_rng(0).random(SHAPE).astype(np.float32)
    place = rasterio.Affine(0.1, 0, 10.0, 0, -0.1, 40.0)
    return scene_from_array(values, crs="EPSG:4326", transform=place)


def from_file(name: str, use: Callable[[Path], None]) -> Callable[[bytes, Path], None]:
    def attempt(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        use(path)

    return attempt


def from_tree(attempt: Callable[[Tree, Path], None]) -> Callable[[bytes, Path], None]:
    def unpacked(data: bytes, folder: Path) -> None:
        try:
            tree = unpack(data)
        except (ValueError, RecursionError) as error:
            raise Uninteresting from error
        attempt(tree, folder)

    return unpacked


def built(build: Callable[[Tree, Path], None], tree: Tree, path: Path) -> None:
    try:
        build(tree, path)
    except Exception as error:  # whatever h5py, Zarr and Python say to a tree that is no file
        raise Uninteresting from error


def packed(seeds: Callable[[], list[Tree]]) -> Callable[[], list[bytes]]:
    return lambda: [pack(tree) for tree in seeds()]


def changed(target: Target, data: bytes, rng: random.Random) -> bytes | None:
    """Return ``data`` changed by one who knows its form; None where chance is to change it."""
    if target.tree:
        try:
            return pack(mutate(unpack(data), rng))
        except (ValueError, RecursionError):
            return None
    if rng.random() < 0.5:
        return None
    return _changed_bytes(data, target.words, rng)


def _changed_bytes(data: bytes, words: tuple[bytes, ...], rng: random.Random) -> bytes:
    """Put a number into a field, a word in place of a piece, or copy one piece over another."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(4):
        case 0:  # a length, an offset or a count, in either byte order
            size = rng.choice((1, 2, 4, 8))
            at -= at % size
            value = rng.choice((0, 1, 0x7F, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**62))
            raw = (value % 256**size).to_bytes(size, rng.choice(("little", "big")))
            return data[:at] + raw + data[at + size :]
        case 1 if words:
            return data[:at] + rng.choice(words) + data[at + rng.choice((0, 0, 4, 16)) :]
        case 2:
            start = rng.randrange(len(data) + 1)
            piece = data[start : start + rng.choice((4, 16, 64, 256))]
            return data[:at] + piece * rng.choice((1, 1, 1, 50)) + data[at + len(piece) :]
        case _:
            return data[:at] if rng.random() < 0.3 else data[:at] + data[at + rng.randrange(20) :]
