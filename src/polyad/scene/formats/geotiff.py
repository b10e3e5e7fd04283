"""GeoTIFF, by rasterio and its GTiff driver alone (a VRT in disguise is not opened)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import xarray as xr
from affine import Affine
from numpy.typing import NDArray
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.windows import Window

from polyad.errors import SceneError
from polyad.scene.formats import guards
from polyad.scene.formats.lazy import Array, lazy_scene
from polyad.scene.formats.spectral import to_nm

# "0.4 Micrometers", "band 3 (550.2 nm)": how other programs name bands.
_NAMED = re.compile(r"([\d.]+)\s*\(?(nanomet(?:er|re)s?|micromet(?:er|re)s?|nm|[uµμ]m)\b", re.I)


@contextmanager
def open_raster(path: Path, driver: str) -> Iterator[Any]:
    """Open ``path`` with one GDAL driver and no other; a scene without georeference is no alarm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        try:
            dataset = rasterio.open(path, driver=driver)
        except RasterioError as error:
            raise SceneError(
                f"{path}: wanted a {driver} raster, GDAL cannot read it as one ({error}); it is "
                "truncated, damaged or of another kind"
            ) from error
        with dataset:
            yield dataset


@dataclass(frozen=True)
class TiffSource:
    """Pixels of a GeoTIFF."""

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        window = Window.from_slices(rows, cols)
        with open_raster(self.path, "GTiff") as dataset:
            pixels = dataset.read([int(b) + 1 for b in bands], window=window)  # (band, y, x)
        return np.moveaxis(pixels, 0, -1)


def open_geotiff(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open a GeoTIFF; values as stored, wavelengths from its tags where there are any."""
    guards.existing_file(path)
    if key is not None:
        raise SceneError(f"{path}: a GeoTIFF has one image and no key, got ':{key}'; leave it out")
    with open_raster(path, "GTiff") as dataset:
        source = tiff_source(path, dataset, budget)
        return lazy_scene(
            source,
            wavelength=_wavelength(dataset),
            nodata=dataset.nodata,
            **georeference(dataset),
        )


def tiff_source(path: Path, dataset: Any, budget: int) -> TiffSource:
    """Check an open GeoTIFF against its file and return its source."""
    dtypes = {np.dtype(d) for d in dataset.dtypes}
    if len(dtypes) > 1:
        raise SceneError(
            f"{path}: wanted bands of one type, got {sorted(map(str, dtypes))}; write the bands "
            "again with a common type"
        )
    (dtype,) = dtypes
    guards.check_numeric(path, dtype)
    shape = (dataset.height, dataset.width, dataset.count)
    guards.check_shape(path, shape)
    declared = guards.declared_bytes(shape, dtype)
    stored = path.stat().st_size
    if dataset.compression is None:
        guards.check_stored(path, declared, stored)
    guards.check_inflation(path, declared, stored)
    _check_last_block(path, dataset, stored)
    block = guards.declared_bytes(max(dataset.block_shapes), dtype)
    pixelwise = "PIXEL" in str(dataset.interleaving).upper()
    guards.check_budget(path, block * (shape[2] if pixelwise else 1), budget, "a block of the TIFF")
    return TiffSource(path, shape, dtype)


def _check_last_block(path: Path, dataset: Any, stored: int) -> None:
    # Blocks are written in order: a file cut short has lost its last one.
    rows, cols = dataset.block_shapes[-1]
    across, down = (dataset.width - 1) // cols, (dataset.height - 1) // rows
    band = dataset.count
    offset, size = (
        dataset.get_tag_item(f"BLOCK_{what}_{across}_{down}", "TIFF", bidx=band)
        for what in ("OFFSET", "SIZE")
    )
    if offset is not None and size is not None:
        guards.check_stored(path, int(offset) + int(size), stored)


def georeference(dataset: Any) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` of an open raster, None each where it has none."""
    # GDAL gives the identity for "no georeference"; its origin and size are never a real map.
    known = dataset.crs is not None or dataset.transform != Affine.identity()
    return {"crs": dataset.crs, "transform": dataset.transform if known else None}


def _wavelength(dataset: Any) -> NDArray[np.float64] | None:
    """Return the band centres in nanometres, shape ``(bands,)``, or None if one is unknown."""
    centres = [_band_wavelength(dataset, band) for band in dataset.indexes]
    if any(c is None for c in centres):
        return None
    return np.array(centres, dtype=np.float64)


def _band_wavelength(dataset: Any, band: int) -> float | None:
    # GDAL >= 3.10 keeps micrometres in the IMAGERY domain; ENVI turned into TIFF has plain tags.
    imagery = dataset.tags(band, ns="IMAGERY").get("CENTRAL_WAVELENGTH_UM")
    tags = {k.lower(): v for k, v in dataset.tags(band).items()}
    named = _NAMED.search(dataset.descriptions[band - 1] or "")
    units = tags.get("wavelength_units") or tags.get("wavelength_unit")
    found = [
        (tags.get("wavelength"), units),
        (imagery, "um"),
        named.groups() if named else (None, None),
    ]
    for text, unit in found:
        try:
            return float(to_nm([float(text or "")], unit)[0])
        except ValueError:
            continue
    return None
