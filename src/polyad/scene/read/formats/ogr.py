"""Layers of vector files, read through OGR in a confined process.

The content of a file decides which driver may open it, and that process has no other: a name or an
ending cannot make GDAL take a file for a list of addresses to fetch. A GeoPackage is an SQLite
database, and a database can compute: a view or a generated column runs what its author wrote, with
GDAL's own functions at hand, some of which open files. So only plain tables are read. Names of
layers and fields never become part of a statement.
"""

from __future__ import annotations

import importlib.util
import math
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad import sandbox
from polyad.errors import SceneError, reason
from polyad.safe_open import check_regular
from polyad.scene.raster.guards import check_budget, listing
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.opening import check_beside, plain_name

MOST_CLASSES = 1000  # values of a field; one with more numbers its features or measures something
_SECONDS = 15  # of the processor, and one more for each of these many bytes
_BYTES_PER_SECOND = 10_000_000
_FEATURE_BYTES = 500  # what a feature takes here at least: its geometry, its class
_MOST_DISTINCT = 100_000  # values of one field that are counted
_LONGEST = 500  # characters of a value
_MOST_LISTED = 1000  # layers and fields that are named
_UNUSED = ("pandas", "geopandas", "shapely", "pyarrow", "pyproj")  # which pyogrio would import
_KINDS = {"OFTString": "text", "OFTInteger": "integer", "OFTInteger64": "integer",
          "OFTReal": "real"}  # fmt: skip

_STYLE_BYTES = 64 * 2**20  # of memory that reading a style takes at most
_QUERY_SECONDS = 5.0  # of the processor that questions to the database may take
_LONGEST_VALUE = 4 * 2**20  # bytes of one value: a style with an image in it
# A table that holds what it shows, or the index of one
_PLAIN = re.compile(
    r"CREATE TABLE\b|CREATE VIRTUAL TABLE\s+(?:\"(?:[^\"]|\"\")*\"|\w+)\s+USING\s+rtree\s*\(", re.I
)
# By what a file is called: its driver and options to open it with. Immutable: a database
# is neither locked nor written to, and journals beside it are not looked for.
KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "GeoPackage": ("GPKG", {"IMMUTABLE": "YES", "NOLOCK": "YES"}),
    "Shapefile": ("ESRI Shapefile", {}),
    "FlatGeobuf": ("FlatGeobuf", {"VERIFY_BUFFERS": "YES"}),
    "KML": ("LIBKML", {}),
}
# Files that belong to a Shapefile; the first two must be there
_OF_SHAPEFILE = (".dbf", ".shx", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".idm", ".ind", ".fix")


@dataclass(frozen=True)
class Column:
    """One field of a table of features.

    Attributes
    ----------
    name : str
    kind : {"text", "integer", "real"}
    values : sequence
        The distinct values, empty ones left out; a range where they are too many to list.
    codes : ndarray of int, shape (features,)
        Which of ``values`` each feature has, -1 where it has none.
    numbers : ndarray of float, shape (features,), or None
        The number that each feature has, NaN where it has none; None unless it was asked for.
    """

    name: str
    kind: str
    values: Sequence[Any]
    codes: NDArray[np.int32]
    numbers: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    @property
    def filled(self) -> int:
        """How many features have a value."""
        return int(np.count_nonzero(self.codes >= 0))

    @property
    def repeats(self) -> bool:
        """Whether a value comes more than once."""
        return 0 < len(self.values) < self.filled

    def of_features(self, values: Sequence[Any], empty: Any = None) -> list[Any]:
        """Return for every feature what ``values`` say in place of its distinct value."""
        return [values[code] if code >= 0 else empty for code in self.codes.tolist()]

    @classmethod
    def of(cls, name: str, items: Iterable[Any]) -> Column:
        """Return the column of some values, of which None, "" and NaN are empty.

        Examples
        --------
        >>> Column.of("class", ["corn", None, "oats", "corn"])
        Column(name='class', kind='text', values=['corn', 'oats'], codes=array([ 0, -1,  1,  0],
               dtype=int32))
        """
        numbers: dict[Any, int] = {}
        codes = [
            -1 if _is_empty(item) else numbers.setdefault(item, len(numbers)) for item in items
        ]
        known = {int: "integer", bool: "integer", float: "real"}
        kinds = {known.get(type(value), "text") for value in numbers}
        kind = "text" if not kinds or "text" in kinds else "real" if "real" in kinds else "integer"
        return cls(name, kind, list(numbers), np.array(codes, np.int32))


def _is_empty(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


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
        One of `KINDS`.
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
    if importlib.util.find_spec("pyogrio") is None:
        how = "install it with: pip install 'polyad[vector]'"
        raise SceneError(f"{path}: reading a {kind} needs pyogrio; {how}")
    files = [path, *(_of_shapefile(path) if kind == "Shapefile" else ())]
    stored = sum(map(check_regular, files))
    check_budget(path, stored, budget, "a vector file")
    wanted = [name.casefold() for name in numbers]
    limits = sandbox.Limits(budget, _SECONDS + stored // _BYTES_PER_SECOND)
    found: _Found = sandbox.run(
        f"{__name__}:read_here", plain_name(path), kind, layer, named, wanted, budget,
        name=path, limits=limits, files=files,
    )  # fmt: skip
    if found.layer is None:
        raise WhichLayer(path, layer, found.layers, how)
    check_budget(path, found.count * _FEATURE_BYTES, budget, "a layer")
    columns = tuple(
        Column(c.name, c.kind, c.values or range(c.distinct), c.codes, c.numbers)
        for c in found.columns
    )
    crs = None if found.crs is None else parse_crs(path, found.crs)
    return VectorLayer(found.layer, crs, columns, found.sizes, found.wkb)


def _of_shapefile(path: Path) -> list[Path]:
    """Return the files beside a ``.shp``; refuse links out, and what is missing."""
    there = {file.name.lower(): file for file in path.parent.iterdir()}
    beside = {end: there.get((path.stem + end).lower()) for end in _OF_SHAPEFILE}
    missing = [end for end in (".dbf", ".shx") if beside[end] is None]
    if missing:
        raise SceneError(
            f"{path}: a Shapefile is several files, {' and '.join(missing)} of it "
            f"{'is' if len(missing) == 1 else 'are'} missing; copy {path.stem}.* all together"
        )
    return [check_beside(path, file) for file in beside.values() if file]


# In the confined process


@dataclass(frozen=True)
class _FoundColumn:
    name: str
    kind: str
    distinct: int
    values: list[Any]  # empty if there are too many
    codes: NDArray[np.int32]
    numbers: NDArray[np.float64] | None


@dataclass(frozen=True)
class _Found:
    """What a file holds: its layers and, if one was found, that layer."""

    layers: list[str]
    layer: str | None = None
    count: int = 0
    crs: str | None = None
    columns: tuple[_FoundColumn, ...] = ()
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    wkb: bytes = b""


def read_here(
    path: Path, kind: str, layer: str | None, named: int, numbers: list[str], budget: int
) -> _Found:
    """Read a layer through OGR with one driver, in a confined process."""
    if kind == "GeoPackage":
        check_geopackage(path)
    driver, options = KINDS[kind]
    pyogrio = _with_driver(driver)
    try:
        return _read(pyogrio, path, layer, named, numbers, options, budget)
    except pyogrio.errors.DataSourceError as error:
        message = f"{path}: expected a sound {kind}, reading it failed ({reason(error)})"
        raise SceneError(f"{message}; export it again") from error


def _read(
    pyogrio: Any, path: Path, layer: str | None, named: int, numbers: list[str],
    options: Mapping[str, str], budget: int,
) -> _Found:  # fmt: skip
    layers = [str(name) for name, kind in pyogrio.list_layers(path) if kind is not None]
    layer = layers[0] if layer is None and len(layers) == 1 else layer
    if layer not in layers:
        return _Found(layers[:_MOST_LISTED])
    about = pyogrio.read_info(path, layer=layer, force_feature_count=True, **options)
    count = int(about["features"])
    if count * _FEATURE_BYTES > budget:
        return _Found(layers, layer, count)
    types = zip(map(str, about["fields"]), map(str, about["ogr_types"]), strict=True)
    kinds = {name: _KINDS[kind] for name, kind in types if kind in _KINDS}
    # pyogrio allocates as many features; one more finds a cut file
    meta, _, shapes, data = pyogrio.raw.read(
        path, layer=layer, columns=[*kinds][:_MOST_LISTED], force_2d=True, max_features=count + 1,
        **options,
    )  # fmt: skip
    columns = []
    for name, items in zip(map(str, meta["fields"]), data, strict=True):
        values, codes = _factorized(items)
        plain = None
        if kinds[name] != "text" and name.casefold() in numbers:
            plain = np.array(items, float)  # None is NaN
        shown = values if len(values) <= named else []
        columns.append(_FoundColumn(name, kinds[name], len(values), shown, codes, plain))
    wkb = [bytes(shape or b"") for shape in (() if shapes is None else shapes)]
    sizes = np.array([len(shape) for shape in wkb], np.int64)
    return _Found(layers, layer, len(wkb), meta["crs"], tuple(columns), sizes, b"".join(wkb))


def _with_driver(driver: str) -> Any:
    """Return pyogrio with no driver but one."""
    hidden = {n: sys.modules.get(n) for n in _UNUSED}
    sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]
    try:
        sandbox.load("pyogrio.raw")
        pyogrio = sandbox.load("pyogrio")
    finally:
        for name, module in hidden.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
    others = [name for name in pyogrio.list_drivers() if name != driver]
    if others:
        skipped = ",".join(others)
        pyogrio.set_gdal_config_options({"OGR_SKIP": skipped, "GDAL_SKIP": skipped})
        pyogrio._ogr._register_drivers()
    if set(pyogrio.list_drivers()) != {driver}:
        raise SceneError(f"this pyogrio cannot be kept to the driver {driver}; update it")
    return pyogrio


def _factorized(items: Any) -> tuple[list[Any], NDArray[np.int32]]:
    """Return the distinct values of a field that say something, and each feature's among them."""
    numbers: dict[Any, int] = {}
    codes = np.full(len(items), -1, np.int32)
    for k, item in enumerate(items.tolist()):
        if isinstance(item, str):
            item = item.strip() and item[:_LONGEST]
        empty = item is None or item == "" or (isinstance(item, float) and math.isnan(item))
        if not empty:
            codes[k] = numbers.setdefault(item, len(numbers))
        if len(numbers) > _MOST_DISTINCT:
            break
    return list(numbers), codes


# GeoPackage


def check_geopackage(path: Path) -> None:
    """Raise `SceneError` unless the tables of a GeoPackage are plain, and its edits are in it."""
    journal = path.with_name(path.name + "-wal")
    if journal.is_file() and journal.stat().st_size:
        remedy = "close the file in the program that edits it"
        raise SceneError(f"{path}: the last edits are still in {journal.name} beside it; {remedy}")
    with _opened(path) as database:
        rows = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        if "gpkg_contents" not in {str(name).lower() for kind, name, _ in rows if kind == "table"}:
            raise SceneError(f"{path}: is an SQLite database but no GeoPackage; export it as one")
        for kind, name, sql in rows:
            fields = "SELECT hidden FROM pragma_table_xinfo(?)"  # 2 and 3 are generated columns
            if kind == "view" or (
                kind == "table"
                and (
                    not _PLAIN.match(str(sql))
                    or {(2,), (3,)} & {*database.execute(fields, (str(name),))}
                )
            ):
                raise SceneError(
                    f"{path}: {str(name)[:80]!r} is a view or computed, expected plain layers and "
                    "fields; export the labels to a file of their own"
                )


def layer_style(path: Path, layer: str) -> str | None:
    """Return the style (QML) of a layer that a checked GeoPackage holds, None if there is none."""
    limits = sandbox.Limits(_STYLE_BYTES)
    style: str | None = sandbox.run(
        f"{__name__}:style_here", path.absolute(), layer, name=path, limits=limits, files=[path]
    )
    return style


def style_here(path: Path, layer: str) -> str | None:
    """Return the style of a layer, in a confined process."""
    with _opened(path) as database:
        try:
            row = database.execute(
                "SELECT styleQML FROM layer_styles WHERE f_table_name = ?"
                " ORDER BY useAsDefault DESC LIMIT 1",
                (layer,),
            ).fetchone()
        except (sqlite3.OperationalError, sqlite3.DataError):  # no such table, or too long
            return None
    return row[0] if row and isinstance(row[0], str) else None


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database to read plain tables, for a while, without touching its folder."""
    name = plain_name(path).as_uri() + "?mode=ro&immutable=1"
    end = time.thread_time() + _QUERY_SECONDS
    try:
        with closing(sqlite3.connect(name, uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            database.execute("PRAGMA trusted_schema = OFF")
            database.set_progress_handler(lambda: time.thread_time() > end, 10_000)
            yield database
    except sqlite3.Error as error:
        raise SceneError(
            f"{path}: expected a sound GeoPackage, its tables cannot be read ({reason(error)}); it "
            "is truncated or damaged, export it again"
        ) from error
