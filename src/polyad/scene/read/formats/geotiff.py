"""GeoTIFF, by rasterio and its GTiff driver alone (a VRT in disguise is not opened)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.windows import Window

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats.band_tags import Facts, band_facts, columns
from polyad.scene.read.formats.opening import Opened, open_raster
from polyad.scene.read.formats.sidecars import band_metadata, georeference, read_pam
from polyad.scene.read.formats.tiff_tags import check_tags


@dataclass(frozen=True)
class TiffSource:
    """Pixels of a GeoTIFF, or of a raster that another driver of GDAL reads."""

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype
    driver: str = "GTiff"

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        window = Window.from_slices(rows, cols)
        with open_raster(self.path, self.driver) as dataset:
            pixels = dataset.read([int(b) + 1 for b in bands], window=window)  # (band, y, x)
        return np.moveaxis(pixels, 0, -1)


def open_geotiff(path: Path, key: str | None, budget: int) -> Opened:
    """Open a GeoTIFF; values as stored, wavelengths from its tags where there are any."""
    guards.existing_file(path)
    if key is not None:
        raise SceneError(f"{path}: a GeoTIFF has one image and no key, got ':{key}'; leave it out")
    with open_tiff(path, budget) as dataset:
        source = tiff_source(path, dataset, budget)
        return Opened.of(
            source,
            **columns(tiff_bands(path, dataset)),
            nodata=dataset.nodata,
            **georeference(path, dataset),
        )


def open_tiff(path: Path, budget: int) -> AbstractContextManager[Any]:
    """Open a TIFF after its tags are checked."""
    check_tags(path, budget)
    return open_raster(path, "GTiff")


def tiff_source(path: Path, dataset: Any, budget: int) -> TiffSource:
    """Check an open GeoTIFF against its file and return its source."""
    return TiffSource(path, *check_tiff(path, dataset, path.stat().st_size, budget))


def check_tiff(
    path: Path | str, dataset: Any, stored: int, budget: int
) -> tuple[tuple[int, int, int], np.dtype]:
    """Check an open GeoTIFF against the ``stored`` bytes of its file; return shape and type."""
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
    if dataset.compression is None:
        guards.check_stored(path, declared, stored)
    guards.check_inflation(path, declared, stored)
    _check_last_block(path, dataset, stored)
    check_blocks(path, dataset, budget)
    return shape, dtype


def check_blocks(path: Path | str, dataset: Any, budget: int) -> None:
    """Refuse a TIFF whose strips or tiles, which are unpacked whole, are too large."""
    dtype = np.dtype(dataset.dtypes[0])
    declared = guards.declared_bytes((dataset.height, dataset.width, dataset.count), dtype)
    pixelwise = "PIXEL" in str(dataset.interleaving).upper()
    together = dataset.count if pixelwise else 1
    block = guards.declared_bytes((*max(dataset.block_shapes), together), dtype)
    guards.check_piece(path, block, declared, budget, "a block of the TIFF")


def _check_last_block(path: Path | str, dataset: Any, stored: int) -> None:
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


def tiff_bands(path: Path, dataset: Any) -> list[Facts]:
    """Return what the tags of a raster, and of the ``.aux.xml`` beside it, tell of each band."""
    return own_bands(dataset, band_metadata(read_pam(path)))


def own_bands(
    dataset: Any, beside: Mapping[int, Mapping[str, dict[str, str]]] = MappingProxyType({})
) -> list[Facts]:
    """Return what the tags of a raster tell of each band, over those that lie ``beside`` it."""
    return [
        band_facts(
            dataset.tags(band) | beside.get(band, {}).get("", {}),
            dataset.tags(band, ns="IMAGERY") | beside.get(band, {}).get("IMAGERY", {}),
            description,
        )
        for band, description in zip(dataset.indexes, dataset.descriptions, strict=True)
    ]
