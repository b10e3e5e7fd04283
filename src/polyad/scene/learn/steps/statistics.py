"""Scene statistics: what a scene tells without a single label."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.steps.components import Components
from polyad.scene.learn.steps.graph import Graph
from polyad.scene.learn.steps.propagation import Propagation
from polyad.scene.learn.steps.whitening import NoiseWhitening

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SceneStatistics:
    """What the best preset learns without labels; it serves every fit and map of the scene.

    Attributes
    ----------
    whitening : NoiseWhitening
        Of the scene's noise.
    graphs : list of Graph
        Of the scene's pixels or superpixels; none unless the goal is this-scene.
    inside : bytes or None
        The mask of the scene, packed: the graphs of another one do not serve.
    pixels : ndarray of int, ``(m, 2)``, or None
        Some pixels with data, all over the scene.
    nodes : ndarray of int32, ``(height, width)``
        Which node of the graphs each pixel belongs to, -1 where there is no data.
    propagation : Propagation
        The settings that the graphs were built by.
    components : Components or None
        Of every pixel, for drafts of a map; kept only where they are asked for.
    """

    whitening: NoiseWhitening
    graphs: list[Graph]
    inside: bytes | None = None
    pixels: Array | None = None
    nodes: Array = field(default_factory=lambda: np.empty((0, 0), np.int32))
    propagation: Propagation = field(default_factory=Propagation)
    components: Components | None = field(default=None, repr=False)

    @cached_property
    def plain(self) -> NoiseWhitening:
        """The principal components of the scene's bands."""
        return self.whitening.principal()
