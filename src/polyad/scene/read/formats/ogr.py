"""Layers of vector files, read through OGR in a process of its own.

The content of a file decides which driver may open it, and `ogr_child` has no other: a name or an
ending cannot make GDAL take a file for a list of addresses to fetch. What SQLite would run while a
GeoPackage is read is looked at before (`geopackage`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from polyad.errors import BudgetExceeded, SceneError
from polyad.regular import check_regular, open_regular
from polyad.scene.raster.guards import check_budget, human_bytes, listing
from polyad.scene.read.columns import MOST_CLASSES, Column
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.geopackage import check_geopackage
from polyad.scene.read.formats.opening import check_beside, plain_name

_CHILD = Path(__file__).with_name("ogr_child.py")
_PATIENCE = 300.0  # seconds; processor time is limited to far less, this is for a file that blocks
_SECONDS = 15  # of the processor, and one more for each of these many bytes
_BYTES_PER_SECOND = 10_000_000
_FEATURE_BYTES = 500  # what a feature takes here at least: its geometry, its class
_SLACK = 256 * 2**20  # bytes that the process may take beside the layer: GDAL's own
_LONGEST_LINE = 16 * 2**20  # bytes of its answer: the distinct values of all fields

# By what a file is called: its driver, endings and options to open it with. Immutable: a database
# is neither locked nor written to, and journals beside it are not looked for.
KINDS: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]] = {
    "GeoPackage": ("GPKG", (".gpkg",), {"IMMUTABLE": "YES", "NOLOCK": "YES"}),
    "Shapefile": ("ESRI Shapefile", (".shp",), {}),
    "FlatGeobuf": ("FlatGeobuf", (".fgb",), {"VERIFY_BUFFERS": "YES"}),
    "KML": ("LIBKML", (".kml",), {}),
}
_ENDINGS = {ending: kind for kind, (_, endings, _) in KINDS.items() for ending in endings}
# Files that belong to a Shapefile; the first two must be there
_OF_SHAPEFILE = (".dbf", ".shx", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".idm", ".ind", ".fix")


@dataclass(frozen=True)
class VectorLayer:
    """One layer of a vector file.

    Attributes
    ----------
    name : str
    crs : rasterio CRS or None
    columns : tuple of Column
        Its fields of text and numbers.
    sizes : ndarray of int
        Bytes of each feature's geometry, 0 where it has none.
    wkb : bytes
        All geometries in well-known binary, one after another.
    """

    name: str
    crs: Any
    columns: tuple[Column, ...]
    sizes: NDArray[np.int64]
    wkb: bytes


class WhichLayer(SceneError):
    """No layer was named where there are several, or one that does not exist."""

    def __init__(self, path: Path, layer: str | None, layers: list[str], how: str) -> None:
        self.layers = layers
        what = "it has several layers" if layer is None else f"there is no layer {layer[:80]!r}"
        super().__init__(
            f"{path}: {what}; name one {how}: {listing(layers)}"
            if layers
            else f"{path}: no layer in it has geometries; export the labels again"
        )


def vector_kind(path: Path) -> str | None:
    """Return which of `KINDS` a file is by its content; None if it is none of them.

    Raises
    ------
    SceneError
        Its ending promises one of them and its content is another.
    """
    if path.is_dir() or not path.exists():
        return None
    check_regular(path)
    with open_regular(path) as file:
        head = file.read(4096)
    kind = _by_content(head)
    if kind == "Shapefile" and path.suffix.lower() == ".shx":
        raise SceneError(f"{path}: is the index of a Shapefile; name the .shp beside it")
    promised = _ENDINGS.get(path.suffix.lower())
    if path.suffix.lower() == ".kmz":
        raise SceneError(f"{path}: is a zipped KML; unzip it and name the .kml in it")
    if promised is not None and kind != promised:
        raise SceneError(
            f"{path}: wanted a {promised} by its ending, its content is "
            f"{'none' if kind is None else f'a {kind}'}; it is damaged or has the wrong ending"
        )
    return kind


def _by_content(head: bytes) -> str | None:
    if head.startswith(b"SQLite format 3\0"):
        return "GeoPackage"
    if head.startswith(b"fgb\x03fgb"):
        return "FlatGeobuf"
    if head[:4] == b"\0\0\x27\x0a" and head[28:32] == b"\xe8\x03\0\0":  # code 9994, version 1000
        return "Shapefile"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return "KML" if text.startswith((b"<?xml", b"<kml")) and b"<kml" in head else None


def read_layer(
    path: Path,
    kind: str,
    layer: str | None,
    budget: int,
    how: str = "with --layer (in Python, layer)",
    named: int = MOST_CLASSES,
    numbers: Sequence[str] = (),
) -> VectorLayer:
    """Read a layer with its fields and geometries.

    Parameters
    ----------
    path : Path
    kind : str
        One of `KINDS`, as `vector_kind` tells.
    layer : str, optional
        Its name; by default the only one that has geometries.
    budget : int
        Bytes that it may take.
    how : str
        How a layer is named, for the message.
    named : int
        Distinct values of a field that are named; of one with more, they are counted alone.
    numbers : sequence of str
        Fields of which every feature's number is wanted, however many there are.
    """
    package = importlib.util.find_spec("pyogrio")
    if package is None or package.origin is None:
        raise SceneError(
            f"{path}: reading a {kind} needs pyogrio; install it with: pip install 'polyad[vector]'"
        )
    stored = check_regular(path)
    if kind == "Shapefile":
        stored += _check_shapefile(path)
    if kind == "GeoPackage":
        check_geopackage(path)
    check_budget(path, stored, budget, "a vector file")
    driver, _, options = KINDS[kind]
    request = {
        "packages": [os.fspath(Path(package.origin).parents[1])],
        "path": os.fspath(plain_name(path)),
        "driver": driver,
        "options": options,
        "layer": layer,
        "named": named,
        "numbers": [name.casefold() for name in numbers],
        "most": budget // _FEATURE_BYTES,
        "memory": budget + _SLACK,
        "seconds": _SECONDS + stored // _BYTES_PER_SECOND,
    }
    answer, pieces = _asked(path, kind, request, budget)
    if answer["layer"] is None:
        raise WhichLayer(path, layer, answer["layers"], how)
    if "columns" not in answer:
        check_budget(path, answer["count"] * _FEATURE_BYTES, budget, "a layer")
        raise BudgetExceeded(f"{path}: the layer has too many features; split it")
    *fields, sizes, wkb = pieces
    codes, measured = fields[: len(answer["columns"])], fields[len(answer["columns"]) :]
    columns = tuple(
        Column(
            c["name"],
            c["kind"],
            c["values"] or range(c["distinct"]),
            _codes(own),
            np.frombuffer(measured[c["numbers"]], np.float64) if "numbers" in c else None,
        )
        for c, own in zip(answer["columns"], codes, strict=True)
    )
    crs = None if answer["crs"] is None else parse_crs(path, answer["crs"])
    return VectorLayer(answer["layer"], crs, columns, np.frombuffer(sizes, np.int64), wkb)


def _codes(piece: bytes) -> NDArray[np.int32]:
    return np.frombuffer(piece, np.int32)


def _check_shapefile(path: Path) -> int:
    """Return the bytes of the files beside a ``.shp``; refuse links out, and what is missing."""
    there = {file.name.lower(): file for file in path.parent.iterdir()}
    beside = {end: there.get((path.stem + end).lower()) for end in _OF_SHAPEFILE}
    missing = [end for end in (".dbf", ".shx") if beside[end] is None]
    if missing:
        raise SceneError(
            f"{path}: a Shapefile is several files, {' and '.join(missing)} of it "
            f"{'is' if len(missing) == 1 else 'are'} missing; copy {path.stem}.* all together"
        )
    return sum(check_regular(check_beside(path, file)) for file in beside.values() if file)


def _asked(
    path: Path, kind: str, request: Mapping[str, Any], budget: int
) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer of the process that reads, and its arrays."""
    own = ("GDAL", "OGR", "CPL", "PROJ", "SHAPE", "LIBKML", "SQLITE", "VSI", "AWS", "PYTHON")
    clean = {k: v for k, v in os.environ.items() if not k.upper().startswith(own)}
    clean |= {"OPENBLAS_NUM_THREADS": "1", "PROJ_NETWORK": "OFF", "GDAL_DRIVER_PATH": "disable"}
    child = subprocess.Popen(
        [sys.executable, "-I", str(_CHILD)],
        env=clean,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl+C is for us alone
    )
    timer = threading.Timer(_PATIENCE, child.kill)
    timer.start()
    try:
        requests, answers = cast(IO[bytes], child.stdin), cast(IO[bytes], child.stdout)
        requests.write(json.dumps(request).encode())
        requests.close()
        line = answers.readline(_LONGEST_LINE)
        answer: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {"trouble": ""}
        held = sum(answer.get("sizes", ()))
        check_budget(path, held, budget, "a layer")
        pieces = [answers.read(size) for size in answer.get("sizes", ())]
    except BrokenPipeError:
        answer, pieces = {"trouble": ""}, []
    finally:
        timer.cancel()
        child.kill()
        cast(IO[bytes], child.stdout).close()
        child.wait()
    if answer.get("trouble") == "memory":
        raise BudgetExceeded(
            f"{path}: reading the {kind} takes more than the budget of {human_bytes(budget)}; "
            "raise --max-bytes (in Python, max_bytes), or export the labels alone"
        )
    if "trouble" in answer or list(map(len, pieces)) != answer["sizes"]:
        said = answer.get("trouble") or "it took too long or crashed the library"
        raise SceneError(
            f"{path}: wanted a sound {kind}, reading it failed ({said[:200]}); it is truncated, "
            "damaged or hostile, export it again"
        )
    return answer, pieces
