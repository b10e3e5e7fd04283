"""Scene statistics: what a scene tells without a single label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy.typing as npt

from polyad.scene.learn.steps.graph import Graph
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
        Of the scene's pixels; none unless the goal is this-scene.
    inside : bytes or None
        The mask of the scene, packed: the graphs of another one do not serve.
    pixels : ndarray of int, ``(m, 2)``, or None
        Some pixels with data, all over the scene.
    """

    whitening: NoiseWhitening
    graphs: list[Graph]
    inside: bytes | None = None
    pixels: Array | None = None

    @cached_property
    def plain(self) -> NoiseWhitening:
        """The principal components of the scene's bands."""
        return self.whitening.principal()
