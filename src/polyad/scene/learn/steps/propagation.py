"""Label propagation over a scene's graphs, and how it is combined with a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.steps.edges import EdgeFilter
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
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
Check = Callable[[], None]
# What model files call these settings: their keys stay when names here change.
_STORED = {"neighbors": "neighbours", "iterations": "walk", "smoothing": "doubt"}
EXACT_PIXELS = 10_000  # of a scene whose every pixel is a node; a larger one has superpixels


@dataclass(frozen=True)
class Propagation:
    """Settings of label propagation; all lengths are in units of the scene's own noise.

    Needs the whole scene (``halo`` None). The defaults are those of a graph of pixels;
    `for_pixels` gives those that suit the size of a scene.

    Attributes
    ----------
    superpixel : int
        Least pixels of a node of the graphs, see `find_superpixels`; with 1 every pixel is one.
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
        Of `pixel_graph` or `node_graph`.
    alpha, iterations : float, int
        Of `propagate_labels`: how much of a label is handed on, and how often.
    smoothing : float
        Of `log_shares`: below about this share of the mean, what reaches a node says little.
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
    superpixel: int = 1

    halo = None

    @classmethod
    def for_pixels(cls, pixels: int, **settings: Any) -> Propagation:
        """Return the settings for a scene of so many pixels, other than those given.

        Superpixels are farther apart than pixels, so that labels need fewer neighbors and shorter
        paths to get as far.

        Examples
        --------
        >>> Propagation.for_pixels(2_000).superpixel, Propagation.for_pixels(10**6).superpixel
        (1, 4)
        """
        if pixels <= EXACT_PIXELS:
            return cls(**settings)
        nodes = {"superpixel": 4, "neighbors": 3, "nearness": 0.02, "alpha": 0.97}
        return cls(**({**nodes, "iterations": 50} | settings))

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
        nodes: Array,
        n_classes: int,
        left: Callable[[float], None] = lambda share: None,  # noqa: ARG005
        check: Check = lambda: None,
    ) -> Array:
        """Return log shares of the classes, ``(nodes, classes)``.

        Parameters
        ----------
        graphs : sequence of Graph
        pixels : ndarray of int, ``(n, 2)``
            With labels.
        targets : ndarray of int, ``(n,)``
            Position of each label's class, from 0.
        nodes : ndarray of int, ``(height, width)``
            Node of each pixel, -1 where there is no data.
        n_classes : int
        left : callable, optional
            Called after each graph with the share of the work that is left.
        check : callable, optional
            Called before each step, and may raise to end the work.
        """
        seeds = make_seeds(nodes[tuple(pixels.T)], targets, graphs[0].shape[0], n_classes)
        total: Any = 0.0
        for number, graph in enumerate(graphs, start=1):
            mass = propagate_labels(graph, seeds, self.alpha, self.iterations, check)
            left(1 - number / len(graphs))
            total = total + log_shares(mass, mean_mass(mass), self.smoothing)
        return np.asarray(total / len(graphs))

    def propagate_folds(
        self,
        graphs: Sequence[Graph],
        pixels: Array,
        targets: Array,
        fold: Array,
        nodes: Array,
        n_classes: int,
        check: Check = lambda: None,
    ) -> Array:
        """Return log shares at the training pixels, ``(n, classes)``, each without its own fold.

        Folds do not depend on each other: they are shared among threads.
        """
        here = nodes[tuple(pixels.T)]

        def propagate(task: tuple[Graph, Any]) -> Array:
            graph, number = task
            rest, own = fold != number, here[fold == number]
            seeds = make_seeds(here[rest], targets[rest], graph.shape[0], n_classes)
            mass = propagate_labels(graph, seeds, self.alpha, self.iterations, check)
            at = np.where(own[:, None] < 0, np.float32(0), mass[own])
            return log_shares(at, mean_mass(mass), self.smoothing)

        numbers = np.unique(fold)
        tasks = [(graph, number) for graph in graphs for number in numbers]
        shares = np.zeros((len(graphs), len(pixels), n_classes), np.float32)
        for k, logs in enumerate(run_tasks(propagate, tasks)):
            shares[k // len(numbers), fold == numbers[k % len(numbers)]] = logs
        return np.mean(shares, axis=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, under the keys of model files."""
        plain = asdict(self) | {"graphs": [list(pair) for pair in self.graphs]}
        if self.superpixel == 1:  # as files had it before there were others
            del plain["superpixel"]
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
    both = np.log(np.maximum(network, 1e-12))  # what would normalize it, the softmax takes out
    both *= weights[1]
    both += weights[0] * propagated
    both -= both.max(axis=1, keepdims=True)
    np.exp(both, out=both)
    both /= both.sum(axis=1, keepdims=True)
    return np.asarray(both)
