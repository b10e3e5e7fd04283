"""Maps as the page shows them: class ids, uncertainty, shares of classes, score."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.advice import CANDIDATES, Candidates
from polyad.errors import InputError
from polyad.scene.assess.scores import score
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.sampling import Split, no_overlap
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import UNLABELED, ClassInfo
from polyad.scene.raster.despiking import HALO
from polyad.scene.raster.windows import Tile, extract_patches
from polyad.scene.read.classes import in_model_ids

Array = npt.NDArray[Any]

TILE_SIDE = 256  # pixels of the tiles that are mapped one after another


@dataclass(frozen=True)
class MapVersion:
    """One version of the map.

    Attributes
    ----------
    version : int
        Counts the maps shown.
    revision : int
        Revision of the labels the model was trained on.
    stage : {"none", "draft", "final"}
        A draft is quick; the final model is the one that ``polyad train`` gives.
    ids : ndarray of uint8, ``(y, x)``
        Class ids, 0 where there is no data or no map yet.
    uncertainty : ndarray of uint8, ``(y, x)``
        From 1 (sure) to 255; 0 as in ``ids``.
    model : SceneModel or None
    about : dict
        Shares, score, advice and times, for the page.
    """

    version: int
    revision: int
    stage: str
    ids: Array
    uncertainty: Array
    model: SceneModel | None = None
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def empty(cls, shape: tuple[int, int], version: int = 0) -> MapVersion:
        """Return a map without classes."""
        ids, uncertainty = (np.zeros(shape, np.uint8) for _ in range(2))
        return cls(version, 0, "none", ids, uncertainty)

    def describe(self) -> dict[str, Any]:
        """Return everything but the rasters and the model, as JSON types."""
        return {
            "version": self.version,
            "revision": self.revision,
            "stage": self.stage,
            **self.about,
        }

    def at(self, row: int, col: int) -> dict[str, Any]:
        """Return the class of a pixel and its uncertainty from 0 to 1."""
        if not (0 <= row < self.ids.shape[0] and 0 <= col < self.ids.shape[1]):
            raise InputError(f"pixel [{row}, {col}] lies outside the scene")
        uncertainty = max(int(self.uncertainty[row, col]) - 1, 0) / 254
        return {"class": int(self.ids[row, col]), "uncertainty": round(uncertainty, 3)}


def margin_uncertainty(proba: Array) -> Array:
    """Return one minus the margin between the two most probable classes.

    Parameters
    ----------
    proba : ndarray, ``(..., classes)``
        NaN where there is no prediction.

    Returns
    -------
    ndarray, ``(...)``
        From 0 (sure) to 1 (two classes alike); NaN where there is no prediction.

    Examples
    --------
    >>> margin_uncertainty(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([0., 1.])
    """
    if proba.shape[-1] < 2:
        return 1.0 - proba[..., 0]
    two = np.partition(proba, -2, axis=-1)[..., -2:]
    return 1.0 - (two[..., 1] - two[..., 0])


def encoded(proba: Array, values: Array) -> tuple[Array, Array, Array]:
    """Return what the page shows of probabilities ``(h, w, classes)``.

    Parameters
    ----------
    proba : ndarray
        NaN where there is no data.
    values : ndarray of uint8, ``(classes,)``
        Ids of the classes.

    Returns
    -------
    ids : ndarray of uint8, ``(h, w)``
    uncertainty : ndarray of float, ``(h, w)``
        NaN where there is no data.
    levels : ndarray of uint8, ``(h, w)``
        The uncertainty from 1 to 255, see `MapVersion`.
    """
    uncertainty = margin_uncertainty(proba)
    blank = np.isnan(uncertainty)
    levels = np.where(blank, 0, 1 + np.rint(254 * np.nan_to_num(uncertainty))).astype(np.uint8)
    ids = np.where(blank, UNLABELED, values[np.nan_to_num(proba).argmax(axis=-1)])
    return ids.astype(np.uint8), uncertainty, levels


def map_window(
    model: SceneModel, scene: xr.DataArray, tile: Tile, candidates: int = CANDIDATES
) -> tuple[Array, Array, Candidates]:
    """Map one tile of the scene, with the same result as in a map of the whole.

    Returns
    -------
    ids : ndarray of uint8, ``(h, w)``
    uncertainty : ndarray of uint8, ``(h, w)``
        See `MapVersion`.
    candidates : Candidates
        The most uncertain pixels, in rows and columns of the scene.
    """
    wide = tile.grown(model.window // 2 + HALO, (scene.sizes["y"], scene.sizes["x"]))
    inner = tile.within(wide)
    block = scene.isel(y=wide.rows, x=wide.cols).load()
    # A block's light is not compared: it is of the scene that the model was trained on
    ids, proba = map_scene(replace(model, radiometry=None), block, probabilities=True)
    uncertainty = margin_uncertainty(proba.values[inner])  # (h, w)
    encoded = np.where(np.isnan(uncertainty), 0, 1 + np.rint(254 * np.nan_to_num(uncertainty)))
    flat = np.where(np.isnan(uncertainty), -1.0, uncertainty).ravel()
    top = np.argpartition(-flat, min(candidates, flat.size) - 1)[:candidates]
    top = top[flat[top] > 0]
    rows, cols = np.unravel_index(top, uncertainty.shape)
    patches = extract_patches(block, rows + inner.rows.start, cols + inner.cols.start, model.window)
    spectra = patches.astype(np.float32).mean(axis=(1, 2))
    pixels = np.stack([rows + tile.rows.start, cols + tile.cols.start], axis=1)
    return (
        ids.values[inner].astype(np.uint8),
        encoded.astype(np.uint8),
        Candidates(pixels, flat[top], np.nan_to_num(spectra)),
    )


def shares(ids: Array, classes: tuple[ClassInfo, ...]) -> dict[str, float]:
    """Return each class's share of the mapped pixels, by class id."""
    counts = np.bincount(ids.ravel(), minlength=256)
    total = max(int(counts[1:].sum()), 1)
    return {str(c.value): float(counts[c.value] / total) for c in classes}


def score_against(truth: xr.DataArray, ids: Array, model: SceneModel) -> dict[str, Any] | None:
    """Score a map on the pixels of ``truth`` that the model was not trained on.

    Classes are matched by name, or by id if ``truth`` has no names. Only true classes that the
    model knows are scored; ``classes`` says how many.

    Returns
    -------
    dict or None
        None if there is nothing to score.
    """
    renumbered, match = in_model_ids(truth, model.classes)
    true_ids = renumbered.values.astype(np.int64)
    true_ids[~np.isin(true_ids, [c.value for c in model.classes])] = UNLABELED
    train = model.training_pixels(ids.shape)
    true_ids[tuple(train.T)] = UNLABELED
    true_ids[ids == UNLABELED] = UNLABELED
    test = np.argwhere(true_ids > 0)
    if not len(test):
        return None
    scores = score(
        true_ids[tuple(test.T)],
        ids[tuple(test.T)].astype(np.int64),
        classes=model.classes,
        no_overlap=no_overlap(Split(train, test), ids.shape, model.window),
    )
    return {
        "overall": scores.overall_accuracy,
        "average": scores.average_accuracy,
        "no_overlap": scores.overall_accuracy_no_overlap,
        "kappa": scores.kappa if np.isfinite(scores.kappa) else None,
        "pixels": scores.n_test,
        "classes": f"{len(match.ids)} of {len(match.ids) + len(match.unknown)}"
        + (" (by id)" if match.by == "id" else ""),
        "matched_by": match.by,
    }
