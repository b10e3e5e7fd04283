"""Labels spread over a scene's graph, and what they say together with a network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from polyad.scene.steps.edges import EdgeFilter
from polyad.scene.steps.ensemble import logits_of
from polyad.scene.steps.graph import Links, link_pixels, log_shares, make_seeds, spread_labels
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
        Kept of the whitened scene, for its segments and for its links.
    coarse, fine : float
        Contrast of the edge filter before segments are cut, and before pixels are linked.
    scale, least : float, int
        Of `find_segments`.
    neighbours, nearness : int, float
        Of `link_pixels`.
    alpha, walk : float, int
        Of `spread_labels`: how much of a label is handed on, and how often.
    """

    components: int = 10
    coarse: float = 4.0
    fine: float = 2.0
    scale: float = 30.0
    least: int = 20
    neighbours: int = 10
    nearness: float = 0.01
    alpha: float = 0.99
    walk: int = 100

    halo = None

    def link(self, cube: Array, valid: Array | None = None) -> Links:
        """Return the graph of a scene ``(height, width, bands)``; no label is used."""
        valid = np.ones(cube.shape[:2], bool) if valid is None else valid
        whitening = NoiseWhitening(2 * self.components).fit(cube, valid)
        return self.link_whitened(whitening.transform(cube) * valid[..., None], valid)

    def link_whitened(self, z: Array, valid: Array) -> Links:
        """Return the graph of a whitened scene, ``(height, width, 2 * components)``."""
        segments = find_segments(
            EdgeFilter(self.coarse).transform(z[..., : self.components]), self.scale, self.least
        )
        sharper = SegmentWhitening(self.components).fit_segments(z, segments, valid)
        features = EdgeFilter(self.fine).transform(sharper.transform(z))
        return link_pixels(features, self.neighbours, self.nearness, valid)

    def spread(
        self, links: Links, pixels: Array, targets: Array, shape: tuple[int, int], n_classes: int
    ) -> Array:
        """Return log shares of the classes, ``(height * width, classes)``."""
        seeds = make_seeds(pixels, targets, shape, n_classes)
        return log_shares(spread_labels(links, seeds, self.alpha, self.walk))

    def spread_folds(
        self,
        links: Links,
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
        found = spread_labels(links, np.concatenate(seeds, axis=1), self.alpha, self.walk)
        here = pixels[:, 0] * shape[1] + pixels[:, 1]
        found = found[here].reshape(len(pixels), len(numbers), n_classes)
        return log_shares(found[np.arange(len(pixels)), np.searchsorted(numbers, fold)])

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


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
