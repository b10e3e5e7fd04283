"""The data sets of tensors.py: each a function that returns samples and targets.

All but the vegetation fractions ship with a package: scikit-learn, TensorLy, scikit-image, and the
wheels of aeon and sktime (``pip download --no-deps``), which are read as archives.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Samples = tuple[Array, Array]
TILE = 32  # pixels on a side of a tile of the Potsdam scene


def table(name: str) -> Samples:
    """Return a table of scikit-learn."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return bunch.data, bunch.target


def digits() -> Samples:
    """Return 1,797 images of 8 x 8 (scikit-learn)."""
    X, y = table("digits")
    return X.reshape(-1, 8, 8), y


def serology(question: str) -> Samples:
    """Return tables of antigens by receptors, 6 x 11 (TensorLy)."""
    from tensorly.datasets import load_covid19_serology

    data = load_covid19_serology()
    X, group = np.asarray(data.tensor), np.asarray(data.ticks[0])
    if question == "infected":
        return X, np.where(group == "Negative", "negative", "infected")
    ill = ~np.isin(group, ["Negative", "Mild"])  # of mild cases there are seven
    return X[ill], group[ill].astype(str)


def cytokine() -> Samples:
    """Return responses of a cell type to a ligand, 4 times x 12 doses (TensorLy)."""
    from tensorly.datasets import load_IL2data

    data = load_IL2data()
    X = np.asarray(data.tensor, float).transpose(0, 3, 1, 2).reshape(-1, 4, 12)
    y = np.tile(np.asarray(data.ticks[3]).astype(str), len(data.ticks[0]))
    whole = ~np.isnan(X).any(axis=(1, 2))
    return X[whole], y[whole]


def faces() -> Samples:
    """Return 100 faces and 100 other patches of 25 x 25 (scikit-image)."""
    from skimage.data import lfw_subset

    return lfw_subset(), np.repeat(["face", "other"], 100)


def patches(photographs: tuple[str, ...], size: int, count: int) -> Samples:
    """Return patches of photographs of scikit-image, whose class is the photograph."""
    from skimage import data

    rng = np.random.default_rng(0)
    X, y = [], []
    for name in photographs:
        image = getattr(data, name)() / 255
        rows, cols = (n // size for n in image.shape[:2])
        image = image[: rows * size, : cols * size].reshape(rows, size, cols, size, -1)
        cut = image.swapaxes(1, 2).reshape(rows * cols, size, size, -1)
        X.append(cut[rng.permutation(len(cut))[:count]])
        y += [name] * count
    return np.concatenate(X).squeeze(), np.array(y)


def series(wheel: Path, name: str) -> Samples:
    """Return series ``(n, channels, time)`` or ``(n, time)``; short ones end in zeros."""
    samples, labels = [], []
    with zipfile.ZipFile(wheel) as archive:
        for part in ("TRAIN", "TEST"):
            path = f"{wheel.name.split('-')[0]}/datasets/data/{name}/{name}_{part}.ts"
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
    return X if X.shape[1] > 1 else X[:, 0], np.array(labels)


def numbers(samples: Samples) -> Samples:
    """Return the samples with their targets as numbers."""
    return samples[0], samples[1].astype(float)


def indian_pines(profiles: bool, per_class: int = 30) -> Samples:
    """Return windows around 30 pixels of each class: 5 x 5 x 200, or x 4 components x 9 levels."""
    import polyad
    from polyad.scene import extract_patches, morphological_profiles

    scene = polyad.open_scene("indian-pines")
    truth = np.asarray(polyad.open_labels("indian-pines", scene))
    cube = morphological_profiles(scene, components=4) if profiles else scene.values
    rng = np.random.default_rng(0)
    some = [rng.permutation(np.argwhere(truth == c))[:per_class] for c in range(1, 17)]
    rows, cols = np.concatenate(some).T
    return np.asarray(extract_patches(cube, rows, cols, 5, "reflect"), float), truth[rows, cols]


class Potsdam(NamedTuple):
    """Vegetation fractions on an EnMAP scene."""

    windows: Array  # (n, 5, 5, bands)
    fraction: Array  # (n,)
    tile: Array  # (n,), which of the scene's tiles a point lies on


def potsdam(folder: Path) -> Potsdam:
    """Return windows at the points with a vegetation fraction."""
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
    return Potsdam(windows, fraction, tile)


def _near(position: int) -> Array:
    """Return five rows or columns around one, the tile's edge repeated."""
    first = position // TILE * TILE
    return np.clip(np.arange(position - 2, position + 3), first, first + TILE - 1)


def data_sets(aeon: Path, sktime: Path) -> dict[str, tuple[str, Callable[[], Samples]]]:
    """Return every data set by its name, with what it holds."""
    photographs = ("astronaut", "coffee", "chelsea", "rocket", "immunohistochemistry")
    return {
        "wine": ("178 wines, 13 features, 3 classes", lambda: table("wine")),
        "breast cancer": ("569 tumors, 30 features, 2 classes", lambda: table("breast_cancer")),
        "diabetes": ("442 patients, 10 features, a number", lambda: numbers(table("diabetes"))),
        "GunPoint": ("200 series of 150 times, 2 classes", lambda: series(aeon, "GunPoint")),
        "Tecator": (
            "215 spectra of 100 bands, fat in %",
            lambda: numbers(series(sktime, "Tecator")),
        ),
        "digits": ("1,797 images of 8 x 8, 10 classes", digits),
        "serology, infected": ("438 tables of 6 x 11, 2 classes", lambda: serology("infected")),
        "serology, course": ("392 tables of 6 x 11, 3 classes", lambda: serology("course")),
        "cytokine": ("88 tables of 4 x 12, 8 classes", cytokine),
        "BasicMotions": (
            "80 series of 6 x 100, 4 classes",
            lambda: series(aeon, "BasicMotions"),
        ),
        "JapaneseVowels": (
            "640 series of 12 x 29, 9 classes",
            lambda: series(aeon, "JapaneseVowels"),
        ),
        "faces": ("200 images of 25 x 25, 2 classes", faces),
        "textures": (
            "600 patches of 12 x 12, 3 classes",
            lambda: patches(("brick", "grass", "gravel"), 12, 200),
        ),
        "CardanoSentiment": (
            "107 series of 2 x 24, a number",
            lambda: numbers(series(aeon, "CardanoSentiment")),
        ),
        "photographs": (
            "600 patches of 8 x 8 x 3, 5 classes",
            lambda: patches(photographs, 8, 120),
        ),
        "Indian Pines, bands": (
            "468 windows of 5 x 5 x 200, 16 classes",
            lambda: indian_pines(profiles=False),
        ),
        "Indian Pines, profiles": (
            "468 windows of 5 x 5 x 4 x 9, 16 classes",
            lambda: indian_pines(profiles=True),
        ),
    }
