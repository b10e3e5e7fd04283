"""Maps of a draft: a network slid over components in memory, at every pixel or every few."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.recipe import GuidedFilter
from polyad.scene.learn.scene_statistics import SceneStatistics
from polyad.scene.learn.steps import filtered
from polyad.scene.learn.training import GUIDE, kept_components, viewed
from polyad.scene.map.classifier import piece_side
from polyad.scene.map.separable import Scorer, separable_scorer
from polyad.scene.map.tile_mapper import Shares
from polyad.scene.raster.windows import Block, Tile, halo_index, plan_tiles

Array = npt.NDArray[Any]


class DraftMapper:
    """Maps tiles of a draft; several threads may share one.

    Parameters
    ----------
    model : SceneModel
        Of `polyad.scene.learn.training.fit_draft`.
    statistics : SceneStatistics
        That it was fitted by.
    shares : Shares, optional
        Of label propagation, where the model's recipe has it.
    """

    def __init__(
        self, model: SceneModel, statistics: SceneStatistics, shares: Shares | None = None
    ) -> None:
        self._model, self._nodes, self._shares = model, statistics.nodes, shares
        self._components = kept_components(statistics)
        self._values = self._components.view(viewed(model.choice))
        self._guided = None if model.recipe is None else model.recipe.guided
        self._spare: dict[int, list[Scorer]] = {}  # by stride; they keep buffers

    def probabilities(self, tile: Tile, stride: int = 1) -> Array:
        """Return probabilities of every ``stride``-th pixel of a tile, down and across.

        They are those that the whole tile has there, but for a guided filter: it then works on
        these pixels alone, with a radius that many times shorter.

        Returns
        -------
        ndarray of float32, ``(ceil(h / stride), ceil(w / stride), classes)``
            NaN where there is no data.
        """
        if self._guided is not None:
            proba = self._smoothed(self._guided, tile, stride)
        else:
            proba = torch.softmax(self._logits(tile, stride), dim=2).numpy()
        every = Tile(*(slice(side.start, side.stop, stride) for side in tile))
        proba[self._nodes[every] < 0] = np.nan
        return proba if self._shares is None else self._shares.at(every).combined(proba)

    def _smoothed(self, step: GuidedFilter, tile: Tile, stride: int) -> Array:
        radius = max(round(step.radius / stride), 1)
        wide = tile.grown(2 * radius * stride, (self._nodes.shape[0], self._nodes.shape[1]))
        every = Tile(*(slice(side.start, side.stop, stride) for side in wide))
        blank = torch.from_numpy(self._nodes[every] < 0)
        proba = torch.softmax(self._logits(wide, stride), dim=2)
        proba[blank] = 1 / proba.shape[2]
        plain = self._components.columns["plain"]
        count = min(GUIDE, plain.stop - plain.start)
        guide = torch.from_numpy(self._components.guide(wide, stride, count))
        smooth = filtered(proba, guide, radius, step.ridge).clamp(1e-6, 1.0)
        smooth /= smooth.sum(dim=2, keepdim=True)
        rows, cols = (
            slice((own.start - out.start) // stride, -(-(own.stop - out.start) // stride))
            for own, out in zip(tile, wide, strict=True)
        )
        return smooth[rows, cols].numpy().copy()

    def _logits(self, tile: Tile, stride: int) -> Tensor:
        """Return the network's logits of a tile, ``(h', w', classes)``."""
        shape, halo = self._values.shape, self._model.window // 2
        height, width = (-(-n // stride) for n in tile.shape)
        logits = torch.empty(height, width, len(self._model.classes))
        side = max(piece_side(self._model) // stride, 1) * stride
        spare = self._spare.setdefault(stride, [])
        for piece in plan_tiles(tile.shape, (side, side)):
            try:
                scorer = spare.pop()
            except IndexError:
                scorer = separable_scorer(self._model.estimator, stride=stride)
            rows, cols = (
                halo_index(slice(s.start + t.start, s.stop + t.start), halo, n)
                for s, t, n in zip(piece, tile, shape[:2], strict=True)
            )
            block = Block(self._values, rows, cols)
            scores = scorer(block.cut(slice(None), slice(None)), sure=True)
            at = tuple(slice(s.start // stride, -(-s.stop // stride)) for s in piece)
            logits[at] = torch.from_numpy(np.asarray(scores)).permute(1, 2, 0)
            spare.append(scorer)
        return logits
