"""GeoTIFF class maps and class probabilities, written window by window.

Memory is bounded by one window: a map may be larger than memory. What was written is read back
before it is given its name, because GDAL reports no error when the disk fills up while it writes.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.errors import NotGeoreferencedWarning
from rasterio.windows import Window

from polyad.atomic import Outputs, disk_full, replacing_together
from polyad.errors import InputError, OutputError, PolyadError, SceneMismatch
from polyad.scene.files.paths import SIDES
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_dtype, rgb
from polyad.scene.raster.tiles import BLOCK
from polyad.scene.write.pam import pam_xml
from polyad.text import clean_name

_FLUSH_BYTES = 64 * 2**20  # GDAL's cache would else grow to a twentieth of all memory
_UINT8_STEPS = 254  # probability p is kept as round(254 p); 255 means "not mapped"

Slices = tuple[slice, slice]


def checked_ids(ids: npt.ArrayLike, classes: Sequence[ClassInfo]) -> npt.NDArray[Any]:
    """Return ``ids`` (any shape) in the type of the map, or refuse ids that have no class."""
    ids = np.asarray(ids)
    if not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"class ids must be integers, got {ids.dtype}; use .astype('uint8')")
    dtype = class_dtype(classes)
    known = np.zeros(np.iinfo(dtype).max + 1, dtype=bool)
    known[[UNLABELED, *(c.value for c in classes)]] = True
    inside = (ids >= 0) & (ids < known.size)
    if not inside.all() or not known[ids].all():
        unknown = sorted({int(i) for i in np.unique(ids)} - set(np.flatnonzero(known).tolist()))
        raise SceneMismatch(
            f"the map holds class ids {unknown[:5]} but its class table lists "
            f"{[c.value for c in classes][:20]}; pass the classes the model was fitted on"
        )
    return ids.astype(dtype)


class _Raster:
    """One GeoTIFF at a temporary path; ``target`` is the name it will have."""

    def __init__(self, temporary: Path, target: Path, profile: Mapping[str, Any]) -> None:
        self._temporary, self._target = temporary, target
        self._pending = 0
        self._written = 0
        # Sparse at first: blocks exist once they are written, so a block that is missing at the
        # end is one that was never written or did not fit on the disk.
        options = {
            "driver": "GTiff", "tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK,
            "compress": "deflate", "interleave": "band", "bigtiff": "IF_SAFER", "sparse_ok": True,
        }  # fmt: skip
        with self._explained():
            self.dataset = open_quietly(temporary, "w", **options, **profile)

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
            self.dataset = open_quietly(self._temporary, "r+", driver="GTiff")
        self._pending = 0

    def finish(self) -> None:
        """Close the file and read every block of it again."""
        height, width = self.dataset.shape
        with self._explained():
            self.dataset.close()
            if self._written < height * width:
                raise OutputError(
                    f"cannot finish {self._target}: wanted {height * width:,} pixels, got "
                    f"{self._written:,}; write every window of the scene before leaving the block"
                )
            if not _is_whole(self._temporary):
                raise disk_full(self._target)

    def discard(self) -> None:
        """Close the file whatever state it is in; it will be removed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not self.dataset.closed:
                self.dataset.close()

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


class MapWriter:
    """Write a GeoTIFF class map and, on request, its probabilities, window by window.

    The files appear under their names when the ``with`` block ends without an error, and not
    before. One thread may write at a time.

    Parameters
    ----------
    path : path-like
        The map. ``<path>.aux.xml`` with the class names goes beside it.
    shape : (int, int)
        Rows and columns of the scene.
    classes : sequence of ClassInfo
        The classes of the map, in the order of the probabilities' last axis.
    crs : rasterio.crs.CRS, optional
        Coordinate reference system; None for a scene without one.
    transform : affine.Affine, optional
        From (column, row) to (x, y) of the pixel's corner; None for a scene without one.
    probabilities : path-like, optional
        Where to write the probabilities; None for no probabilities.
    probability_dtype : {"float32", "uint8"}
        See `write_probabilities`.
    outputs : Outputs, optional
        What the files are to appear together with; by default map and probabilities alone.
    quantity : str, optional
        A tag that says what the ids are, if no map; see `polyad.scene.files.own_outputs`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "map.tif"
    >>> with MapWriter(path, (2, 3), [ClassInfo(1, "Corn", "#4477AA")]) as out:
    ...     out.write((slice(0, 2), slice(0, 3)), np.ones((2, 3), dtype="uint8"))
    >>> sorted(p.name for p in path.parent.iterdir())
    ['map.tif', 'map.tif.aux.xml']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: tuple[int, int],
        classes: Sequence[ClassInfo],
        *,
        crs: CRS | None = None,
        transform: Affine | None = None,
        probabilities: str | os.PathLike[str] | None = None,
        probability_dtype: str = "float32",
        outputs: Outputs | None = None,
        quantity: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.quantity = quantity
        self.shape = shape
        self.classes = tuple(classes)
        self.crs = crs
        self.transform = transform
        self.probabilities = None if probabilities is None else Path(probabilities)
        self.probability_dtype = probability_dtype
        self._outputs = outputs
        if self.probabilities == self.path:
            raise InputError(f"map and probabilities need two files, got {path} for both")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            outputs = self._outputs or stack.enter_context(replacing_together())
            self._map = stack.enter_context(self._open_map(outputs))
            self._probabilities = None
            if self.probabilities is not None:
                raster = open_probabilities(
                    outputs,
                    self.probabilities,
                    self.shape,
                    [c.name for c in self.classes],
                    dtype=self.probability_dtype,
                    crs=self.crs,
                    transform=self.transform,
                )
                self._probabilities = stack.enter_context(raster)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def write(
        self, window: Slices, ids: npt.ArrayLike, probabilities: npt.NDArray[Any] | None = None
    ) -> None:
        """Write one window of the map.

        Parameters
        ----------
        window : (slice, slice)
            Rows and columns of the scene.
        ids : array of int, shape (rows, columns)
            Class ids, 0 for pixels that are not mapped.
        probabilities : array of float, shape (rows, columns, classes), optional
            Wanted if and only if the writer was given a path for them; NaN where not mapped.
        """
        if (probabilities is None) != (self._probabilities is None):
            raise InputError(
                "probabilities must be passed to write() if and only if MapWriter was given "
                "probabilities=PATH"
            )
        self._map.write(window, checked_ids(ids, self.classes)[np.newaxis])
        if self._probabilities is not None and probabilities is not None:
            bands = encode_probabilities(probabilities, self.probability_dtype)
            self._probabilities.write(window, np.moveaxis(bands, -1, 0))  # (class, rows, columns)

    @contextmanager
    def _open_map(self, outputs: Outputs) -> Iterator[_Raster]:
        profile = {"count": 1, "dtype": class_dtype(self.classes).name, "nodata": UNLABELED}
        profile |= placed(self.shape, self.crs, self.transform)
        # The TIFF stands alone (palette, nodata, names in its tags); the names for QGIS go last.
        outputs.withdraw(*stale_files(self.path))
        temporary = outputs.temporary(self.path)
        names_temporary = outputs.temporary(f"{self.path}.aux.xml", companion=True)
        with _closing(_Raster(temporary, self.path, profile)) as raster:
            colors = {UNLABELED: (0, 0, 0, 0)}
            colors |= {c.value: (*rgb(c.color), 255) for c in self.classes}
            raster.dataset.write_colormap(1, colors)
            raster.dataset.set_band_description(1, "class")
            raster.dataset.update_tags(**class_tags(self.classes))
            if self.quantity is not None:
                raster.dataset.update_tags(quantity=self.quantity)
            raster.flush()
            yield raster
        names_temporary.write_text(pam_xml(self.classes), encoding="utf-8")


@contextmanager
def open_probabilities(
    outputs: Outputs,
    path: str | os.PathLike[str],
    shape: tuple[int, int],
    names: Sequence[str],
    *,
    dtype: str,
    crs: CRS | None,
    transform: Affine | None,
) -> Iterator[_Raster]:
    """Yield a GeoTIFF of one band for each of ``names``, to be written window by window.

    It is a companion of the map: no moment shows the probabilities of another one.
    """
    target = Path(path)
    encoded = encode_probabilities(np.empty((0, 0, 0)), dtype).dtype.name  # refuses other types
    profile = placed(shape, crs, transform) | {"count": len(names), "dtype": encoded}
    profile |= {"nodata": np.nan, "predictor": 3} if encoded == "float32" else {"nodata": 255}
    outputs.withdraw(*stale_files(target))
    temporary = outputs.temporary(target, companion=True)
    with _closing(_Raster(temporary, target, profile)) as raster:
        raster.dataset.descriptions = tuple(map(clean_name, names))
        raster.dataset.update_tags(quantity="class probability")
        if encoded == "uint8":
            raster.dataset.scales = (1 / _UINT8_STEPS,) * len(names)
            raster.dataset.update_tags(probability_scale=f"1/{_UINT8_STEPS}")
        raster.flush()
        yield raster


def encode_probabilities(proba: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
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


def class_tags(classes: Sequence[ClassInfo]) -> dict[str, str]:
    """Return the table of classes as GeoTIFF tags, each a JSON list."""
    return {
        "class_values": json.dumps([c.value for c in classes]),
        "class_names": json.dumps([c.name for c in classes], ensure_ascii=False),
        "class_colors": json.dumps([c.color for c in classes]),
    }


def placed(shape: tuple[int, int], crs: CRS | None, transform: Affine | None) -> dict[str, Any]:
    """Return size and georeference of a raster as entries of a rasterio profile."""
    if min(shape) < 1:
        raise InputError(f"a raster needs at least one row and one column, got shape {shape}")
    profile: dict[str, Any] = {"height": shape[0], "width": shape[1]}
    if crs is not None:
        profile["crs"] = crs
    if transform is not None:
        profile["transform"] = transform
    return profile


def stale_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that GDAL and QGIS may have put beside an earlier raster at ``path``."""
    return [Path(f"{os.fspath(path)}{suffix}") for suffix in SIDES]


@contextmanager
def _closing(raster: _Raster) -> Iterator[_Raster]:
    try:
        yield raster
        raster.finish()
    finally:
        raster.discard()
        raster._temporary.with_name(raster._temporary.name + ".aux.xml").unlink(missing_ok=True)


def open_quietly(path: Path, mode: str, **options: Any) -> Any:
    """Return ``rasterio.open(...)`` without its warning that a raster has no georeference."""
    with warnings.catch_warnings():  # a scene without georeference is no fault of the user's
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        # Absolute, so that no name such as "GTIFF_DIR:1:x.tif" means another file
        return rasterio.open(path.absolute(), mode, **options)


def _is_whole(path: Path) -> bool:
    """Return whether every block of a GeoTIFF exists and can be read."""
    blocks, first = 1, 0
    while first < blocks:  # opened anew every so often, for the sake of GDAL's cache
        with open_quietly(path, "r", driver="GTiff") as dataset:
            windows = list(dataset.block_windows(1))
            block_bytes = dataset.count * BLOCK**2 * np.dtype(dataset.dtypes[0]).itemsize
            blocks, last = len(windows), first + max(1, _FLUSH_BYTES // block_bytes)
            if not all(_block_is_whole(dataset, *window) for window in windows[first:last]):
                return False
        first = last
    return True


def _block_is_whole(dataset: Any, index: tuple[int, int], window: Window) -> bool:
    row, column = index
    offset = f"BLOCK_OFFSET_{column}_{row}"
    bands = range(1, dataset.count + 1)
    if any(dataset.get_tag_item(offset, "TIFF", bidx=band) is None for band in bands):
        return False
    dataset.read(window=window)  # a block cut short by a full disk cannot be inflated
    return True
