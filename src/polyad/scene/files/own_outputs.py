"""Whether an existing file is an earlier output of polyad, told by the marks that outputs carry.

A class map may be replaced by the next one without asking; a scene, labels or anybody's notes under
the same name may not. The content decides, not the ending, and only a few kilobytes are read. What
cannot be recognized as ours is not ours.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from polyad.text import clean_name

_HEAD = 2**16  # bytes
_TAGS = 1000  # of a TIFF's first picture; ours has 16
_GDAL_METADATA = 42112
NPY_HEAD = 256  # bytes before the ids of a map; numpy itself takes 128
QML_MARK = "written by polyad; QGIS drops this line when it saves the style"
LABELS = "class labels"  # the tag "quantity" of a GeoTIFF that holds labels and no map
VALUES = "predicted value"  # that of a map of values
DEVIATION = "standard deviation of the predicted value"  # and of what is written beside it
# What a sample says in its field `drawn_from`, after the name of the file
DRAWN_FROM = "drawn_from"
_SAMPLES, _SAMPLE_BYTES = (".gpkg", ".geojson", ".csv"), 2**24
_ZARR = ("zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata")
# Byte order and number -> unpacked with: the first offset, the count, an entry's number and value.
_TIFF = {
    b"II*\0": ("<", 4, "I", "H", "HHI4s"),
    b"MM\0*": (">", 4, "I", "H", "HHI4s"),
    b"II+\0": ("<", 8, "Q", "Q", "HHQ8s"),
    b"MM\0+": (">", 8, "Q", "Q", "HHQ8s"),
}


def is_ours(path: Path, what: str) -> bool:
    """Whether the file (or Zarr store) at ``path`` is an earlier output of the same kind.

    Parameters
    ----------
    path : Path
        The existing file.
    what : {"map", "file of probabilities", "file of scores", "model", "report", "side"}
        What is to be written; also "file of uncertainty", "file of set sizes", "file of sets",
        "table of areas", "ONNX file", and "style" for the ``.qml`` of a map. A side is the
        ``.aux.xml`` of a map.
    """
    if path.is_dir():
        return what == "map" and path.suffix.lower() == ".zarr" and _is_zarr_map(path)
    tell = _MARKS.get((what, path.suffix.lower())) or _MARKS[what, ""]
    try:
        if not path.is_file():  # a pipe would be waited for
            return False
        with path.open("rb") as file:
            return tell(file)
    except (OSError, struct.error, OverflowError, ValueError):
        return False


def drawn_from(name: str, digest: str) -> str:
    """Return what a sample says of the map that it was drawn from.

    Examples
    --------
    >>> drawn_from("maps/map.tif", "cb0ba8d17eb5")
    'map=map.tif#cb0ba8d17eb5'
    """
    return f"map={clean_name(Path(name).name)}#{digest}"


def sample_of(path: Path) -> Path | None:
    """Return the first sample beside a map that was drawn from a map of its name, else None."""
    # Text lies in all three formats as it is; the digest ends the name
    mark = re.compile(re.escape(drawn_from(path.name, "").encode()) + rb"[0-9a-f]{12}")
    for file in sorted(path.absolute().parent.iterdir()):
        try:
            small = file.is_file() and file.stat().st_size <= _SAMPLE_BYTES
            if small and file.suffix.lower() in _SAMPLES and mark.search(file.read_bytes()):
                return file
        except OSError:  # whoever may not read it does not check it either
            continue
    return None


def _is_zarr_map(store: Path) -> bool:
    """Whether a store holds a class map with its coordinates and nothing else."""
    try:
        about = b"".join(
            (store / "class_map" / name).read_bytes()[:_HEAD]
            for name in ("zarr.json", ".zattrs", ".zarray")
            if (store / "class_map" / name).is_file()
        )
        return b"class_values" in about and all(
            _is_of_map(entry.relative_to(store).parts, about) and not entry.is_symlink()
            for entry in store.rglob("*")
        )
    except OSError:
        return False


def _is_of_map(path: tuple[str, ...], about: bytes) -> bool:
    """Whether an entry of a store is an array that the map names, its description or a chunk."""
    name, *rest = path
    if not rest and name in _ZARR:
        return True
    named = re.search(rb"\b%s\b" % re.escape(name.encode()), about) is not None
    chunk = rest[1:] if rest[:1] == ["c"] else rest
    known = len(rest) == 1 and rest[0] in _ZARR
    numbers = len(chunk) <= 2 and all(re.fullmatch(r"\d+(\.\d+)?", key) for key in chunk)
    return (name == "class_map" or named) and (known or numbers)


def _has(beginning: bytes, mark: bytes) -> Callable[[BinaryIO], bool]:
    def tell(file: BinaryIO) -> bool:
        head = file.read(_HEAD)
        return head.startswith(beginning) and mark in head

    return tell


def _is_model(file: BinaryIO) -> bool:
    head = file.read(_HEAD)
    return head[8:].startswith(b'{"__metadata__":') and b'"polyad":' in head


def _is_ids(file: BinaryIO) -> bool:
    """Whether the file is a NumPy array such as a map is: of small whole numbers, or of values.

    Labels are such an array too; a map is told from them by a head that is wider than need be.
    """
    head = file.read(_HEAD)
    if head[6:10] != b"\1\0" + (NPY_HEAD - 10).to_bytes(2, "little"):
        return False
    ids, values = rb"[|<](u1|u2)'.*'shape': \(\d+, \d+\)", rb"<f4'.*'shape': \(\d+, \d+, \d+\)"
    kind = re.search(rb"'descr': '(%s|%s)" % (ids, values), head[:200])
    return head.startswith(b"\x93NUMPY") and kind is not None


def _tiff_with(mark: bytes, without: bytes | None = None) -> Callable[[BinaryIO], bool]:
    def tell(file: BinaryIO) -> bool:
        tags = _gdal_metadata(file)
        return mark in tags and (without is None or without not in tags)

    return tell


def _any_of(*ways: Callable[[BinaryIO], bool]) -> Callable[[BinaryIO], bool]:
    def tell(file: BinaryIO) -> bool:
        for way in ways:
            file.seek(0)
            if way(file):
                return True
        return False

    return tell


def _gdal_metadata(file: BinaryIO) -> bytes:
    """Return the text in which GDAL keeps the tags of a TIFF's first picture, "" if it has none."""
    order, width, offset, count, entry = _TIFF.get(file.read(4), ("<", 0, "", "", ""))
    if not width:
        return b""
    if width == 8:
        file.seek(8)  # a BigTIFF says first how wide its offsets are
    _seek(file, order + offset)
    number = min(_next(file, order + count), _TAGS)
    size = struct.calcsize(order + entry)
    for tag, _, length, value in struct.iter_unpack(order + entry, file.read(number * size)):
        if tag == _GDAL_METADATA:
            file.seek(struct.unpack(order + offset, value)[0])
            return file.read(min(length, _HEAD))
    return b""


def _seek(file: BinaryIO, form: str) -> None:
    file.seek(_next(file, form))


def _next(file: BinaryIO, form: str) -> int:
    return int(struct.unpack(form, file.read(struct.calcsize(form)))[0])


_LABELS_TAG = f'name="quantity">{LABELS}<'.encode()
_MAP_TIFF = _any_of(_tiff_with(b"class_values", without=_LABELS_TAG), _tiff_with(VALUES.encode()))
_ENVI = _has(b"ENVI", b"class map written by polyad")
# By what is written and the ending; "" stands for any other.
_MARKS: dict[tuple[str, str], Callable[[BinaryIO], bool]] = {
    ("map", ".tif"): _MAP_TIFF,
    ("map", ".tiff"): _MAP_TIFF,
    ("map", ".hdr"): _ENVI,
    ("map", ".png"): _has(b"\x89PNG\r\n", b"Software\0polyad"),
    ("map", ".nc"): _has(b"\x89HDF\r\n", b"written by polyad"),
    ("map", ".npy"): _is_ids,
    ("map", ""): lambda _: False,
    ("file of probabilities", ""): _tiff_with(b"class probability"),
    ("file of uncertainty", ""): _any_of(
        _tiff_with(b"class uncertainty"), _tiff_with(DEVIATION.encode())
    ),
    ("file of set sizes", ""): _tiff_with(b"prediction set size"),
    ("file of sets", ""): _tiff_with(b"prediction set members"),
    ("style", ""): _has(b"<qgis", QML_MARK.encode()),
    ("file of scores", ".json"): _any_of(
        _has(b"{", b'"overall_accuracy"'), _has(b"{", b'"rmse_ci95"')
    ),
    ("file of scores", ""): _has(b"measure,class,value", b""),
    ("table of areas", ".json"): _has(b"{", b'"area_ha"'),
    ("table of areas", ""): _has(b"class,id,area_ha,se_ha", b""),
    ("side", ""): _has(b"<PAMDataset>", b"<Category>Unclassified</Category>"),
    ("model", ""): _is_model,
    ("report", ".json"): _has(b"{", b'"polyad_report"'),
    ("ONNX file", ""): _has(b"\x08", b"\x12\x06polyad"),  # its maker, in the second field
    ("report", ""): _has(b"<!doctype html>", b'<meta name="generator" content="polyad">'),
}
