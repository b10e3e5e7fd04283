"""What is learned and mapped: ten labels per class of Indian Pines; a scene of Pavia U's size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from polyad import RankRClassifier
from polyad.core.network import RankRNet
from polyad.estimators.scaler import ModeStandardScaler
from polyad.experiments.scenes import load_scene
from polyad.fitting.problem import Problem
from polyad.scene.learn.sampling import per_class
from polyad.scene.raster.windows import extract_patches

WINDOW, HIDDEN, PER_CLASS = 5, 75, 10
RANKS = (1, 4)  # of the networks that are timed
WATCHED = 2000  # test pixels whose accuracy is followed during training
PAVIA = (610, 340, 103)
PAVIA_CLASSES = 9


@dataclass(frozen=True)
class Task:
    """Training and test patches ``(n, 5, 5, bands)`` as float32, and their classes."""

    X: NDArray[np.float32]
    y: NDArray[np.integer]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.integer]
    cube: NDArray[np.float32]

    @property
    def watched(self) -> tuple[NDArray[np.float32], NDArray[np.integer]]:
        return self.X_test[:WATCHED], self.y_test[:WATCHED]


def indian_pines(seed: int = 0) -> Task:
    """Return ten labels per class of Indian Pines; test pixels in random order."""
    data = load_scene("indian-pines")
    split = per_class(data.labels, PER_CLASS, random_state=seed)
    test = np.random.default_rng(seed).permutation(split.test)
    patches = [extract_patches(data.cube, p[:, 0], p[:, 1], WINDOW) for p in (split.train, test)]
    classes = [data.labels[tuple(p.T)].astype(int) for p in (split.train, test)]
    return Task(patches[0], classes[0], patches[1], classes[1], data.cube)


def as_problem(task: Task) -> Problem:
    """Return the training samples, standardized, as the solvers take them."""
    x = torch.from_numpy(ModeStandardScaler().fit_transform(task.X))
    codes = torch.from_numpy(np.unique(task.y, return_inverse=True)[1])
    target = torch.nn.functional.one_hot(codes).to(x)
    return Problem(x, target, torch.ones(len(x)), "log")


def paper_network(problem: Problem, rank: int, seed: int = 0) -> RankRNet:
    """Return the paper's network at its start: tanh, no hidden bias, Xavier."""
    generator = torch.Generator().manual_seed(seed)
    return RankRNet(
        problem.x.shape[1:],
        HIDDEN,
        problem.target.shape[1],
        rank,
        hidden_bias=False,
        start="xavier",
        generator=generator,
    )


def made_scene(height: int, width: int, bands: int, seed: int = 0) -> xr.DataArray:
    """Return a scene of random counts, float32, dims ``(y, x, band)``."""
    rng = np.random.default_rng(seed)
    values = rng.normal(2000, 500, (height, width, bands)).astype(np.float32)
    return xr.DataArray(values, dims=("y", "x", "band"))


def made_classifier(
    bands: int, classes: int, rank: int = 1, hidden: int = HIDDEN, seed: int = 0
) -> RankRClassifier:
    """Return a classifier that was fitted, for a moment, on random patches."""
    rng = np.random.default_rng(seed)
    X = rng.normal(2000, 500, (6 * classes, WINDOW, WINDOW, bands)).astype(np.float32)
    y = np.arange(len(X)) % classes + 1
    return RankRClassifier(rank, hidden, activation="tanh", epochs=2, random_state=seed).fit(X, y)
