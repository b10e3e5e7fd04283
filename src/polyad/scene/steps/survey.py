"""What a scene tells without a single label."""

from __future__ import annotations

from dataclasses import dataclass

from polyad.scene.steps.graph import Links
from polyad.scene.steps.whitening import NoiseWhitening


@dataclass(frozen=True)
class Survey:
    """The label-free part of the best preset; it serves every fit and every map of the scene.

    Attributes
    ----------
    whitening : NoiseWhitening
        Of the scene's noise.
    links : list of Links
        The scene's graphs; none unless the goal is this-scene.
    """

    whitening: NoiseWhitening
    links: list[Links]
