"""Where a raster lies on the map, as far as it tells."""

from __future__ import annotations

import numpy as np
import rioxarray  # noqa: F401 - gives every DataArray its ``rio``
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.errors import SceneError
from polyad.scene.raster.grid import Grid


def grid_of(raster: xr.DataArray) -> Grid:
    """Return size and georeference of a scene or label raster."""
    if not {"y", "x"} <= set(raster.dims):
        raise SceneError(f"wanted a raster with dims y and x, got {raster.dims}; rename them")
    crs, transform = georeference(raster)
    return Grid((raster.sizes["y"], raster.sizes["x"]), crs, transform)


def georeference(raster: xr.DataArray) -> tuple[CRS | None, Affine | None]:
    """Return the CRS of ``raster`` and its transform from (column, row), None each if unknown.

    The transform that the raster carries is used unless its coordinates contradict it: after
    ``isel`` they describe the selection, the transform still the whole raster.
    """
    crs, carried = raster.rio.crs, _carried_transform(raster)
    if any(raster[d].ndim != 1 or d not in raster.coords for d in ("x", "y")):
        return crs, carried
    x, y = (raster[d].values.astype(float) for d in ("x", "y"))
    if carried is None and crs is None and x[0] == y[0] == 0:  # they count pixels
        return None, None
    pixel = (0.0, 0.0) if carried is None else (carried.a, carried.e)
    dx, dy = (float(v[-1] - v[0]) / (len(v) - 1) if len(v) > 1 else p
              for v, p in zip((x, y), pixel, strict=True))  # fmt: skip
    computed = Affine(dx, 0.0, x[0] - dx / 2, 0.0, dy, y[0] - dy / 2)
    tolerance = 1e-3 * max(abs(dx), abs(dy))
    if carried is not None and np.allclose(carried[:6], computed[:6], rtol=0, atol=tolerance):
        return crs, carried  # free of the rounding of the coordinates
    return crs, computed if dx and dy else None


def _carried_transform(raster: xr.DataArray) -> Affine | None:
    # Read here because ``rio.transform`` works it out again from the coordinates.
    name = raster.rio.grid_mapping
    text = raster.coords[name].attrs.get("GeoTransform") if name in raster.coords else None
    return None if text is None else Affine.from_gdal(*map(float, str(text).split()))
