"""Windows of a scene around its training pixels, as a network or an expert wants them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.scene.learn.steps.experts import Expert
from polyad.scene.learn.steps.whitening import NoiseWhitening, check_magnitude
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.patches import extract_patches
from polyad.scene.raster.scene import as_scene

Array = npt.NDArray[Any]


@dataclass
class Samples:
    """Training samples of a scene, gathered on demand.

    Attributes
    ----------
    scene : DataArray, dims ``(y, x, band)``
    rows, cols : ndarray of int, ``(n,)``
    window : int
    fill : tuple of float or None
        Put in place of pixels without data: the mean of the first samples that were taken.
    """

    scene: xr.DataArray
    rows: Array
    cols: Array
    window: int
    fill: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        self.scene = as_scene(self.scene)

    @property
    def nbytes(self) -> int:
        """Bytes of all samples as float32."""
        return len(self.rows) * self.window**2 * self.scene.sizes["band"] * 4

    def spectra(self) -> Array:
        """Return the spectra of all pixels with data in the windows, ``(m, bands)``."""
        stored = extract_patches(self.scene, self.rows, self.cols, self.window)
        valid = valid_pixels(stored, self.scene.rio.nodata)
        with np.errstate(over="ignore"):
            spectra = stored[valid].astype(np.float32, copy=False)
        check_magnitude(spectra)
        return spectra

    def take(self, which: slice | Array) -> Array:
        """Return the given samples as float32, ``(n, window, window, bands)``.

        With a window of one pixel they are spectra, ``(n, bands)``.
        """
        stored = extract_patches(self.scene, self.rows[which], self.cols[which], self.window)
        valid = valid_pixels(stored, self.scene.rio.nodata)
        with np.errstate(over="ignore"):  # what is infinite as float32 is not valid
            patches = stored.astype(np.float32, copy=False)
        check_magnitude(patches[valid])
        if self.fill is None:
            self.fill = tuple(patches[valid].mean(axis=0, dtype=np.float64).tolist())
        if not valid.all():
            patches = np.where(valid[..., None], patches, np.asarray(self.fill, np.float32))
        return patches[:, 0, 0] if self.window == 1 else patches


class ViewSamples:
    """Windows of a scene around the training pixels, in each view, as an expert wants them.

    Attributes
    ----------
    units : dict
        What the samples of each expert were divided by.
    """

    def __init__(
        self, scene: xr.DataArray, views: Mapping[str, NoiseWhitening], pixels: Array, window: int
    ) -> None:
        scene = as_scene(scene)
        windows = extract_patches(scene, pixels[:, 0], pixels[:, 1], window)
        valid = valid_pixels(windows, scene.rio.nodata)
        components = {}
        for name, view in views.items():
            filled = np.where(valid[..., None], windows, view.mean_.astype(windows.dtype))
            components[name] = view.transform(filled)
        self._keep(components, window)

    @classmethod
    def of_components(cls, components: Mapping[str, Array], window: int) -> ViewSamples:
        """Return samples of components that are known, each ``(n, window, window, k)``."""
        samples = cls.__new__(cls)
        samples._keep(components, window)
        return samples

    def _keep(self, components: Mapping[str, Array], window: int) -> None:
        self._components, self._window = dict(components), window
        self.units: dict[Expert, float] = {}

    def take(self, expert: Expert) -> Array:
        """Return samples ``(n, window, window, components)``; of single pixels ``(n, components)``.

        They have unit variance over all samples, pixels and components.
        """
        margin = (self._window - expert.window) // 2
        inner = slice(margin, self._window - margin)
        z = self._components[expert.view][:, inner, inner]
        self.units[expert] = float(z.std()) or 1.0
        z = z / np.float32(self.units[expert])
        return z[:, 0, 0] if expert.window == 1 else np.ascontiguousarray(z)
