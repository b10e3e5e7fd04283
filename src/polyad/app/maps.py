r"""Maps as the page shows them: drawn in view first, with uncertainty, score and advice.

The advice is where to click next: pixels the model is unsure of and that differ from those labeled.
A pixel's worth is its uncertainty times its novelty :math:`\min(1, 2 d / m)`, where *d* is the
distance of its spectrum (mean over the model's window, bands standardized) to the nearest labeled
one and *m* is the median of *d*. Novelty saturates, since a pixel far from all others is often a
defect. Pixels are chosen one by one, each counted as labeled before the next: a field gets one
click.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.journal import Json
from polyad.errors import InputError
from polyad.scene.assess.scores import score
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.sampling import Split, no_overlap
from polyad.scene.learn.training import PropagatedLabels
from polyad.scene.map.tile_mapper import DraftMapper, Shares
from polyad.scene.raster.classes import UNLABELED, ClassInfo
from polyad.scene.raster.windows import Tile, plan_tiles
from polyad.scene.read.classes import in_model_ids
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
Check = Callable[[], None]

VIEW_TILE = 128  # side of the tiles that a view is cut into; twice that where pixels are left out
CANDIDATES = 1000  # pixels that suggestions are chosen from, over the whole scene
SUGGESTIONS = 24  # pixels the page is given


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
    about: Json = field(default_factory=dict)

    @classmethod
    def empty(cls, shape: tuple[int, int], version: int = 0) -> MapVersion:
        """Return a map without classes."""
        ids, uncertainty = (np.zeros(shape, np.uint8) for _ in range(2))
        return cls(version, 0, "none", ids, uncertainty)

    def describe(self) -> Json:
        """Return everything but the rasters and the model, as JSON types."""
        counts = {"version": self.version, "revision": self.revision, "stage": self.stage}
        return counts | self.about

    def at(self, row: int, col: int) -> Json:
        """Return the class of a pixel and its uncertainty from 0 to 1."""
        check_pixel(row, col, self.ids.shape)
        uncertainty = max(int(self.uncertainty[row, col]) - 1, 0) / 254
        return {"class": int(self.ids[row, col]), "uncertainty": round(uncertainty, 3)}


def check_pixel(row: int, col: int, shape: tuple[int, ...]) -> None:
    """Raise an error unless a pixel lies in a scene of this shape."""
    if not (0 <= row < shape[0] and 0 <= col < shape[1]):
        raise InputError(f"pixel [{row}, {col}] lies outside the scene")


# -- what is in view ------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """A rectangle of the scene on somebody's screen: mapped first, and no finer than it is seen.

    Attributes
    ----------
    tile : Tile
        Its rows and columns.
    scale : float
        Pixels of the screen that a pixel of the scene takes, along one side.
    """

    tile: Tile
    scale: float = 1.0

    @classmethod
    def whole(cls, shape: tuple[int, int]) -> View:
        """Return the view of a whole scene."""
        return cls(Tile(slice(0, shape[0]), slice(0, shape[1])))

    @classmethod
    def from_message(cls, message: Mapping[str, Any], shape: tuple[int, int]) -> View:
        """Return the view of a page's message: ``rows`` and ``cols`` as pairs, and ``scale``.

        Raises
        ------
        InputError
            It is no rectangle within the scene.
        """
        sides = {}
        for name, length in zip(("rows", "cols"), shape, strict=True):
            value: Any = message.get(name)
            whole = isinstance(value, list) and [type(v) for v in value] == [int, int]
            if not whole or not 0 <= value[0] < value[1] <= length:
                raise InputError(
                    f"{name} must be two whole numbers that rise between 0 and {length}"
                )
            sides[name] = slice(value[0], value[1])
        scale = message.get("scale")
        if not isinstance(scale, int | float) or scale is True or not 1e-6 < scale < 1e6:
            raise InputError("scale must be a number above 0: screen pixels for each scene pixel")
        return cls(Tile(**sides), float(scale))

    @property
    def pixels(self) -> int:
        """How many pixels of the scene it holds."""
        return math.prod(self.tile.shape)

    def shows(self, tile: Tile) -> bool:
        """Whether any pixel of a tile is in view."""
        return all(
            ours.start < other.stop and other.start < ours.stop
            for ours, other in zip(self.tile, tile, strict=True)
        )

    def distance(self, tile: Tile) -> tuple[bool, float]:
        """Return a key by which tiles in view come first, then those nearest to its middle."""
        middles = [[(s.start + s.stop) / 2 for s in each] for each in (self.tile, tile)]
        return not self.shows(tile), math.dist(*middles)

    def stride(self, most: int) -> int:
        """Return which pixels to map, every first, second or fourth, for at most so many in all.

        Nor more of them than the screen has.

        Examples
        --------
        >>> View.whole((1000, 1000)).stride(most=300_000)
        2
        """
        height, width = self.tile.shape
        step = 2 ** max(math.floor(math.log2(1 / self.scale)), 0)
        while -(-height // step) * -(-width // step) > most:
            step *= 2
        return int(step)


# -- a map in the making --------------------------------------------------------------------------


class Candidates(NamedTuple):
    """Uncertain pixels: where, how uncertain, and their spectra (mean over the model's window)."""

    pixels: Array  # (n, 2)
    uncertainty: Array  # (n,)
    spectra: Array  # (n, bands)


class Drawing:
    """The rasters of a map that is being made, and the tiles that are left.

    Attributes
    ----------
    ids, uncertainty : ndarray of uint8, ``(y, x)``
        See `MapVersion`; as in the map before where nothing is drawn yet.
    candidates : list of Candidates
        Of the tiles that were mapped in full.
    most : int
        How many candidates a tile gives.
    unseen : list of Tile
        Drawn since the last map was shown.
    """

    def __init__(self, before: MapVersion, tiles: list[Tile]) -> None:
        self.ids, self.uncertainty = before.ids.copy(), before.uncertainty.copy()
        self.candidates: list[Candidates] = []
        self.unseen: list[Tile] = []
        self.most = max(16, CANDIDATES // max(len(tiles), 1))
        self._left = list(tiles)
        self._ordered_by: View | None = None
        self._all = len(tiles)

    @property
    def share(self) -> float:
        """How much of the scene is mapped in full."""
        return 1 - len(self._left) / max(self._all, 1)

    def take(self, view: View, count: int) -> list[Tile]:
        """Return the next tiles to map, those in view first; none if all are mapped."""
        if view is not self._ordered_by:
            self._left.sort(key=view.distance, reverse=True)
            self._ordered_by = view
        return [self._left.pop() for _ in range(min(count, len(self._left)))]

    def put(self, tile: Tile, proba: Array, values: Array, stride: int = 1) -> Array:
        """Draw a tile of which every ``stride``-th pixel was mapped, as blocks.

        Parameters
        ----------
        tile : Tile
        proba : ndarray, ``(h, w, classes)``
            NaN where there is no data.
        values : ndarray of uint8, ``(classes,)``
            Ids of the classes.
        stride : int

        Returns
        -------
        ndarray of float, ``(h, w)``
            The uncertainty, NaN where there is no data.
        """
        uncertainty = margin_uncertainty(proba)
        blank = np.isnan(uncertainty)
        levels = np.where(blank, 0, 1 + np.rint(254 * np.nan_to_num(uncertainty))).astype(np.uint8)
        ids = np.where(blank, UNLABELED, values[np.nan_to_num(proba).argmax(axis=-1)])
        for raster, drawn in ((self.ids, ids), (self.uncertainty, levels)):
            blocks = drawn.repeat(stride, axis=0).repeat(stride, axis=1) if stride > 1 else drawn
            raster[tile] = blocks[: tile.shape[0], : tile.shape[1]]
        self.unseen.append(tile)
        return uncertainty

    def drawer(
        self,
        model: SceneModel,
        probabilities: Callable[[Tile], Array],
        spectra: Callable[[Array, int], Array],
        check: Check,
    ) -> Callable[[Tile], None]:
        """Return the function that draws a tile from its probabilities ``(h, w, classes)``.

        ``spectra`` gives those of pixels ``(n, 2)``, mean over a window, for the advice.
        """
        values = np.array([c.value for c in model.classes], np.uint8)

        def draw(tile: Tile) -> None:
            check()
            uncertainty = self.put(tile, probabilities(tile), values)
            flat = np.where(np.isnan(uncertainty), -1.0, uncertainty).ravel()
            top = np.argpartition(-flat, min(self.most, flat.size) - 1)[: self.most]
            top = top[flat[top] > 0]
            corner = np.array([tile.rows.start, tile.cols.start])
            pixels = np.stack(np.unravel_index(top, uncertainty.shape), axis=1) + corner
            self.candidates.append(Candidates(pixels, flat[top], spectra(pixels, model.window)))

        return draw

    def draw_view(
        self, model: SceneModel, mapper: DraftMapper, view: View, stride: int, check: Check
    ) -> None:
        """Draw what is in view, at every ``stride``-th pixel."""
        first = [side.start // stride * stride for side in view.tile]
        size = view.tile.rows.stop - first[0], view.tile.cols.stop - first[1]
        side = VIEW_TILE * min(stride, 2)
        values = np.array([c.value for c in model.classes], np.uint8)

        def draw(part: Tile) -> None:
            check()
            tile = Tile(*(slice(s.start + n, s.stop + n) for s, n in zip(part, first, strict=True)))
            self.put(tile, mapper.probabilities(tile, stride), values, stride)

        run_tasks(draw, plan_tiles(size, (side, side)))


def draft_mapper(model: SceneModel, propagated: PropagatedLabels, check: Check) -> DraftMapper:
    """Return what maps a draft, with its labels propagated where its recipe says so."""
    statistics = propagated.statistics
    step = None if model.recipe is None else model.recipe.propagation
    if step is None:
        return DraftMapper(model, statistics)
    pixels = model.training_pixels(statistics.nodes.shape)
    class_ids = np.array([info.value for info in model.classes])[list(step.targets)]
    logs = propagated.log_shares(pixels, class_ids, check)
    return DraftMapper(model, statistics, Shares(statistics.nodes, logs, step.weights))


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


# -- what is told of a map ------------------------------------------------------------------------


def shares(ids: Array, classes: tuple[ClassInfo, ...]) -> dict[str, float]:
    """Return each class's share of the mapped pixels, by class id."""
    counts = np.bincount(ids.ravel(), minlength=256)
    total = max(int(counts[1:].sum()), 1)
    return {str(c.value): float(counts[c.value] / total) for c in classes}


def score_against(truth: xr.DataArray, ids: Array, model: SceneModel) -> Json | None:
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


def advise(candidates: list[Candidates], labeled: Array) -> list[list[float]]:
    """Return the pixels to click next as ``[row, column, uncertainty]``, best first.

    Parameters
    ----------
    candidates : list of Candidates
        Of each tile of the scene.
    labeled : ndarray, ``(labels, bands)``
        Spectra of the labeled pixels, mean over the window.
    """
    pixels, uncertainty, spectra = map(np.concatenate, zip(*candidates, strict=True))
    order = suggest(spectra, uncertainty, labeled, SUGGESTIONS)
    return [[*map(int, pixels[k]), round(float(uncertainty[k]), 4)] for k in order]


def suggest(spectra: Array, uncertainty: Array, labeled: Array, n: int) -> npt.NDArray[np.intp]:
    """Return the candidates most worth a label, best first.

    Parameters
    ----------
    spectra : ndarray, ``(candidates, bands)``
    uncertainty : ndarray, ``(candidates,)``
        From 0 (sure) to 1.
    labeled : ndarray, ``(labels, bands)``
        Spectra of the labeled pixels.
    n : int
        How many to return, at most.

    Returns
    -------
    ndarray of int
        Positions among the candidates.

    Examples
    --------
    >>> labeled = np.array([[0.0], [1.0]])
    >>> suggest(np.array([[0.0], [0.5], [0.9]]), np.array([0.9, 0.8, 0.1]), labeled, n=1)
    array([1])
    """
    n = min(n, len(spectra))
    if n == 0:
        return np.empty(0, np.intp)
    both = np.concatenate([spectra, labeled]).astype(np.float64)
    scale = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    x, known = both[: len(spectra)], both[len(spectra) :]
    distance = np.ones(len(x))
    if len(known):  # to the nearest labeled one
        square = (x**2).sum(axis=1)[:, None] + (known**2).sum(axis=1) - 2 * x @ known.T
        distance = np.sqrt(np.maximum(square.min(axis=1), 0.0))
    near = float(np.median(distance)) / 2 or 1.0  # closer than this counts as similar to a label
    chosen = np.empty(n, np.intp)
    left = np.ones(len(x), bool)
    for k in range(n):
        worth = np.where(left, uncertainty * np.minimum(distance / near, 1.0), -np.inf)
        best = int(worth.argmax())
        chosen[k], left[best] = best, False
        distance = np.minimum(distance, np.sqrt(((x - x[best]) ** 2).sum(axis=1)))
    return chosen
