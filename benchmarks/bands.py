"""Fewer bands without labels, and several scales of a scene as one more mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from polyad.errors import InputError
from polyad.scene.learn.steps import edge_filter

Array = npt.NDArray[Any]


class BandFusion(TransformerMixin, BaseEstimator):
    """Average groups of neighboring bands; no pixel's neighbor is needed (``halo`` 0).

    Parameters
    ----------
    groups : int, default=20
        At most as many as there are bands; sizes differ by one at most.

    Examples
    --------
    >>> BandFusion(groups=2).fit_transform(np.array([[[1.0, 3.0, 5.0, 7.0]]])).tolist()
    [[[2.0, 6.0]]]
    """

    halo = 0

    def __init__(self, groups: int = 20) -> None:
        self.groups = groups

    def fit(self, cube: Array, y: object = None) -> BandFusion:  # noqa: ARG002
        """Do nothing: there is nothing to learn."""
        return self

    def transform(self, cube: Array) -> Array:
        """Return means ``(..., groups)`` of ``(..., bands)``."""
        if self.groups < 1:
            raise InputError(f"groups must be at least 1, got {self.groups}")
        bands = cube.shape[-1]
        cuts = np.linspace(0, bands, min(self.groups, bands) + 1).round().astype(int)
        sums = np.add.reduceat(cube, cuts[:-1], axis=-1, dtype=np.float64)
        return (sums / np.diff(cuts)).astype(np.float32)


class ScaleProfiles(TransformerMixin, BaseEstimator):
    """Stack a scene and smoothed versions of it: one more mode for the network.

    A sample becomes a tensor of order 4, (window, window, scale, band), which a Rank-R network
    takes as it is. Needs the whole scene.

    Parameters
    ----------
    contrasts : sequence of float, default=(2.0, 4.0)
        Of one `edge_filter` each; the scene itself comes first.

    Examples
    --------
    >>> ScaleProfiles().fit_transform(np.zeros((4, 5, 7))).shape
    (4, 5, 3, 7)
    """

    halo = None

    def __init__(self, contrasts: Sequence[float] = (2.0, 4.0)) -> None:
        self.contrasts = contrasts

    def fit(self, cube: Array, y: object = None) -> ScaleProfiles:  # noqa: ARG002
        """Do nothing: there is nothing to learn."""
        return self

    def transform(self, cube: Array) -> Array:
        """Return ``(height, width, 1 + scales, k)`` of ``(height, width, k)``."""
        smooth = [edge_filter(cube, contrast) for contrast in self.contrasts]
        return np.stack([cube, *smooth], axis=2)
