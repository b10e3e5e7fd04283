"""GeoTIFF, by rasterio and its GTiff driver alone (a VRT in disguise is not opened)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rasterio.windows import Window

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.lazy import Array, lazy_scene
from polyad.scene.raster.wavelengths import nm_factor, to_nm
from polyad.scene.read.formats.opening import open_raster
from polyad.scene.read.formats.sidecars import band_metadata, georeference, read_pam
from polyad.scene.read.formats.tiff_tags import check_tags

# "0.4 Micrometers", "band 3 (550.2 nm)": how other programs name bands.
_NAMED = re.compile(r"([\d.]+)\s*\(?(nanomet(?:er|re)s?|micromet(?:er|re)s?|nm|[uµμ]m)\b", re.I)


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
    with open_tiff(path, budget) as dataset:
        source = tiff_source(path, dataset, budget)
        return lazy_scene(
            source,
            **_bands(path, dataset),
            nodata=dataset.nodata,
            **georeference(path, dataset),
        )


def open_tiff(path: Path, budget: int) -> AbstractContextManager[Any]:
    """Open a TIFF after its tags are checked."""
    check_tags(path, budget)
    return open_raster(path, "GTiff")


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
    check_blocks(path, dataset, budget)
    return TiffSource(path, shape, dtype)


def check_blocks(path: Path, dataset: Any, budget: int) -> None:
    """Refuse a TIFF whose strips or tiles, which are unpacked whole, are too large."""
    dtype = np.dtype(dataset.dtypes[0])
    declared = guards.declared_bytes((dataset.height, dataset.width, dataset.count), dtype)
    pixelwise = "PIXEL" in str(dataset.interleaving).upper()
    together = dataset.count if pixelwise else 1
    block = guards.declared_bytes((*max(dataset.block_shapes), together), dtype)
    guards.check_piece(path, block, declared, budget, "a block of the TIFF")


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


def _bands(path: Path, dataset: Any) -> dict[str, NDArray[Any]]:
    """Return ``wavelength`` and ``fwhm`` in nm, and ``good``; each only if every band tells."""
    beside = band_metadata(read_pam(path))
    told = [
        _band(dataset, band, description, beside.get(band, {}))
        for band, description in zip(dataset.indexes, dataset.descriptions, strict=True)
    ]
    columns = zip(("wavelength", "fwhm", "good"), zip(*told, strict=True), strict=True)
    return {name: np.array(values) for name, values in columns if None not in values}


def _band(
    dataset: Any, band: int, description: str | None, beside: Mapping[str, dict[str, str]]
) -> tuple[float | None, float | None, bool | None]:
    """Return center and width of a band in nm, and whether it is good; None where untold."""
    # GDAL >= 3.10 keeps micrometers in the IMAGERY domain; ENVI turned into TIFF has plain tags.
    imagery = dataset.tags(band, ns="IMAGERY") | beside.get("IMAGERY", {})
    tags = {k.lower(): v for k, v in (dataset.tags(band) | beside.get("", {})).items()}
    named = _NAMED.search(description or "")
    units = tags.get("wavelength_units") or tags.get("wavelength_unit")
    center = _first_nm(
        (tags.get("wavelength"), units),
        (imagery.get("CENTRAL_WAVELENGTH_UM"), "um"),
        (named[1], named[2]) if named else (None, None),
    )
    # A width shares the unit of its center, also where that unit has to be guessed
    scale = nm_factor(np.array([_number(tags.get("wavelength")) or np.nan]), units)
    width = _number(tags.get("fwhm"))
    widths = _first_nm((imagery.get("FWHM_UM"), "um"))
    flag = _number(tags.get("bbl"))
    return (
        center,
        widths if width is None else round(width * scale, 6),
        None if flag is None else flag != 0,
    )


def _first_nm(*stated: tuple[str | None, str | None]) -> float | None:
    """Return the first of some values with their units that is a number, in nm."""
    for text, unit in stated:
        value = _number(text)
        if value is not None:
            return float(to_nm([value], unit)[0])
    return None


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
