"""Labels spread over a scene's graph, and what they say together with a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from polyad.scene.steps.edges import EdgeFilter
from polyad.scene.steps.ensemble import logits_of
from polyad.scene.steps.graph import (
    Links,
    link_pixels,
    log_shares,
    make_seeds,
    mean_mass,
    spread_labels,
)
from polyad.scene.steps.segments import find_segments
from polyad.scene.steps.whitening import NoiseWhitening, SegmentWhitening

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Propagation:
    """Settings of the propagation; all lengths are in units of the scene's own noise.

    Needs the whole scene (``halo`` None).

    Attributes
    ----------
    components : int
        Kept of the whitened scene, twice as many as its segments are cut by.
    coarse : float
        Contrast of the edge filter before segments are cut.
    scale, least : float, int
        Of `find_segments`.
    graphs : tuple of (int, float)
        One graph each: components after whitening by segments, and contrast of the edge filter
        that they go through. The log shares of all graphs are averaged.
    neighbours, nearness : int, float
        Of `link_pixels`.
    alpha, walk : float, int
        Of `spread_labels`: how much of a label is handed on, and how often.
    doubt : float
        Of `log_shares`: below about this share of the mean, what has come to a pixel says little.
    """

    components: int = 20
    coarse: float = 4.0
    scale: float = 30.0
    least: int = 20
    graphs: Sequence[Sequence[float]] = ((10, 2.0), (8, 1.9), (15, 2.7))
    neighbours: int = 10
    nearness: float = 0.01
    alpha: float = 0.99
    walk: int = 100
    doubt: float = 0.03

    halo = None

    def link(self, cube: Array, valid: Array | None = None) -> list[Links]:
        """Return the graphs of a scene ``(height, width, bands)``; no label is used."""
        valid = np.ones(cube.shape[:2], bool) if valid is None else valid
        whitening = NoiseWhitening(self.components).fit(cube, valid)
        return self.link_whitened(whitening.transform(cube) * valid[..., None], valid)

    def link_whitened(self, z: Array, valid: Array) -> list[Links]:
        """Return the graphs of a whitened scene, ``(height, width, components)``."""
        clearest = z[..., : max(self.components // 2, 1)]
        segments = find_segments(
            EdgeFilter(self.coarse).transform(clearest), self.scale, self.least
        )
        most = int(max(kept for kept, _ in self.graphs))
        sharper = SegmentWhitening(most).fit_segments(z, segments, valid).transform(z)
        found = []
        for kept, contrast in self.graphs:
            features = EdgeFilter(contrast).transform(sharper[..., : int(kept)])
            found.append(link_pixels(features, self.neighbours, self.nearness, valid))
        return found

    def spread(
        self,
        links: Sequence[Links],
        pixels: Array,
        targets: Array,
        shape: tuple[int, int],
        n_classes: int,
    ) -> Array:
        """Return log shares of the classes, ``(height * width, classes)``."""
        seeds = make_seeds(pixels, targets, shape, n_classes)
        logs = []
        for one in links:
            found = spread_labels(one, seeds, self.alpha, self.walk)
            logs.append(log_shares(found, mean_mass(found), self.doubt))
        return np.mean(logs, axis=0)

    def spread_folds(
        self,
        links: Sequence[Links],
        pixels: Array,
        targets: Array,
        fold: Array,
        shape: tuple[int, int],
        n_classes: int,
    ) -> Array:
        """Return log shares at the training pixels, ``(n, classes)``, each without its own fold.

        The walks of all folds are walked side by side.
        """
        numbers = np.unique(fold)
        kept = [(pixels[fold != k], targets[fold != k]) for k in numbers]
        seeds = [make_seeds(*part, shape, n_classes) for part in kept]
        together = np.concatenate(seeds, axis=1)
        here, own = pixels[:, 0] * shape[1] + pixels[:, 1], np.searchsorted(numbers, fold)
        logs = []
        for one in links:
            found = spread_labels(one, together, self.alpha, self.walk)
            found = found.reshape(-1, len(numbers), n_classes)
            mass = np.array([mean_mass(found[:, k]) for k in range(len(numbers))])
            logs.append(log_shares(found[here, own], mass[own, None], self.doubt))
        return np.mean(logs, axis=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self) | {"graphs": [list(pair) for pair in self.graphs]}


def combine(network: Array, walked: Array, weights: tuple[float, float]) -> Array:
    """Return the product of both experts, normalised, ``(pixels, classes)``.

    Parameters
    ----------
    network : ndarray, ``(pixels, classes)``
        Probabilities.
    walked : ndarray, ``(pixels, classes)``
        Log shares.
    weights : tuple of float
        Of the walk and of the network.
    """
    return softmax(weights[0] * walked + weights[1] * logits_of(network), axis=1)
