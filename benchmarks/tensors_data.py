"""The data sets of tensors.py: each a function that returns samples and targets."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
TILE = 32  # pixels on a side of a tile of the Potsdam scene


def digits() -> tuple[Array, Array]:
    """Return 1,797 images of 8 x 8 (scikit-learn)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images, bunch.target


def serology(question: str) -> tuple[Array, Array]:
    """Return tables of antigens by receptors, 6 x 11 (TensorLy)."""
    from tensorly.datasets import load_covid19_serology

    data = load_covid19_serology()
    X, group = np.asarray(data.tensor), np.asarray(data.ticks[0])
    if question == "infected":
        return X, np.where(group == "Negative", "negative", "infected")
    ill = ~np.isin(group, ["Negative", "Mild"])  # of mild cases there are seven
    return X[ill], group[ill].astype(str)


def time_series(wheel: Path, name: str) -> tuple[Array, Array]:
    """Return series ``(n, channels, time)`` from aeon's wheel; short ones end in zeros."""
    samples, labels = [], []
    with zipfile.ZipFile(wheel) as archive:
        for part in ("TRAIN", "TEST"):
            path = f"aeon/datasets/data/{name}/{name}_{part}.ts"
            lines = iter(io.TextIOWrapper(archive.open(path), encoding="utf-8"))
            for line in lines:
                if line.strip().lower() == "@data":
                    break
            for line in lines:
                *channels, label = line.strip().split(":")
                samples.append([np.array(c.split(","), float) for c in channels])
                labels.append(label)
    length = max(len(c) for sample in samples for c in sample)
    X = np.zeros((len(samples), len(samples[0]), length))
    for i, sample in enumerate(samples):
        for j, channel in enumerate(sample):
            X[i, j, : len(channel)] = channel
    return X, np.array(labels)


def made(seed: int, n: int = 24_000) -> tuple[Array, Array]:
    """Return 8 x 16 tables whose class is the largest of five noisy rank-one scores."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8, 16))
    scores = np.einsum("nij,ci,cj->nc", X, rng.normal(size=(5, 8)), rng.normal(size=(5, 16))) / 11
    return X, (scores + 0.3 * rng.normal(size=scores.shape)).argmax(axis=1)


class Potsdam(NamedTuple):
    """Vegetation fractions on an EnMAP scene."""

    spectra: Array  # (n, bands)
    windows: Array  # (n, 5, 5, bands)
    fraction: Array  # (n,)
    tile: Array  # (n,), which of the scene's tiles a point lies on


def potsdam(folder: Path) -> Potsdam:
    """Return spectra and windows at the points with a vegetation fraction."""
    import pyogrio
    import rasterio

    with rasterio.open(folder / "potsdam_train.tif") as file:
        cube, nodata, grid = file.read().transpose(1, 2, 0), file.nodata, file.transform
    path = folder / "veg-cover-fraction_potsdam_point.gpkg"
    meta, _, points, fields = pyogrio.raw.read(path, layer="vegetation_fraction")
    fraction = np.asarray(fields[list(meta["fields"]).index("vegetation_fraction")], float)
    x, y = np.array([struct.unpack("<dd", bytes(p)[5:21]) for p in points]).T
    cols, rows = (np.floor(v).astype(int) for v in ~grid * (x, y))
    valid = (cube != nodata).any(axis=2)
    inside = (rows >= 0) & (rows < len(cube)) & (cols >= 0) & (cols < cube.shape[1])
    rows, cols, fraction = rows[inside], cols[inside], fraction[inside]
    on = valid[rows, cols]
    rows, cols, fraction = rows[on], cols[on], fraction[on]
    cube = cube[..., (cube[valid] != nodata).all(axis=0)]
    tile = rows // TILE * 100 + cols // TILE
    windows = np.stack([cube[np.ix_(_near(r), _near(c))] for r, c in zip(rows, cols, strict=True)])
    return Potsdam(cube[rows, cols], windows, fraction, tile)


def _near(position: int) -> Array:
    """Return five rows or columns around one, the tile's edge repeated."""
    first = position // TILE * TILE
    return np.clip(np.arange(position - 2, position + 3), first, first + TILE - 1)
