"""A map in the making: the tiles in view first, then the rest of the scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.advice import Candidates
from polyad.app.maps import MapVersion, encoded, map_window
from polyad.app.view import View
from polyad.scene.learn.drafts import PropagatedLabels
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.drafts import DraftMapper
from polyad.scene.map.refining import Shares
from polyad.scene.raster.windows import Tile, plan_tiles
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
Check = Callable[[], None]
VIEW_TILE = 128  # side of the tiles that a view is cut into; twice that where pixels are left out


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
    """

    def __init__(self, before: MapVersion, tiles: list[Tile], most: int) -> None:
        self.ids, self.uncertainty = before.ids.copy(), before.uncertainty.copy()
        self.candidates: list[Candidates] = []
        self.most = most
        self._left = list(tiles)
        self._ordered_by: View | None = None
        self._all = len(tiles)
        self._unseen: list[Tile] = []  # drawn since the last map was shown

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

    def put(self, tile: Tile, ids: Array, uncertainty: Array, stride: int = 1) -> None:
        """Draw a tile of which every ``stride``-th pixel was mapped, as blocks."""
        if stride > 1:
            ids, uncertainty = (_blocks(a, stride, tile.shape) for a in (ids, uncertainty))
        self.ids[tile], self.uncertainty[tile] = ids, uncertainty
        self._unseen.append(tile)

    def changed(self, view: View) -> bool:
        """Whether anything in view was drawn since the last map was shown."""
        return any(view.shows(tile) for tile in self._unseen)

    def shown(self) -> None:
        """Take note that a map was shown."""
        self._unseen.clear()


def draw_view(
    drawing: Drawing,
    mapper: DraftMapper,
    model: SceneModel,
    view: View,
    stride: int,
    check: Check,
) -> None:
    """Draw what is in view, at every ``stride``-th pixel."""
    first = [side.start // stride * stride for side in view.tile]
    size = view.tile.rows.stop - first[0], view.tile.cols.stop - first[1]
    side = VIEW_TILE * min(stride, 2)
    values = class_values(model)

    def draw(part: Tile) -> None:
        check()
        tile = Tile(*(slice(s.start + n, s.stop + n) for s, n in zip(part, first, strict=True)))
        ids, _, levels = encoded(mapper.probabilities(tile, stride), values)
        drawing.put(tile, ids, levels, stride)

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


def drawer(
    drawing: Drawing,
    model: SceneModel,
    probabilities: Callable[[Tile], Array],
    spectra: Callable[[Array, int], Array],
    check: Check,
) -> Callable[[Tile], None]:
    """Return the function that draws a tile from its probabilities ``(h, w, classes)``.

    ``spectra`` gives those of pixels ``(n, 2)``, mean over a window, for the advice.
    """
    values = class_values(model)

    def draw(tile: Tile) -> None:
        check()
        ids, uncertainty, levels = encoded(probabilities(tile), values)
        drawing.put(tile, ids, levels)
        flat = np.where(np.isnan(uncertainty), -1.0, uncertainty).ravel()
        top = np.argpartition(-flat, min(drawing.most, flat.size) - 1)[: drawing.most]
        top = top[flat[top] > 0]
        corner = np.array([tile.rows.start, tile.cols.start])
        pixels = np.stack(np.unravel_index(top, uncertainty.shape), axis=1) + corner
        found = Candidates(pixels, flat[top], spectra(pixels, model.window))
        drawing.candidates.append(found)

    return draw


def window_drawer(
    drawing: Drawing, model: SceneModel, scene: xr.DataArray
) -> Callable[[Tile], None]:
    """Return the function that draws a tile by a model without steps that need a whole scene."""

    def draw(tile: Tile) -> None:
        ids, uncertainty, candidates = map_window(model, scene, tile, drawing.most)
        drawing.put(tile, ids, uncertainty)
        drawing.candidates.append(candidates)

    return draw


def class_values(model: SceneModel) -> Array:
    """Return the ids of a model's classes, ``(classes,)``."""
    return np.array([c.value for c in model.classes], np.uint8)


def _blocks(values: Array, stride: int, shape: tuple[int, int]) -> Array:
    """Return values with each repeated down and across, cut to a shape."""
    return values.repeat(stride, axis=0).repeat(stride, axis=1)[: shape[0], : shape[1]]
