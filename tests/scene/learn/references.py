"""Slow, plain references that the fast paths of learning are compared with."""

import numpy as np

from polyad.scene.learn.scene_statistics import _edges, _numbered
from polyad.scene.learn.steps import _distances, graphs_of_whitened
from polyad.scene.learn.whitening import NoiseWhitening


def guided_filter_slow(maps, guide, radius=5, ridge=0.01):
    """As `guided_filter`, square by square with a regression in each: the reference."""
    height, width, g = guide.shape
    total, count = np.zeros(maps.shape), np.zeros((height, width, 1))
    for y in range(height):
        for x in range(width):
            rows = slice(max(y - radius, 0), y + radius + 1)
            cols = slice(max(x - radius, 0), x + radius + 1)
            a, b = guide[rows, cols].reshape(-1, g), maps[rows, cols].reshape(-1, maps.shape[2])
            centered = a - a.mean(axis=0)
            slope = np.linalg.solve(
                centered.T @ centered / len(a) + ridge * np.eye(g), centered.T @ b / len(a)
            )
            fitted = centered @ slope + b.mean(axis=0)
            total[rows, cols] += fitted.reshape(total[rows, cols].shape)
            count[rows, cols] += 1
    return total / count


def domain_transform_slow(cube, contrast, reach=200.0, passes=3):
    """As `domain_transform`, pixel by pixel: the reference."""
    across, down, bases = _distances(cube, contrast, reach, passes)
    smooth = cube.astype(np.result_type(cube, np.float32))
    height, width = cube.shape[:2]
    for base in bases:
        for y in range(height):
            for x in range(1, width):
                a = base ** across[y, x - 1]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y, x - 1]
            for x in range(width - 2, -1, -1):
                a = base ** across[y, x]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y, x + 1]
        for x in range(width):
            for y in range(1, height):
                a = base ** down[y - 1, x]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y - 1, x]
            for y in range(height - 2, -1, -1):
                a = base ** down[y, x]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y + 1, x]
    return smooth


def propagate_labels_slow(graph, seeds, alpha=0.99, steps=100):
    """As `propagate_labels`, with a dense matrix and one node at a time: the reference."""
    dense = graph.toarray().astype(np.float64)
    mass = seeds.astype(np.float64)
    for _ in range(steps):
        before = mass.copy()
        for node in range(len(dense)):
            mass[node] = alpha * (dense[node] @ before) + (1 - alpha) * seeds[node]
    return mass


def neighbor_covariance_slow(z, valid):
    """As `neighbor_covariance`, pixel by pixel: the reference."""
    height, width, bands = z.shape
    total, count = np.zeros((bands, bands)), 0
    for y in range(height):
        for x in range(width):
            for dy, dx in ((0, 1), (1, 0)):
                if y + dy < height and x + dx < width and valid[y, x] and valid[y + dy, x + dx]:
                    step = z[y + dy, x + dx].astype(np.float64) - z[y, x]
                    total += np.outer(step, step)
                    count += 1
    return total / (2 * max(count, 1))


def find_superpixels_slow(features, least=4, valid=None):
    """As `find_superpixels`, group by group: the reference."""
    valid = np.ones(features.shape[:2], bool) if valid is None else valid
    edges = list(zip(*(side.tolist() for side in _edges(features, valid)), strict=True))
    group = list(range(valid.size))
    while True:
        chosen = {}
        for one, other in edges:  # from the cheapest on
            for side in {group[one], group[other]} if group[one] != group[other] else ():
                if group.count(side) < least:
                    chosen.setdefault(side, (one, other))
        if not chosen:
            return _numbered(np.array(group), valid)
        for one, other in chosen.values():
            into, gone = sorted((group[one], group[other]))
            group = [into if g == gone else g for g in group]


def nearest_distance_slow(spectra, known):
    """As `nearest_distance`, pair by pair: the reference."""
    nearest = [min(np.sqrt(np.mean((s - k) ** 2)) for k in known) for s in spectra]
    return float(np.median(nearest))


def build_graphs(settings, cube, valid=None):
    """Return the graphs of a scene ``(height, width, bands)`` that is held whole."""
    valid = np.ones(cube.shape[:2], bool) if valid is None else valid
    z = NoiseWhitening(settings.components).fit(cube, valid).transform(cube)
    return graphs_of_whitened(settings, z * valid[..., None], valid)
