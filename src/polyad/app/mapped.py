"""A model laid over the scene: class ids, uncertainty, shares, score, advice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.advice import margin_uncertainty, suggest
from polyad.scene.class_matching import in_model_ids
from polyad.scene.classes import UNLABELLED, ClassInfo
from polyad.scene.mapping import map_scene
from polyad.scene.model import SceneModel
from polyad.scene.patches import extract_patches
from polyad.scene.sampling import Split, no_overlap
from polyad.scene.scores import score
from polyad.scene.tiles import Tile, plan_tiles

Array = npt.NDArray[Any]

SIDE = 256  # of the squares that are mapped one after the other
CANDIDATES = 1000  # pixels that advice chooses from, over the whole scene
ADVICE = 24  # pixels suggested


class Candidates(NamedTuple):
    """Unsure pixels: where, how unsure, and their spectra (mean over the model's window)."""

    pixels: Array  # (n, 2)
    uncertainty: Array  # (n,)
    spectra: Array  # (n, bands)


@dataclass(frozen=True)
class Mapped:
    """A map as the page shows it.

    Attributes
    ----------
    version : int
        Counts the maps shown.
    revision : int
        Of the labels it was learned from.
    stage : {"none", "draft", "final"}
        A draft is quick; the final model is the one that ``polyad train`` gives.
    ids, uncertainty : ndarray of uint8, ``(y, x)``
        0 where there is no data or no map yet.
    model : SceneModel or None
    about : dict
        What the page is told: shares, score, advice, seconds.
    """

    version: int
    revision: int
    stage: str
    ids: Array
    uncertainty: Array
    model: SceneModel | None = None
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def empty(cls, shape: tuple[int, int], version: int = 0, revision: int = 0) -> Mapped:
        """Return a map of nothing."""
        ids, uncertainty = (np.zeros(shape, np.uint8) for _ in range(2))
        return cls(version, revision, "none", ids, uncertainty)

    def describe(self) -> dict[str, Any]:
        """Return what the page is told, in types that JSON knows."""
        return {
            "version": self.version,
            "revision": self.revision,
            "stage": self.stage,
            **self.about,
        }


def map_window(
    model: SceneModel, scene: xr.DataArray, tile: Tile, candidates: int = CANDIDATES
) -> tuple[Array, Array, Candidates]:
    """Map one rectangle of the scene, as it would come out of a map of the whole.

    Returns
    -------
    ids : ndarray of uint8, ``(h, w)``
    uncertainty : ndarray of uint8, ``(h, w)``
        From 1 (sure) to 255; 0 where there is no data.
    unsure : Candidates
        The most uncertain pixels, in the scene's rows and columns.
    """
    halo = model.window // 2
    grown, inner = zip(*(_grow(part, halo, size) for part, size in
                         zip(tile, scene.shape[:2], strict=True)), strict=True)  # fmt: skip
    block = scene.isel(y=grown[0], x=grown[1]).load()
    ids, proba = map_scene(model, block, probabilities=True)
    unsure = margin_uncertainty(proba.values[inner])  # (h, w)
    shown = np.where(np.isnan(unsure), 0, 1 + np.rint(254 * np.nan_to_num(unsure)))
    flat = np.where(np.isnan(unsure), -1.0, unsure).ravel()
    best = np.argpartition(-flat, min(candidates, flat.size) - 1)[:candidates]
    best = best[flat[best] > 0]
    rows, cols = np.unravel_index(best, unsure.shape)
    windows = extract_patches(block, rows + inner[0].start, cols + inner[1].start, model.window)
    spectra = windows.astype(np.float32).mean(axis=(1, 2))
    pixels = np.stack([rows + tile.rows.start, cols + tile.cols.start], axis=1)
    return (
        ids.values[inner].astype(np.uint8),
        shown.astype(np.uint8),
        Candidates(pixels, flat[best], np.nan_to_num(spectra)),
    )


def tiles_from(shape: tuple[int, int], focus: tuple[float, float], side: int = SIDE) -> list[Tile]:
    """Return the squares of a scene, those nearest to ``focus`` (row, column) first."""

    def away(tile: Tile) -> float:
        middle = [(part.start + part.stop) / 2 for part in tile]
        return (middle[0] - focus[0]) ** 2 + (middle[1] - focus[1]) ** 2

    return sorted(plan_tiles(shape, (side, side)), key=away)


def shares(ids: Array, classes: tuple[ClassInfo, ...]) -> dict[str, float]:
    """Return the share of the mapped pixels that each class has, by class id."""
    counts = np.bincount(ids.ravel(), minlength=256)
    total = max(int(counts[1:].sum()), 1)
    return {str(c.value): float(counts[c.value] / total) for c in classes}


def advise(unsure: list[Candidates], labelled: Array) -> list[list[float]]:
    """Return the pixels to click next as ``[row, column, uncertainty]``, best first.

    Parameters
    ----------
    unsure : list of Candidates
        Of each square of the scene.
    labelled : ndarray, ``(labels, bands)``
        Spectra of the labelled pixels, mean over the window.
    """
    every = Candidates(*(np.concatenate(part) for part in zip(*unsure, strict=True)))
    order = suggest(every.spectra, every.uncertainty, labelled, ADVICE)
    return [[*map(int, every.pixels[k]), round(float(every.uncertainty[k]), 4)] for k in order]


def score_against(truth: xr.DataArray, mapped: Array, model: SceneModel) -> dict[str, Any] | None:
    """Score a map on the pixels of ``truth`` that were not labelled.

    Classes are matched by name, or by id where ``truth`` has no names. Only true classes that the
    model knows are scored; ``classes`` tells how many those are.

    Returns
    -------
    dict or None
        None if there is nothing to score.
    """
    renumbered, match = in_model_ids(truth, model.classes)
    wanted = renumbered.values.astype(np.int64)
    wanted[~np.isin(wanted, [c.value for c in model.classes])] = UNLABELLED
    train = model.training_pixels(mapped.shape)
    wanted[tuple(train.T)] = UNLABELLED
    wanted[mapped == UNLABELLED] = UNLABELLED
    test = np.argwhere(wanted > 0)
    if not len(test):
        return None
    found = score(
        wanted[tuple(test.T)],
        mapped[tuple(test.T)].astype(np.int64),
        classes=model.classes,
        no_overlap=no_overlap(Split(train, test), mapped.shape, model.window),
    )
    return {
        "overall": found.overall_accuracy,
        "average": found.average_accuracy,
        "no_overlap": found.overall_accuracy_no_overlap,
        "kappa": found.kappa if np.isfinite(found.kappa) else None,
        "pixels": found.n_test,
        "classes": f"{len(match.ids)} of {len(match.ids) + len(match.unknown)}"
        + (" (by id)" if match.by == "id" else ""),
        "matched_by": match.by,
    }


def _grow(part: slice, halo: int, size: int) -> tuple[slice, slice]:
    """Return ``part`` with a halo inside ``0 .. size``, and where ``part`` lies in it."""
    start, stop = max(part.start - halo, 0), min(part.stop + halo, size)
    return slice(start, stop), slice(part.start - start, part.stop - start)
