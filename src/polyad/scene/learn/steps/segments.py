"""Segments of a scene, and means over them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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


def segment_mean(values: Array, segments: Array) -> Array:
    """Return for each pixel the mean of ``values`` over its segment.

    Parameters
    ----------
    values : ndarray, ``(..., k)``
    segments : ndarray of int, ``(...)``

    Examples
    --------
    >>> segment_mean(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])).ravel().tolist()
    [1.0, 1.0, 5.0]
    """
    which = segments.ravel()
    count = np.maximum(np.bincount(which), 1)
    flat = values.reshape(len(which), -1)
    sums = np.stack([np.bincount(which, weights=column) for column in flat.T], axis=1)
    return (sums / count[:, None])[which].reshape(values.shape)


def segment_mean_slow(values: Array, segments: Array) -> Array:
    """As `segment_mean`, segment by segment: the reference."""
    means = np.empty(values.shape, np.float64)
    for segment in np.unique(segments):
        inside = segments == segment
        means[inside] = values[inside].mean(axis=0, dtype=np.float64)
    return means
