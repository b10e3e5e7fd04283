"""Extended morphological profiles: how each component of a scene reacts to openings and closings.

An opening by reconstruction removes bright objects that a disk of its radius does not fit into and
leaves the outline of all others; a closing removes dark ones. Over growing radii a pixel's values
tell the size of the object it lies in (Benediktsson et al., IEEE TGRS 43(3), 480-491, 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from polyad.errors import InputError
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.scene import Scene


def morphological_profiles(
    scene: xr.DataArray, components: int = 8, radii: Sequence[int] = (3, 6, 9, 12)
) -> NDArray[np.float32]:
    """Return openings and closings by reconstruction of a scene's principal components.

    `polyad.scene.extract_patches` cuts the profiles into samples of order 4, window x window x
    component x level, for `polyad.RankRClassifier`. The components are learned from all pixels,
    labeled or not. An object may be as large as the scene, so that the whole scene is held in
    memory, and the profiles of its tiles are not tiles of its profiles.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    components : int, default=8
        Number of principal components k.
    radii : sequence of int, default=(3, 6, 9, 12)
        Radii of the disks in pixels, ascending.

    Returns
    -------
    ndarray of float32, ``(height, width, k, 2 len(radii) + 1)``
        Closings from the largest radius down, the component itself, openings from the smallest
        radius up. NaN where the scene has no data.

    Examples
    --------
    >>> scene = xr.DataArray(np.random.rand(20, 30, 8), dims=("y", "x", "band"))
    >>> profiles = morphological_profiles(scene, components=2, radii=(1, 3))
    >>> profiles.shape
    (20, 30, 2, 5)
    >>> bool((np.diff(profiles, axis=-1) <= 0).all())  # from the closings down to the openings
    True
    """
    import skimage.morphology  # slow to import

    morphology: Any = skimage.morphology  # has no types

    known = Scene.of(scene)
    if not 1 <= components <= known.bands.count:
        raise InputError(
            f"components must be 1 to {known.bands.count}, the number of bands, got {components}"
        )
    if not radii or list(radii) != sorted({*radii}) or radii[0] < 1:
        raise InputError(f"radii must be ascending and at least 1, got {tuple(radii)}")
    cube = known.read(slice(None), slice(None))
    valid = valid_pixels(cube, known.nodata)
    if valid.sum() < components:
        raise InputError(f"expected at least {components} pixels with data, got {valid.sum()}")
    images = np.zeros((*valid.shape, components))  # no data: the mean of the scene
    images[valid] = PCA(components, svd_solver="covariance_eigh").fit_transform(cube[valid])
    profiles = np.empty((*images.shape, 2 * len(radii) + 1), np.float32)
    for k, image in enumerate(np.moveaxis(images, -1, 0)):
        profiles[..., k, len(radii)] = image
        for level, radius in enumerate(radii, start=1):
            disk = morphology.disk(radius)
            opened = morphology.reconstruction(morphology.erosion(image, disk), image, "dilation")
            closed = morphology.reconstruction(morphology.dilation(image, disk), image, "erosion")
            profiles[..., k, len(radii) + level] = opened
            profiles[..., k, len(radii) - level] = closed
    profiles[~valid] = np.nan
    return profiles
