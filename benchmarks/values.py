"""Vegetation fractions of a city predicted for tiles that nobody measured, beside usual models.

    python -m benchmarks.values --potsdam FOLDER [--seeds 10] [--first 0] [--only fast best]
    python -m benchmarks.values --page-only

135 points on 14 tiles of an EnMAP scene. Tiles are dealt to seven folds; every model learns from
the points of twelve tiles and predicts those of two. All predictions are clipped to 0 to 1. Records
go to docs/results/values.jsonl, a line for each model and seed; the page is made of them alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from benchmarks.harness import RESULTS, Record, fill, read_records, resume
from polyad.scene import (
    extract_patches,
    open_scene,
    open_values,
    train_regression,
    usable_bands,
    valid_mask,
    valid_pixels,
)

Array = np.ndarray[Any, Any]
RECORDS = RESULTS / "values.jsonl"
TILE, FOLDS = 32, 7
POINTS, FIELD = "veg-cover-fraction_potsdam_point.gpkg", "vegetation_fraction"
PRESETS = ("fast", "best")


class Plots(NamedTuple):
    """The scene, and what was measured on it."""

    scene: xr.DataArray
    values: xr.DataArray
    pixels: Array  # (n, 2)
    y: Array  # (n,)
    tile: Array  # (n,)


def potsdam(folder: Path) -> Plots:
    """Return the scene and the points that lie on its tiles."""
    scene = usable_bands(open_scene(folder / "potsdam_train.tif")).load()
    values = open_values(folder / POINTS, scene, field=FIELD)
    known = np.isfinite(values.values[..., 0]) & valid_mask(scene)
    pixels = np.argwhere(known)
    rows, cols = pixels.T
    y = values.values[rows, cols, 0].astype(float)
    return Plots(scene, values, pixels, y, rows // TILE * 100 + cols // TILE)


def tile_folds(tile: Array, seed: int) -> Iterator[Array]:
    """Yield which points are held out, fold by fold: whole tiles."""
    tiles = np.random.default_rng(seed).permutation(np.unique(tile))
    for held in np.array_split(tiles, FOLDS):
        yield np.isin(tile, held)


def windows(plots: Plots, side: int, train: Array) -> Array:
    """Return flat windows of the points, without data the mean of the training pixels."""
    patches = extract_patches(plots.scene, *plots.pixels.T, side).astype(np.float64)
    valid = valid_pixels(patches, plots.scene.rio.nodata)
    mean = patches[train][valid[train]].mean(axis=0)
    return np.where(valid[..., None], patches, mean).reshape(len(patches), -1)


def ours(preset: str) -> Callable[[Plots, Array, int], Array]:
    """Return what trains a preset and predicts the points held out."""

    def predict(plots: Plots, held: Array, seed: int) -> Array:
        values = plots.values.copy(deep=True)
        rows, cols = plots.pixels[held].T
        values.values[rows, cols] = np.nan
        fitted = train_regression(
            plots.scene, values, preset=preset, goal="other-scenes", bounds=(0, 1),
            random_state=seed,
        )  # fmt: skip
        from polyad.scene.assess.evaluation import map_pixels

        return map_pixels(fitted, plots.scene, plots.pixels[held])[1][:, 0]

    return predict


def usual(make: Callable[[int], Any], side: int) -> Callable[[Plots, Array, int], Array]:
    """Return what fits a model of scikit-learn on windows and predicts the points held out."""

    def predict(plots: Plots, held: Array, seed: int) -> Array:
        X = windows(plots, side, ~held)
        return np.ravel(make(seed).fit(X[~held], plots.y[~held]).predict(X[held]))

    return predict


def models() -> dict[str, Callable[[Plots, Array, int], Array]]:
    """Return every model by its name in the table."""
    from sklearn.cross_decomposition import PLSRegression
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    def searched(model: Any, seed: int, **grid: Any) -> Any:
        step = type(model).__name__.lower()
        named = {f"{step}__{key}": value for key, value in grid.items()}
        folds = KFold(5, shuffle=True, random_state=seed)
        return GridSearchCV(make_pipeline(StandardScaler(), model), named, cv=folds)

    def forest(seed: int) -> Any:
        return RandomForestRegressor(500, max_features="sqrt", random_state=seed)

    kinds: dict[str, Callable[[int], Any]] = {
        "ridge": lambda _: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 17))),
        "PLS": lambda seed: searched(PLSRegression(), seed, n_components=list(range(1, 16))),
        "SVR": lambda seed: searched(
            SVR(), seed, C=[0.1, 1, 10, 100], epsilon=[0.02, 0.1], gamma=["scale", 1e-4]
        ),
        "random forest": forest,
    }
    every = {f"polyad {preset}": ours(preset) for preset in PRESETS}
    for side, where in ((1, "spectra"), (3, "3 x 3 windows")):
        every |= {f"{name}, {where}": usual(make, side) for name, make in kinds.items()}
    return every


def measure(plots: Plots, model: str, seed: int) -> Record:
    """Return what a model predicts of the points held out."""
    predicted, started = np.zeros(len(plots.y)), time.perf_counter()
    for held in tile_folds(plots.tile, seed):
        predicted[held] = models()[model](plots, held, seed)
    seconds = (time.perf_counter() - started) / FOLDS
    row: Record = {"seconds": round(seconds, 2)}
    row["predicted"] = np.clip(predicted, 0, 1).round(4).tolist()
    if not any("measured" in r for r in read_records(RECORDS)):
        row |= {"measured": plots.y.round(4).tolist(), "tile": plots.tile.tolist()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--potsdam", type=Path, help="folder of the EnMAP scene")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="models by the beginning of their names")
    parser.add_argument("--page-only", action="store_true")
    given = parser.parse_args()
    if not given.page_only:
        if given.potsdam is None:
            parser.error("pass the folder of the scene as --potsdam")
        warnings.simplefilter("ignore")
        plots = potsdam(given.potsdam)
        cases = [
            {"model": name, "seed": seed}
            for seed in range(given.first, given.first + given.seeds)
            for name in models()
            if not given.only or name.startswith(tuple(given.only))
        ]
        resume(RECORDS, cases, partial(measure, plots))
    from benchmarks.values_page import PAGE, parts

    fill(PAGE, parts())


if __name__ == "__main__":
    main()
