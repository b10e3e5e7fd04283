"""Made scenes: same shape, classes and label counts as real ones, under names that say so.

For tests and timing only. Their spectra and their layout are invented, so that an accuracy reached
on one says nothing about the scene whose shape it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PREFIX = "standin-"
_TILE = 8  # pixels; labels come in fields of this side


@dataclass(frozen=True)
class StandIn:
    """Shape and pixels per class of a scene to be made up."""

    shape: tuple[int, int, int]
    counts: tuple[int, ...]


STANDINS: dict[str, StandIn] = {
    f"{PREFIX}pavia-university": StandIn(
        (610, 340, 103), (6631, 18649, 2099, 3064, 1345, 5029, 1330, 3682, 947)
    ),
    f"{PREFIX}botswana": StandIn(
        (1476, 256, 145),
        (270, 101, 251, 215, 269, 269, 259, 203, 314, 248, 305, 181, 268, 95),
    ),
    f"{PREFIX}tiny": StandIn((40, 32, 12), (300, 200, 100)),
}


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
