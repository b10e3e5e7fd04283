"""ENVI: a text header beside raw pixels in BSQ, BIL or BIP order.

Pixels are given as the header says they are meant: ``data gain values`` and ``data offset values``
are applied to each band, or else the pixels are divided by ``reflectance scale factor``. A header
with both states one thing twice, as exports of products do, and the gains decide.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyad.errors import PolyadWarning, SceneError
from polyad.safe_open import open_regular
from polyad.scene.files.paths import ENVI_DATA
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, hull, pick, to_nm
from polyad.scene.read.formats.crs import MAX_CHARACTERS, refuse_grids
from polyad.scene.read.formats.opening import Opened, check_beside, open_content
from polyad.scene.read.formats.raw import SCALING, ScaledSource, read_box
from polyad.scene.read.formats.sidecars import georeference

_DTYPES = {
    "1": "u1", "2": "i2", "3": "i4", "4": "f4", "5": "f8", "12": "u2", "13": "u4", "14": "i8",
    "15": "u8",
}  # fmt: skip
# For each interleave: the order of (rows, cols, bands) in the file, and the way back to it.
_INTERLEAVES = {
    "bsq": ((2, 0, 1), (1, 2, 0)),
    "bil": ((0, 2, 1), (0, 2, 1)),
    "bip": ((0, 1, 2), (0, 1, 2)),
}
_HEADER_BYTES = 4 * 2**20  # thousands of bands need less than one megabyte
_LISTS = ("wavelength", "fwhm", "bbl", "data gain values", "data offset values")
_PLACES = ("map info", "projection info", "coordinate system string")
_ROTATION = re.compile(r"\brotation\s*=\s*[-+.\deE]+", re.I)  # of a grid along a flight line


@dataclass(frozen=True)
class EnviSource:
    """Raw pixels of an ENVI file."""

    path: Path
    offset: int
    shape: tuple[int, int, int]
    dtype: np.dtype
    interleave: str

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        to_file, back = _INTERLEAVES[self.interleave]
        span, inside = hull(bands)
        box = (rows, cols, span)
        a, b, c = to_file
        shape = (self.shape[a], self.shape[b], self.shape[c])
        window = read_box(self.path, self.offset, shape, self.dtype, (box[a], box[b], box[c]))
        return pick(window.transpose(back), inside)


class SpectralLibrary(NamedTuple):
    """What the header of a spectral library says: one line for each spectrum."""

    spectra: int
    bands: int
    wavelength: NDArray[np.float64] | None  # (bands,), in nm


def find_envi(path: Path) -> tuple[Path, Path] | None:
    """Return (header, data) for either of the two files, or None if this is no ENVI pair."""
    if path.suffix.lower() == ".hdr":
        if not _is_header(path, path):
            return None
        # "scene.hdr" beside "scene.img", or "scene.img.hdr" beside "scene.img".
        for suffix in ENVI_DATA:
            for name in (suffix, suffix.upper()):
                data = path.with_suffix("").with_name(path.stem + name)
                if data.is_file():
                    return path, data
        raise SceneError(
            f"{path}: no data file beside this ENVI header, expected {path.stem} with one of "
            f"{', '.join(s for s in ENVI_DATA if s)} or no suffix; put it in the same folder"
        )
    for header in (path.with_suffix(".hdr"), path.with_name(path.name + ".hdr")):
        for candidate in (header, header.with_suffix(".HDR")):
            if candidate != path and _is_header(path, candidate):
                return candidate, path
    return None


def _is_header(named: Path, path: Path) -> bool:
    if not path.is_file():
        return False
    with open_regular(check_beside(named, path)) as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:4] == b"ENVI"


def read_header(path: Path) -> dict[str, str]:
    """Return the fields of an ENVI header, names in lower case, braces kept."""
    if path.stat().st_size > _HEADER_BYTES:
        most, got = map(guards.human_bytes, (_HEADER_BYTES, path.stat().st_size))
        raise SceneError(f"{path}: an ENVI header is text below {most}, got {got}; is it the data?")
    fields: dict[str, str] = {}
    # Not splitlines: it takes half of an Å in UTF-8, which is NEL in Latin-1, for a line's end
    lines = iter(path.read_text(encoding="latin-1").split("\n"))
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or name.lstrip().startswith(";"):  # the first line, or a comment
            continue
        values = [value]
        if "{" in value and "}" not in value:  # a list over several lines
            for more in lines:
                values.append(more)
                if "}" in more:
                    break
        fields[name.strip().lower()] = "\n".join(values).strip()
    return fields


def read_library(path: Path) -> SpectralLibrary | None:
    """Describe the ENVI spectral library that ``path`` belongs to; None if it is no library."""
    pair = find_envi(path)
    if pair is None:
        return None
    fields = read_header(check_beside(path, pair[0]))
    return _library(pair[0], fields)


def _library(header: Path, fields: Mapping[str, str]) -> SpectralLibrary | None:
    if fields.get("file type", "").strip().lower() != "envi spectral library":
        return None
    spectra, bands = (_integer(header, fields, name) for name in ("lines", "samples"))
    if min(spectra, bands) < 1:
        got = f"got {spectra:,} lines and {bands:,} samples; correct the header"
        raise SceneError(f"{header}: expected a library of one spectrum and band or more, {got}")
    centers = _numbers(header, fields, "wavelength", bands)
    return SpectralLibrary(spectra, bands, _bands(fields, centers, None)[0])


def open_envi(path: Path, budget: int) -> Opened:  # noqa: ARG001
    """Open an ENVI scene by its header or its data file; bands with ``bbl = 0`` are left out."""
    pair = find_envi(path)
    if pair is None:
        raise SceneError(f"{path}: no ENVI header (.hdr) beside it; put the header there")
    header_path, data_path = (check_beside(path, file) for file in pair)
    fields = read_header(header_path)
    library = _library(header_path, fields)
    if library is not None:
        raise SceneError(
            f"{path}: expected a scene, got a spectral library of {library.spectra:,} spectra with "
            f"{library.bands:,} bands, which has no pixels to label or map; name an image"
        )
    rows, cols, count = (_integer(header_path, fields, n) for n in ("lines", "samples", "bands"))
    shape = (rows, cols, count)
    guards.check_shape(header_path, shape)
    dtype = _DTYPES[_choice(header_path, {"data type": ""} | fields, "data type", _DTYPES)]
    order = {"0": "<", "1": ">"}[_choice(header_path, fields, "byte order", "01")]
    interleave = _choice(header_path, fields, "interleave", _INTERLEAVES)
    for name in ("file compression", "major frame offsets", "minor frame offsets"):
        if fields.get(name, "0").strip("{} ").replace(",", "").replace(" ", "").strip("0"):
            remedy = "expected plain pixels; export the scene as uncompressed ENVI or GeoTIFF"
            raise SceneError(f"{header_path}: '{name} = {fields[name]}' is not read, {remedy}")
    offset, element = _integer(header_path, fields, "header offset", 0), np.dtype(order + dtype)
    stored = offset + guards.declared_bytes(shape, element)
    guards.check_stored(data_path, stored, guards.existing_file(data_path))
    guards.check_extent(header_path, shape)
    source = EnviSource(data_path, offset, shape, element, interleave)
    lists = {n: _numbers(header_path, fields, n, count) for n in _LISTS}
    wavelength, fwhm = _bands(fields, lists["wavelength"], lists["fwhm"])
    flags, nodata = lists["bbl"], _number(fields.get("data ignore value"))
    gains, offsets, scaling = _scaling(fields, lists, count)
    scaled = ScaledSource(source, tuple(range(count)), tuple(gains), tuple(offsets), nodata)
    return Opened.of(
        scaled if scaling else source,
        wavelength=wavelength,
        fwhm=fwhm,
        good=None if flags is None else flags != 0,
        nodata=np.nan if scaling else nodata,
        attrs={SCALING: scaling} if scaling else None,
        **_georeference(header_path, data_path, fields),
    )


def _scaling(
    fields: Mapping[str, str], lists: Mapping[str, NDArray[np.float64] | None], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Return gain and offset of each band, and what is told of them; empty if nothing is scaled."""
    gain, offset = (
        np.full(count, neutral) if (stated := lists[f"data {what} values"]) is None else stated
        for what, neutral in (("gain", 1.0), ("offset", 0.0))
    )
    usable = np.isfinite([gain, offset]).all() and gain.all()
    if usable and not ((gain == 1).all() and (offset == 0).all()):
        return gain, offset, "data gain and offset values of the header applied"
    factor = _number(fields.get("reflectance scale factor")) or 1.0
    note = f"divided by the header's reflectance scale factor {factor:g}"
    scaled = np.isfinite(1 / factor) and factor > 0 and factor != 1
    return np.full(count, 1 / factor), np.zeros(count), note if scaled else ""


def _integer(header: Path, fields: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = fields.get(name, "" if default is None else str(default))
    if not (text.strip().isdecimal() and len(text.strip()) <= 18):
        got = f"got {text[:40] or 'nothing'!r}; the header is damaged, correct that line"
        raise SceneError(f"{header}: expected '{name} = <whole number>', {got}")
    return int(text)


def _choice(header: Path, fields: Mapping[str, str], name: str, known: Iterable[str]) -> str:
    """Return one of the ``known`` values of a field; the first of them where it is missing."""
    known = [*known]
    text = fields.get(name, known[0]).strip().lower()
    if text not in known:
        raise SceneError(
            f"{header}: expected '{name}' to be one of {', '.join(known)}, got "
            f"{text[:40] or 'nothing'!r}; correct the header or convert the scene"
        )
    return text


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _numbers(
    header: Path, fields: Mapping[str, str], name: str, count: int
) -> NDArray[np.float64] | None:
    """Return the ``count`` numbers of a braced list, None if it does not hold them.

    A list with too many or too few entries gives a warning and is ignored.
    """
    entries = [v for v in fields.get(name, "").strip("{} \n").split(",") if v.strip()]
    if len(entries) != count:
        if entries:
            warnings.warn(
                f"{header}: '{name}' has {len(entries):,} entries for {count:,} bands and is not "
                "used; correct the header",
                PolyadWarning,
                stacklevel=4,
            )
        return None
    try:
        return np.array([float(v) for v in entries])
    except ValueError:
        return None


def _bands(
    fields: Mapping[str, str],
    centers: NDArray[np.float64] | None,
    widths: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return centers and widths in nm, None where they are not told."""
    units = fields.get("wavelength units")
    if centers is None or (units or "").strip().lower() in ("index", "wavenumber", "ghz", "mhz"):
        return None, None
    nm = to_nm(centers, units)
    # The widths share the unit of the centers, also where that unit had to be guessed.
    scale = float(nm[0] / centers[0]) if centers[0] else 1.0
    return nm, None if widths is None else np.round(widths * scale, 6)


def _georeference(header: Path, data: Path, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` of the header.

    GDAL knows ENVI's projection names and puts the tie point at the pixel's outer corner. It gets
    a header in memory with these fields alone: on disk it might take another one, or read more.
    """
    told = {k: " ".join(fields[k].split()) for k in _PLACES if k in fields}
    if not told.keys() - {"projection info"}:
        return {}
    for text in told.values():
        if len(text) > MAX_CHARACTERS:
            most = f"expected a reference system below {MAX_CHARACTERS} characters, got {len(text)}"
            raise SceneError(f"{header}: {most}; correct the header")
        refuse_grids(header, _ROTATION.sub("", text))
    lines = ["ENVI", "samples = 9", "lines = 1", "bands = 1", "data type = 1", "interleave = bsq"]
    lines += [f"{name} = {text}" for name, text in told.items()]
    files = {"scene.img": bytes(9), "scene.hdr": "\n".join(lines).encode("latin-1")}
    with open_content(header, "ENVI", files) as dataset:
        return georeference(data, dataset)
