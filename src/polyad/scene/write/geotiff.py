"""GeoTIFFs of classes, probabilities, sets and values: cloud-optimized (COG), window by window.

GDAL's COG driver writes directories first, then overviews, then pixels, which is not the order in
which a scene is mapped. So windows go into a working GeoTIFF, which gets overviews and is then
copied by the driver. Memory is bounded by one window, and the order of windows leaves no trace.

Both files are read back before the result gets its name, because GDAL reports no error when the
disk fills up while it writes.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
import rasterio
import rasterio.shutil
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from rasterio.windows import Window

from polyad.atomic import Outputs, disk_full
from polyad.errors import InputError, PolyadError
from polyad.scene.files.paths import DEVIATION, QML_MARK, SIDES, VALUES
from polyad.scene.raster import classes as class_tables
from polyad.scene.raster.classes import UNLABELED, ClassInfo, SetRule, Target, rgb
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.windows import BLOCK
from polyad.scene.write.frame import (
    UNLABELED_NAME,
    AnyPath,
    Array,
    MapFrame,
    Slices,
    category_names,
    check_whole,
)  # fmt: skip
from polyad.text import clean_name

PROBABILITY = "class probability"  # the tag "quantity" of a file of probabilities
_UINT8_STEPS = 254  # probability p is kept as round(254 p); 255 means "not mapped"
_QGIS = "3.22.0"  # whose way of writing styles this is
_FLUSH_BYTES = 64 * 2**20  # GDAL's cache would else grow to a twentieth of all memory
_BLOCK_BYTES = 8 * 2**20  # of one block, all bands
_LEAST_BLOCK = 16  # a TIFF's blocks have sides of multiples of it


class Raster:
    """One GeoTIFF in the making.

    Parameters
    ----------
    working, temporary : Path
        Where windows go, and where the COG that is made of them goes.
    target : Path
        The name that it will have.
    grid : Grid
    bands : Bands
    """

    def __init__(
        self, working: Path, temporary: Path, target: Path, grid: Grid, bands: Bands
    ) -> None:
        self._working, self._temporary, self._target = working, temporary, target
        self._resampling = bands.resampling
        self._pending = self._written = 0
        self._statistics = bands.statistics
        self._side = block_side(len(bands.names), np.dtype(bands.dtype).itemsize)
        self._options = {"compress": "deflate", "bigtiff": "IF_SAFER"}
        if bands.dtype == "float32":
            self._options["predictor"] = "3"
        # Sparse at first: blocks exist once they are written, so a block that is missing at the
        # end is one that was never written or did not fit on the disk.
        passing = {"driver": "GTiff", "sparse_ok": True, "zlevel": 1, "tiled": True,
                   "blockxsize": self._side, "blockysize": self._side,
                   "interleave": "pixel"}  # fmt: skip
        profile = placed(grid) | {"count": len(bands.names), "dtype": bands.dtype}
        profile |= {"nodata": bands.nodata} | self._options | passing
        with self._explained():
            self.dataset = open_quietly(working, "w", **profile)

    def describe(self, bands: Bands) -> None:
        """Write what goes before the pixels."""
        self.dataset.descriptions = tuple(map(clean_name, bands.names))
        if bands.units:
            self.dataset.units = tuple(bands.units)
        if bands.scale is not None:
            self.dataset.scales = (bands.scale,) * len(bands.names)
        if bands.palette is not None:
            self.dataset.write_colormap(1, bands.palette)
        self.dataset.update_tags(**bands.tags)
        for k, tags in enumerate(bands.about, start=1):
            self.dataset.update_tags(k, **tags)
        self.flush()

    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None:
        """Write ``bands`` (band, rows, columns) into ``window`` (rows, columns)."""
        height, width = self.dataset.shape
        top, bottom, _ = window[0].indices(height)
        left, right, _ = window[1].indices(width)
        if bands.shape != (self.dataset.count, bottom - top, right - left):
            raise InputError(
                f"window of {bottom - top} by {right - left} pixels and {self.dataset.count} "
                f"band(s) does not fit an array of shape {bands.shape}; pass (band, rows, columns)"
            )
        with self._explained():
            self.dataset.write(bands, window=Window(left, top, right - left, bottom - top))
            self._written += (bottom - top) * (right - left)
            self._pending += bands.nbytes
            if self._pending >= _FLUSH_BYTES:
                self.flush()

    def flush(self) -> None:
        """Put on the disk what GDAL holds in memory."""
        with self._explained():
            self.dataset.close()
            # Opened again the file is no longer sparse: blocks of nothing but nodata are kept.
            self.dataset = open_quietly(self._working, "r+", driver="GTiff")
        self._pending = 0

    def finish(self) -> None:
        """Make the COG and read every block of it again."""
        height, width = self.dataset.shape
        with self._explained():
            self.dataset.close()
            check_whole(self._target, (height, width), self._written)
            if self._statistics:
                with open_quietly(self._working, "r+", driver="GTiff") as dataset:
                    found = dataset.stats(approx=False)
                    dataset.update_stats(stats=found, indexes=list(dataset.indexes))
            if factors := overview_factors((height, width)):
                with (
                    rasterio.Env(GDAL_TIFF_OVR_BLOCKSIZE=str(self._side)),
                    open_quietly(self._working, "r+", driver="GTiff") as dataset,
                ):
                    dataset.build_overviews(factors, self._resampling)
            self._check(self._working)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotGeoreferencedWarning)
                rasterio.shutil.copy(
                    self._working.absolute(),
                    self._temporary.absolute(),
                    driver="COG",
                    blocksize=self._side,
                    overviews="FORCE_USE_EXISTING",
                    **self._options,
                )
            self._working.unlink()
            self._check(self._temporary)

    def discard(self) -> None:
        """Close the file whatever state it is in; it will be removed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not self.dataset.closed:
                self.dataset.close()
        for made in (self._working, self._temporary):
            made.with_name(made.name + ".aux.xml").unlink(missing_ok=True)

    def _check(self, path: Path) -> None:
        if not _is_whole(path):
            raise disk_full(self._target)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        # GDAL's errors carry no errno: its own words are given together with the free space.
        try:
            with rasterio.Env():  # what GDAL says beside its errors goes to logging
                yield
        except (PolyadError, MemoryError):
            raise
        except Exception as error:  # not all of GDAL's errors have a public base
            raise disk_full(self._target, got=f"'{error.__cause__ or error}'") from error


def overview_factors(shape: tuple[int, int]) -> list[int]:
    """Return by how much overviews are reduced, until one is no larger than a block.

    Examples
    --------
    >>> overview_factors((256, 100)), overview_factors((1000, 900))
    ([], [2, 4])
    """
    factors: list[int] = []
    while max(shape) > BLOCK * 2 ** len(factors):
        factors.append(2 ** (len(factors) + 1))
    return factors


def block_side(bands: int, itemsize: int) -> int:
    """Return the side of a block: smaller for very many bands, since a block holds them all.

    Examples
    --------
    >>> block_side(1, 1), block_side(16, 4), block_side(1000, 4)
    (256, 256, 32)
    """
    side = BLOCK
    while side > _LEAST_BLOCK and side**2 * bands * itemsize > _BLOCK_BYTES:
        side //= 2
    return side


def placed(grid: Grid) -> dict[str, Any]:
    """Return size and georeference of a raster as entries of a rasterio profile."""
    if min(grid.shape) < 1:
        raise InputError(f"a raster needs at least one row and one column, got shape {grid.shape}")
    profile: dict[str, Any] = {"height": grid.shape[0], "width": grid.shape[1]}
    place = {"crs": grid.crs, "transform": grid.transform}
    return profile | {key: value for key, value in place.items() if value is not None}


def stale_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that GDAL and QGIS may have put beside an earlier raster at ``path``."""
    return [Path(f"{os.fspath(path)}{suffix}") for suffix in SIDES]


def open_quietly(path: Path, mode: str, **options: Any) -> Any:
    """Return ``rasterio.open(...)`` without its warning that a raster has no georeference."""
    with warnings.catch_warnings():  # a scene without georeference is no fault of the user's
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        # Absolute, so that no name such as "GTIFF_DIR:1:x.tif" means another file
        return rasterio.open(path.absolute(), mode, **options)


def _is_whole(path: Path) -> bool:
    """Return whether every block of a GeoTIFF and of its overviews exists and can be read."""
    with open_quietly(path, "r", driver="GTiff") as dataset:
        levels = len(overview_factors(dataset.shape))
        if len(dataset.overviews(1)) < levels:
            return False
    return all(_is_whole_level(path, level) for level in (None, *range(levels)))


def _is_whole_level(path: Path, level: int | None) -> bool:
    options = {} if level is None else {"overview_level": level}
    blocks, first = 1, 0
    while first < blocks:  # opened anew every so often, for the sake of GDAL's cache
        with open_quietly(path, "r", driver="GTiff", **options) as dataset:
            windows = list(dataset.block_windows(1))
            side = dataset.block_shapes[0][0]
            block_bytes = dataset.count * side**2 * np.dtype(dataset.dtypes[0]).itemsize
            blocks, last = len(windows), first + max(1, _FLUSH_BYTES // block_bytes)
            for (row, column), window in windows[first:last]:
                if dataset.get_tag_item(f"BLOCK_OFFSET_{column}_{row}", "TIFF", bidx=1) is None:
                    return False
                dataset.read(window=window)  # a block cut short cannot be inflated
        first = last
    return True


@dataclass(frozen=True)
class Bands:
    """What a GeoTIFF holds: ``names``, ``units`` and ``about`` of its bands, ``tags`` of it all.

    With ``statistics`` each band gets those of its finite values.
    """

    names: Sequence[str]
    dtype: str
    nodata: float
    tags: Mapping[str, str]
    resampling: Resampling = Resampling.mode  # of overviews: between two ids lies no class
    units: Sequence[str] = ()
    about: Sequence[Mapping[str, str]] = ()
    scale: float | None = None
    palette: Mapping[int, tuple[int, ...]] | None = None
    statistics: bool = False


@contextmanager
def open_bands(
    outputs: Outputs, path: AnyPath, grid: Grid, bands: Bands, *, companion: bool = True
) -> Iterator[Raster]:
    """Yield a GeoTIFF to be written window by window.

    A companion of a map appears with it: no moment shows the probabilities of another one.
    """
    target = Path(path)
    outputs.withdraw(*stale_files(target))
    temporary = outputs.temporary(target, companion=companion)
    raster = Raster(outputs.scratch(target), temporary, target, grid, bands)
    try:
        raster.describe(bands)
        yield raster
        raster.finish()
    finally:
        raster.discard()


@contextmanager
def open_geotiff(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[Raster]:
    """Yield a map of regression targets, or one of classes with all it holds in the TIFF's tags.

    Beside a class map go the names for GDAL (``.aux.xml``) and the style for QGIS (``.qml``).
    """
    if frame.targets:
        bands = value_bands(frame.targets)
        with open_bands(outputs, path, frame.grid, bands, companion=False) as raster:
            yield raster
        return
    classes = frame.classes
    tags = {
        "class_values": json.dumps([c.value for c in classes]),
        "class_names": json.dumps([c.name for c in classes], ensure_ascii=False),
        "class_colors": json.dumps([c.color for c in classes]),
    }
    if (quantity := frame.attrs.get("quantity")) is not None:  # what the ids are, if no map
        tags["quantity"] = quantity
    colors = {UNLABELED: (0, 0, 0, 0)} | {c.value: (*rgb(c.color), 255) for c in classes}
    dtype = class_tables.class_dtype(classes).name
    bands = Bands(["class"], dtype, UNLABELED, tags, palette=colors)
    with open_bands(outputs, path, frame.grid, bands, companion=False) as raster:
        names_temporary = outputs.temporary(f"{os.fspath(path)}.aux.xml", companion=True)
        style_temporary = outputs.temporary(path.with_suffix(".qml"), companion=True)
        yield raster
    names_temporary.write_text(pam_xml(classes), encoding="utf-8")
    style_temporary.write_text(qml_style(classes), encoding="utf-8")


def value_bands(targets: Sequence[Target], *, deviation: bool = False) -> Bands:
    """Return one band for each target, of values or of their standard deviations."""
    bounds = [
        {"valid_min": f"{t.low:g}", "valid_max": f"{t.high:g}"}
        if not deviation and t.low is not None and t.high is not None
        else {}
        for t in targets
    ]
    return Bands(
        [t.name for t in targets],
        "float32",
        np.nan,
        {"quantity": DEVIATION if deviation else VALUES},
        Resampling.average,
        [t.units for t in targets],
        bounds,
        statistics=True,
    )


def probability_bands(names: Sequence[str], dtype: str, quantity: str = PROBABILITY) -> Bands:
    """Return one band of numbers from 0 to 1 for each name; see `encode_probabilities`."""
    encoded = encode_probabilities(np.empty((0, 0, 0)), dtype).dtype.name  # refuses other types
    tags = {"quantity": quantity}
    if encoded == "float32":
        return Bands(names, encoded, np.nan, tags, Resampling.average)
    tags["probability_scale"] = f"1/{_UINT8_STEPS}"
    return Bands(names, encoded, 255, tags, Resampling.average, scale=1 / _UINT8_STEPS)


def encode_probabilities(proba: Array, dtype: str) -> Array:
    """Return probabilities of any shape as they are kept in a file of type ``dtype``.

    Examples
    --------
    >>> encode_probabilities(np.array([0.0, 0.5, 1.0, np.nan]), "uint8")
    array([  0, 127, 254, 255], dtype=uint8)
    """
    if dtype == "float32":
        return proba.astype(np.float32)
    if dtype != "uint8":
        raise InputError(f"probabilities are kept as 'float32' or 'uint8', got {dtype!r}")
    scaled = np.rint(np.clip(proba, 0.0, 1.0) * _UINT8_STEPS)
    return np.where(np.isnan(scaled), 255, scaled).astype(np.uint8)


def set_bands(names: Sequence[str], rule: SetRule) -> tuple[Bands, Bands]:
    """Return the size of each pixel's set, 0 where there is none, and its members.

    The members have one band for each class: 1 in the set, 0 not in it, 255 where there is none.
    """
    tags = {"coverage": f"{rule.coverage:g}", "held_out_labels": str(rule.labels)}
    sizes = {"quantity": class_tables.SET_SIZE, **tags}
    members = {"quantity": class_tables.SET_MEMBERS, **tags}
    return (
        Bands(["classes in the set"], class_tables.size_dtype(len(names)).name, 0, sizes),
        Bands(names, "uint8", class_tables.NO_SET, members),
    )


# --- files beside a class map --------------------------------------------------------------------

# GDAL's numbers: GFT_Integer = 0, GFT_String = 2; the GFU_* usages Name, MinMax, Red .. Alpha.
_COLUMNS = (("Value", "0", "5"), ("Class", "2", "2"), ("Red", "0", "6"), ("Green", "0", "7"),
            ("Blue", "0", "8"), ("Alpha", "0", "9"))  # fmt: skip


def pam_xml(classes: Sequence[ClassInfo]) -> str:
    """Return the text of the ``.aux.xml`` file that names ``classes`` in band 1.

    A GeoTIFF has room for a palette but not for names. GDAL's Persistent Auxiliary Metadata has
    two places for them: category names, one for each id from 0, and a raster attribute table, one
    row for each class. Programs look in either, so both are written.
    """
    root = ET.Element("PAMDataset")
    band = ET.SubElement(root, "PAMRasterBand", band="1")
    categories = ET.SubElement(band, "CategoryNames")
    for name in category_names(classes):
        ET.SubElement(categories, "Category").text = name
    table = ET.SubElement(band, "GDALRasterAttributeTable", tableType="thematic")
    for index, column in enumerate(_COLUMNS):
        definition = ET.SubElement(table, "FieldDefn", index=str(index))
        for key, text in zip(("Name", "Type", "Usage"), column, strict=True):
            ET.SubElement(definition, key).text = text
    rows = [(UNLABELED, UNLABELED_NAME, 0, 0, 0, 0)]
    rows += [(c.value, c.name, *rgb(c.color), 255) for c in classes]
    for index, values in enumerate(rows):
        row = ET.SubElement(table, "Row", index=str(index))
        for value in values:
            ET.SubElement(row, "F").text = str(value)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def qml_style(classes: Sequence[ClassInfo]) -> str:
    """Return the text of the ``.qml`` file that names and colors ``classes`` in band 1.

    QGIS looks for a style under the raster's own name. Id 0, which the map declares to be nodata,
    has no entry and is not drawn.
    """
    root = ET.Element("qgis", version=_QGIS, styleCategories="Symbology")
    root.append(ET.Comment(f" {QML_MARK} "))
    pipe = ET.SubElement(root, "pipe")
    renderer = ET.SubElement(
        pipe, "rasterrenderer", type="paletted", band="1", opacity="1", alphaBand="-1",
        nodataColor="",
    )  # fmt: skip
    ET.SubElement(renderer, "rasterTransparency")
    palette = ET.SubElement(renderer, "colorPalette")
    for c in classes:
        entry = {"value": str(c.value), "label": c.name, "color": c.color.lower(), "alpha": "255"}
        ET.SubElement(palette, "paletteEntry", entry)
    # Neither smoothed when magnified nor averaged when reduced: between two ids lies no class
    ET.SubElement(pipe, "rasterresampler", maxOversampling="2")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"
