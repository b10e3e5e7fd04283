"""Label propagation over a scene's graphs, and how it is combined with a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from polyad.scene.learn.steps.edges import EdgeFilter
from polyad.scene.learn.steps.ensemble import logits_of
from polyad.scene.learn.steps.graph import (
    Graph,
    log_shares,
    make_seeds,
    mean_mass,
    pixel_graph,
    propagate_labels,
)
from polyad.scene.learn.steps.segments import find_segments
from polyad.scene.learn.steps.whitening import NoiseWhitening, SegmentWhitening

Array = npt.NDArray[Any]
# What model files call these settings: their keys stay when names here change.
_STORED = {"neighbors": "neighbours", "iterations": "walk", "smoothing": "doubt"}


@dataclass(frozen=True)
class Propagation:
    """Settings of label propagation; all lengths are in units of the scene's own noise.

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
    neighbors, nearness : int, float
        Of `pixel_graph`.
    alpha, iterations : float, int
        Of `propagate_labels`: how much of a label is handed on, and how often.
    smoothing : float
        Of `log_shares`: below about this share of the mean, what reaches a pixel says little.
    """

    components: int = 20
    coarse: float = 4.0
    scale: float = 30.0
    least: int = 20
    graphs: Sequence[Sequence[float]] = ((10, 2.0), (8, 1.9), (15, 2.7))
    neighbors: int = 10
    nearness: float = 0.01
    alpha: float = 0.99
    iterations: int = 100
    smoothing: float = 0.03

    halo = None

    def build_graphs(self, cube: Array, valid: Array | None = None) -> list[Graph]:
        """Return the graphs of a scene ``(height, width, bands)``; no label is used."""
        valid = np.ones(cube.shape[:2], bool) if valid is None else valid
        whitening = NoiseWhitening(self.components).fit(cube, valid)
        return self.graphs_of_whitened(whitening.transform(cube) * valid[..., None], valid)

    def graphs_of_whitened(self, z: Array, valid: Array) -> list[Graph]:
        """Return the graphs of a whitened scene, ``(height, width, components)``."""
        clearest = z[..., : max(self.components // 2, 1)]
        segments = find_segments(
            EdgeFilter(self.coarse).transform(clearest), self.scale, self.least
        )
        most = int(max(kept for kept, _ in self.graphs))
        sharper = SegmentWhitening(most).fit_segments(z, segments, valid).transform(z)
        graphs = []
        for kept, contrast in self.graphs:
            features = EdgeFilter(contrast).transform(sharper[..., : int(kept)])
            graphs.append(pixel_graph(features, self.neighbors, self.nearness, valid))
        return graphs

    def propagate(
        self,
        graphs: Sequence[Graph],
        pixels: Array,
        targets: Array,
        shape: tuple[int, int],
        n_classes: int,
    ) -> Array:
        """Return log shares of the classes, ``(height * width, classes)``."""
        seeds = make_seeds(pixels, targets, shape, n_classes)
        logs = []
        for graph in graphs:
            mass = propagate_labels(graph, seeds, self.alpha, self.iterations)
            logs.append(log_shares(mass, mean_mass(mass), self.smoothing))
        return np.mean(logs, axis=0)

    def propagate_folds(
        self,
        graphs: Sequence[Graph],
        pixels: Array,
        targets: Array,
        fold: Array,
        shape: tuple[int, int],
        n_classes: int,
    ) -> Array:
        """Return log shares at the training pixels, ``(n, classes)``, each without its own fold.

        All folds are propagated side by side.
        """
        numbers = np.unique(fold)
        kept = [(pixels[fold != k], targets[fold != k]) for k in numbers]
        seeds = np.concatenate([make_seeds(*rest, shape, n_classes) for rest in kept], axis=1)
        here, own = pixels[:, 0] * shape[1] + pixels[:, 1], np.searchsorted(numbers, fold)
        logs = []
        for graph in graphs:
            mass = propagate_labels(graph, seeds, self.alpha, self.iterations)
            mass = mass.reshape(-1, len(numbers), n_classes)
            mean = np.array([mean_mass(mass[:, k]) for k in range(len(numbers))])
            logs.append(log_shares(mass[here, own], mean[own, None], self.smoothing))
        return np.mean(logs, axis=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, under the keys of model files."""
        plain = asdict(self) | {"graphs": [list(pair) for pair in self.graphs]}
        return {_STORED.get(name, name): value for name, value in plain.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Propagation:
        """Return the settings that `to_dict` wrote; what is missing has its default.

        Examples
        --------
        >>> Propagation.from_dict({"walk": 40}).iterations
        40
        """
        names = {key: name for name, key in _STORED.items()}
        return cls(**{names.get(key, key): value for key, value in stored.items()})


def combine(network: Array, propagated: Array, weights: tuple[float, float]) -> Array:
    """Return the product of both experts, normalized, ``(pixels, classes)``.

    Parameters
    ----------
    network : ndarray, ``(pixels, classes)``
        Probabilities.
    propagated : ndarray, ``(pixels, classes)``
        Log shares.
    weights : tuple of float
        Of the propagation and of the network.
    """
    return softmax(weights[0] * propagated + weights[1] * logits_of(network), axis=1)
