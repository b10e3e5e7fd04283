r"""The steps after the network: guided filter, and label propagation over the scene's graphs.

Guided filter: in every square of side 2r + 1 the output is a linear function of the guide,
:math:`q = a^\top g + b`, fitted to the input by ridge regression; the functions of all squares that
hold a pixel are averaged (He, Sun & Tang 2013).

Label propagation: each node, a pixel or a small group of them, is joined to the nodes nearest to it
in value and in place. Labels propagate along the edges,
:math:`U \leftarrow \alpha S U + (1 - \alpha) Y` with :math:`S = D^{-1/2} W D^{-1/2}` (Zhou et al.
2004): a node ends up with the class that most short paths lead to. Which node a pixel belongs to is
said by an array ``nodes``, ``(height, width)``, with -1 where there is no data.

The values that nodes are compared by are smoothed inside fields, up to their edges, by the
recursive domain transform. Along a row, a pixel takes over its neighbor's value with weight
:math:`a^{d}`, where :math:`d = 1 + \frac{\sigma_s}{\sigma_r} \sum_k |I_k(x) - I_k(x - 1)|` is the
distance between the two in space and value (Gastal & Oliveira 2011). Rows and columns take turns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.spatial import cKDTree
from torch import Tensor
from torch.nn.functional import avg_pool2d

from polyad.errors import InputError
from polyad.scene.learn.recipe import PropagationSettings
from polyad.scene.learn.whitening import SegmentWhitening, TooFewPixels
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
Check = Callable[[], None]
GROUP = 8  # maps filtered at a time, by one thread: memory does not grow with their number


def guided_filter(maps: Array, guide: Array, radius: int = 5, ridge: float = 0.01) -> Array:
    """Return maps ``(height, width, k)`` smoothed along ``guide`` ``(height, width, g)``.

    A pixel depends on those within ``2 * radius`` of it.

    Parameters
    ----------
    maps, guide : ndarray
    radius : int, default=5
    ridge : float, default=0.01
        In units of the guide's variance; larger smooths more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> guide = np.repeat([[[0.0]] * 15 + [[1.0]] * 15], 30, axis=0)
    >>> smooth = guided_filter(guide + rng.normal(size=guide.shape) / 3, guide)
    >>> bool(np.abs(smooth - guide).max() < 0.2)
    True
    """
    lead = torch.from_numpy(np.ascontiguousarray(guide, np.float64))
    classes = maps.shape[2]
    smoothed = torch.empty(maps.shape, dtype=torch.float64)

    @torch.no_grad()
    def filter_some(group: slice) -> None:
        some = torch.from_numpy(np.ascontiguousarray(maps[..., group], np.float64))
        smoothed[..., group] = filtered(some, lead, radius, ridge)

    run_tasks(filter_some, [slice(k, k + GROUP) for k in range(0, classes, GROUP)])
    if not bool(torch.isfinite(smoothed).all()):
        raise InputError(
            f"maps and guide must be finite and the guide's {guide.shape[2]} components differ by "
            "more than rounding; raise ridge or scale the guide to unit variance"
        )
    return smoothed.numpy()


def filtered(maps: Tensor, guide: Tensor, radius: int, ridge: float) -> Tensor:
    """As `guided_filter`, on tensors of one precision ``(h, w, k)`` and ``(h, w, g)``.

    In single precision the guide must have a mean near zero: little is left of a variance that lies
    far from it.
    """
    k, g = maps.shape[2], guide.shape[2]
    upper = [(i, j) for i in range(g) for j in range(i, g)]
    pairs = [guide[..., i] * guide[..., j] for i, j in upper]
    cross = (guide[..., :, None] * maps[..., None, :]).flatten(2)  # (h, w, g * k)
    means = box_mean(torch.cat([maps, guide, torch.stack(pairs, dim=2), cross], dim=2), radius)
    mean_maps, mean_guide, mean_pairs, mean_cross = torch.split(
        means, [k, g, len(upper), g * k], dim=2
    )
    rows: list[list[Tensor]] = [[mean_guide] * g for _ in range(g)]  # of the covariance, (h, w)
    for at, (i, j) in enumerate(upper):
        value = mean_pairs[..., at] - mean_guide[..., i] * mean_guide[..., j]
        rows[i][j] = rows[j][i] = value + ridge if i == j else value
    right = [
        mean_cross[..., i * k : (i + 1) * k] - mean_guide[..., i : i + 1] * mean_maps
        for i in range(g)
    ]
    slopes = _solved(rows, right)  # of each component, (h, w, k)
    offset = mean_maps.clone()
    for i, slope in enumerate(slopes):
        offset -= mean_guide[..., i : i + 1] * slope
    means = box_mean(torch.cat([*slopes, offset], dim=2), radius)
    smoothed = means[..., g * k :].clone()
    for i in range(g):
        smoothed += guide[..., i : i + 1] * means[..., i * k : (i + 1) * k]
    return smoothed


def _solved(rows: list[list[Tensor]], right: list[Tensor]) -> list[Tensor]:
    """Solve one small positive system at each pixel by elimination.

    ``rows[i][j]`` are entries ``(h, w)``, and ``right[i]`` right sides ``(h, w, k)``.
    """
    g = len(rows)
    for i in range(g):
        for j in range(i + 1, g):
            share = rows[j][i] / rows[i][i]
            rows[j] = [low - share * high for low, high in zip(rows[j], rows[i], strict=True)]
            right[j] = right[j] - share[..., None] * right[i]
    for i in reversed(range(g)):
        for j in range(i + 1, g):
            right[i] = right[i] - rows[i][j][..., None] * right[j]
        right[i] = right[i] / rows[i][i][..., None]
    return right


def box_mean(values: Tensor, radius: int) -> Tensor:
    """Return means of ``(h, w, c)`` over squares of side ``2 * radius + 1``, cut off at the border.

    Examples
    --------
    >>> box_mean(torch.arange(4.0).reshape(1, 4, 1), 1).flatten().tolist()
    [0.5, 1.0, 2.0, 2.5]
    """
    planes = values[None].permute(0, 3, 1, 2)  # channels stay innermost
    for side, pad in (((2 * radius + 1, 1), (radius, 0)), ((1, 2 * radius + 1), (0, radius))):
        planes = avg_pool2d(planes, side, 1, pad, count_include_pad=False)
    return planes[0].permute(1, 2, 0)


# -- edge filter -----------------------------------------------------------------------------------


def edge_filter(cube: Array, contrast: float = 2.0, reach: float = 200.0, passes: int = 3) -> Array:
    """Smooth all components of a scene ``(height, width, k)`` by their common edges.

    Needs the whole scene. ``contrast`` is the difference of neighbors, mean over the components,
    that counts as an edge; after whitening the unit is the noise's deviation. A flat region is
    smoothed ``reach`` pixels far.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cube = np.repeat([[[0.0]] * 20 + [[50.0]] * 20], 30, axis=0)
    >>> smooth = edge_filter(cube + rng.normal(size=cube.shape))
    >>> bool(smooth[:, :20].std() < 0.5), bool(smooth[:, 20:].mean() - smooth[:, :20].mean() > 49)
    (True, True)
    """
    return domain_transform(cube, contrast * cube.shape[2], reach, passes)


def domain_transform(cube: Array, contrast: float, reach: float = 200.0, passes: int = 3) -> Array:
    """Smooth ``(height, width, k)``; ``contrast`` is sigma_r, ``reach`` is sigma_s."""
    across, down, bases = _distances(cube, contrast, reach, passes)
    smooth = cube.astype(np.result_type(cube, np.float32))  # a copy
    turned = np.empty((smooth.shape[1], smooth.shape[0], smooth.shape[2]), smooth.dtype)
    across = np.ascontiguousarray(across.swapaxes(0, 1))
    for base in bases:
        turned[:] = smooth.swapaxes(0, 1)  # columns one after the other in memory: twice as fast
        _sweep(turned, base**across)
        smooth[:] = turned.swapaxes(0, 1)
        _sweep(smooth, base**down)
    return smooth


def _distances(
    cube: Array, contrast: float, reach: float, passes: int
) -> tuple[Array, Array, list[float]]:
    """Return distances along x and y, each with one entry at the end, and each pass's base a."""
    steps = [np.abs(np.diff(cube, axis=axis)).sum(axis=2, keepdims=True) for axis in (1, 0)]
    across, down = (1 + reach / contrast * step for step in steps)
    # Each pass reaches half as far, so that no stripes of the sweeps remain; together sigma_s
    norm = np.sqrt(3.0 / (4.0**passes - 1))
    sigmas = [reach * norm * 2 ** (passes - 1 - k) for k in range(passes)]
    return across, down, [float(np.exp(-np.sqrt(2) / sigma)) for sigma in sigmas]


def _sweep(rows: Array, weight: Array) -> None:
    """Run the recursive filter forth and back along the first axis, in place."""
    step = np.empty(rows.shape[1:], rows.dtype)
    for k in range(1, len(rows)):
        np.subtract(rows[k - 1], rows[k], out=step)
        step *= weight[k - 1]
        rows[k] += step
    for k in range(len(rows) - 2, -1, -1):
        np.subtract(rows[k + 1], rows[k], out=step)
        step *= weight[k]
        rows[k] += step


# -- segments --------------------------------------------------------------------------------------


def find_segments(
    features: Array, scale: float = 30.0, least: int = 20, deviation: float | None = None
) -> Array:
    """Cut a scene into connected segments of like pixels (Felzenszwalb & Huttenlocher 2004).

    Needs the whole scene.

    Parameters
    ----------
    features : ndarray, ``(height, width, k)``
        They are divided by their common deviation, so that ``scale`` means the same everywhere.
    scale : float
        Larger makes larger segments.
    least : int
        Pixels of the smallest segment.
    deviation : float, optional
        Of the scene that ``features`` are a tile of; their own when not given.

    Returns
    -------
    ndarray of int, ``(height, width)``
        Segment of each pixel, from 0.

    Examples
    --------
    >>> features = np.repeat([[[0.0]] * 10 + [[5.0]] * 10], 10, axis=0)
    >>> int(find_segments(features).max()) + 1
    2
    """
    # Imported here: it takes a second, and only some presets cut segments
    from skimage.segmentation import felzenszwalb

    deviation = (float(features.std()) if deviation is None else deviation) or 1.0
    bands = [features[..., k] / deviation for k in range(features.shape[-1])]
    if len(bands) in (1, 2):  # the library wants a gray image or at least three channels
        bands += [np.zeros_like(bands[0])] * (3 - len(bands))
    image = np.stack(bands, axis=-1).astype(np.float64)
    with warnings.catch_warnings():  # it warns of every image that has not three channels
        warnings.simplefilter("ignore", RuntimeWarning)
        segments = felzenszwalb(image, scale=scale, sigma=0, min_size=least, channel_axis=-1)
    return np.asarray(segments, np.intp)


# -- graphs ----------------------------------------------------------------------------------------


Graph = Any  # a scipy sparse array; few versions of scipy agree on its type
_CSR: Any = sparse.csr_array
COLUMNS = 8  # classes propagated together; the same whatever the number of threads
FLOOR = 1e-3  # share of a class that no label came from; its logarithm stays finite


def pixel_graph(
    features: Array, neighbors: int = 10, nearness: float = 0.01, valid: Array | None = None
) -> Graph:
    r"""Join each pixel to its nearest in features and coordinates. Needs the whole scene.

    The weight of an edge of length d is :math:`\exp(-d^2 / d_k^2)`, where :math:`d_k` is the length
    of the pixel's longest edge: dense and sparse regions are treated alike.

    Parameters
    ----------
    features : ndarray, ``(height, width, k)``
        Scaled here so that their variances add up to one.
    neighbors : int
    nearness : float
        What a distance of one pixel counts in these units.
    valid : ndarray of bool, ``(height, width)``, optional
        Pixels without data get no edge.

    Returns
    -------
    scipy sparse array, ``(pixels, pixels)``
        Normalized symmetrically, S.
    """
    height, width, _ = features.shape
    valid = np.ones((height, width), bool) if valid is None else valid
    index = np.flatnonzero(valid.ravel())
    if len(index) <= neighbors:
        raise TooFewPixels(
            f"label propagation wants more pixels with data than {neighbors}, got {len(index)}; "
            "train with --preset fast (in Python, preset='fast')"
        )
    flat = features.reshape(height * width, -1)[index]
    place = np.stack(np.unravel_index(index, (height, width)), axis=1)
    graph = _joined(flat, place, neighbors, nearness).tocoo()
    rows, columns = (index[end] for end in graph.coords)
    return _normalized(_CSR((graph.data, (rows, columns)), shape=(height * width,) * 2))


def node_graph(
    features: Array,
    places: Array,
    neighbors: int = 3,
    nearness: float = 0.02,
    sizes: Array | None = None,
) -> Graph:
    """Join each node to its nearest; as `pixel_graph`, for nodes anywhere in the scene.

    Parameters
    ----------
    features : ndarray, ``(nodes, k)``
    places : ndarray, ``(nodes, 2)``
        Row and column.
    neighbors, nearness
        See `pixel_graph`; a scene of very few nodes has fewer neighbors.
    sizes : ndarray, ``(nodes,)``, optional
        Pixels of each node, which count in the variance of the features.
    """
    neighbors = min(neighbors, len(features) - 1)
    return _normalized(_joined(features, places, neighbors, nearness, sizes))


def pixel_nodes(valid: Array) -> Array:
    """Return the nodes of a graph whose every pixel is its own, ``(height, width)``.

    Examples
    --------
    >>> pixel_nodes(np.array([[True, False], [True, True]]))
    array([[ 0, -1],
           [ 2,  3]], dtype=int32)
    """
    own = np.arange(valid.size, dtype=np.int32).reshape(valid.shape)
    return np.where(valid, own, np.int32(-1))


def _joined(
    features: Array, places: Array, neighbors: int, nearness: float, sizes: Array | None = None
) -> Graph:
    """Return the weights of the edges, ``(nodes, nodes)``, symmetric and without loops."""
    flat = features.astype(np.float64)
    mean = np.average(flat, axis=0, weights=sizes)
    deviation = np.sqrt(np.average(np.square(flat - mean), axis=0, weights=sizes).sum()) or 1.0
    points = np.concatenate([(flat - mean) / deviation, places * nearness], axis=1)
    length: Any
    other: Any
    length, other = cKDTree(points).query(points, neighbors + 1, workers=torch.get_num_threads())
    length, other = (found.reshape(len(points), -1) for found in (length, other))
    weight = np.exp(-np.square(length / np.maximum(length[:, -1:], 1e-12)))
    start = np.repeat(np.arange(len(points)), neighbors + 1)
    graph = _CSR((weight.ravel(), (start, other.ravel())), shape=(len(points),) * 2)
    graph.setdiag(0.0)  # a node is its own nearest
    graph.eliminate_zeros()
    return graph.maximum(graph.T)


def _normalized(graph: Graph) -> Graph:
    degree = np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    return _CSR(graph / degree[:, None] / degree[None, :], dtype=np.float32)


def propagate_labels(
    graph: Graph,
    seeds: Array,
    alpha: float = 0.99,
    steps: int = 100,
    check: Check = lambda: None,
) -> Array:
    """Propagate seeds ``(nodes, classes)``; return how much of each class reaches each node.

    Classes do not depend on each other: a few are propagated at a time, shared among threads.
    ``check`` is called before each step, and may raise to end the work.
    """
    with warnings.catch_warnings():  # torch calls its sparse matrices beta; tests hold them here
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(graph.indptr.astype(np.int64)),
            torch.from_numpy(graph.indices.astype(np.int64)),
            torch.from_numpy(graph.data),
            graph.shape,
            dtype=torch.float32,
        )

    def propagate(columns: Array) -> Array:
        start = torch.from_numpy(np.ascontiguousarray(seeds[:, columns], np.float32))
        mass = start.clone()
        for _ in range(steps):
            check()
            mass = torch.addmm(start, matrix, mass, beta=1 - alpha, alpha=alpha)
        return mass.numpy()

    classes = seeds.shape[1]
    groups = np.array_split(np.arange(classes), -(-classes // COLUMNS))
    return np.concatenate(run_tasks(propagate, groups), axis=1)


def make_seeds(nodes: Array, targets: Array, count: int, n_classes: int) -> Array:
    """Return seeds ``(count, classes)``: each class shares one among its labels.

    Parameters
    ----------
    nodes : ndarray of int, ``(n,)``
        Of each label; those with -1 lie where there is no data and seed nothing.
    targets : ndarray of int, ``(n,)``
        Position of each label's class, from 0.
    count : int
        Nodes of the graph.
    n_classes : int

    Examples
    --------
    >>> make_seeds(np.array([0, 2, 2, -1]), np.array([1, 1, 0, 0]), 3, 2).tolist()
    [[0.0, 0.5], [0.0, 0.0], [0.5, 0.5]]
    """
    seeds = np.zeros((count, n_classes), np.float32)
    share = 1 / np.maximum(np.bincount(targets, minlength=n_classes), 1)
    kept = nodes >= 0
    np.add.at(seeds, (nodes[kept], targets[kept]), share[targets[kept]])
    return seeds


def mean_mass(mass: Array) -> float:
    """Return the mean over the nodes that labels reach, of ``(nodes, classes)``; 1 if none."""
    total = mass.sum(axis=1)
    return float(total.mean(where=total > 0)) if total.any() else 1.0


def log_shares(mass: Array, mean: float | Array = 1.0, smoothing: float = 0.0) -> Array:
    """Return the logarithm of each class's share, ``(nodes, classes)``; equal where none came.

    Parameters
    ----------
    mass : ndarray, ``(nodes, classes)``
        How much of each class has reached each node.
    mean : float or ndarray ``(nodes, 1)``
        What reaches a node on average.
    smoothing : float
        This share of ``mean`` is added to every node, from all classes alike: where hardly any
        label arrives, as in a field without labels, the shares stay even.

    Examples
    --------
    >>> often, hardly = np.exp(log_shares(np.array([[9.0, 1.0], [0.009, 0.001]]), 10.0, 0.03))
    >>> often.round(2).tolist(), hardly.round(2).tolist()
    ([0.89, 0.11], [0.51, 0.49])
    """
    classes = mass.shape[1]
    extra = np.asarray(smoothing * mean, mass.dtype)
    total = mass.sum(axis=1, keepdims=True) + extra
    even = np.full_like(mass, 1 / classes)
    shares = np.divide(mass + extra / classes, total, out=even, where=total > 0)
    return np.log(shares + np.asarray(FLOOR, mass.dtype))


# -- propagation -----------------------------------------------------------------------------------


def graphs_of_whitened(settings: PropagationSettings, z: Array, valid: Array) -> list[Graph]:
    """Return the graphs of a whitened scene, ``(height, width, components)``; no label is used."""
    clearest = z[..., : max(settings.components // 2, 1)]
    smooth = edge_filter(clearest, settings.coarse)
    segments = find_segments(smooth, settings.scale, settings.least)
    most = max(kept for kept, _ in settings.graphs)
    sharper = SegmentWhitening(most).fit_segments(z, segments, valid).transform(z)
    graphs = []
    for kept, contrast in settings.graphs:
        features = edge_filter(sharper[..., :kept], contrast)
        graphs.append(pixel_graph(features, settings.neighbors, settings.nearness, valid))
    return graphs


@dataclass(frozen=True)
class Propagator:
    """Propagates labels over a scene's graphs.

    Attributes
    ----------
    settings : PropagationSettings
    graphs : sequence of Graph
    nodes : ndarray of int, ``(height, width)``
        Node of each pixel, -1 where there is no data.
    check : callable
        Called before each step, and may raise to end the work.
    """

    settings: PropagationSettings
    graphs: Sequence[Graph]
    nodes: Array
    check: Check = lambda: None

    def log_shares(
        self,
        pixels: Array,
        targets: Array,
        n_classes: int,
        left: Callable[[float], None] = lambda share: None,  # noqa: ARG005
    ) -> Array:
        """Return log shares of the classes, ``(nodes, classes)``.

        Parameters
        ----------
        pixels : ndarray of int, ``(n, 2)``
            With labels.
        targets : ndarray of int, ``(n,)``
            Position of each label's class, from 0.
        n_classes : int
        left : callable, optional
            Called after each graph with the share of the work that is left.
        """
        nodes = self.nodes[tuple(pixels.T)]
        seeds = make_seeds(nodes, targets, self.graphs[0].shape[0], n_classes)
        total: Any = 0.0
        for number, graph in enumerate(self.graphs, start=1):
            mass = self._mass(graph, seeds)
            left(1 - number / len(self.graphs))
            total = total + log_shares(mass, mean_mass(mass), self.settings.smoothing)
        return np.asarray(total / len(self.graphs))

    def held_out(self, pixels: Array, targets: Array, fold: Array, n_classes: int) -> Array:
        """Return log shares at the training pixels, ``(n, classes)``, each without its own fold.

        Folds do not depend on each other: they are shared among threads.
        """
        here = self.nodes[tuple(pixels.T)]

        def propagate(task: tuple[Graph, Any]) -> Array:
            graph, number = task
            rest, own = fold != number, here[fold == number]
            seeds = make_seeds(here[rest], targets[rest], graph.shape[0], n_classes)
            mass = self._mass(graph, seeds)
            at = np.where(own[:, None] < 0, np.float32(0), mass[own])
            return log_shares(at, mean_mass(mass), self.settings.smoothing)

        numbers = np.unique(fold)
        tasks = [(graph, number) for graph in self.graphs for number in numbers]
        shares = np.zeros((len(self.graphs), len(pixels), n_classes), np.float32)
        for k, logs in enumerate(run_tasks(propagate, tasks)):
            shares[k // len(numbers), fold == numbers[k % len(numbers)]] = logs
        return np.mean(shares, axis=0)

    def _mass(self, graph: Graph, seeds: Array) -> Array:
        settings = self.settings
        return propagate_labels(graph, seeds, settings.alpha, settings.iterations, self.check)


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
