"""What is looked at in a GeoPackage before GDAL opens it, and the style that QGIS keeps in it.

A GeoPackage is an SQLite database, and a database can compute: a view or a generated column runs
what its author wrote, with GDAL's own functions at hand, some of which open files. So only plain
tables are read. Names of layers and fields never become part of a statement.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from polyad import sandbox
from polyad.errors import SceneError, reason
from polyad.scene.read.formats.opening import plain_name

_STYLE_BYTES = 64 * 2**20  # of memory that reading a style takes at most
_SECONDS = 5.0  # of the processor that questions to the database may take
_LONGEST = 4 * 2**20  # bytes of one value: a style with an image in it
# A table that holds what it shows, or the index of one
_PLAIN = re.compile(
    r"CREATE TABLE\b|CREATE VIRTUAL TABLE\s+(?:\"(?:[^\"]|\"\")*\"|\w+)\s+USING\s+rtree\s*\(", re.I
)


def check_geopackage(path: Path) -> None:
    """Raise `SceneError` unless the tables of a GeoPackage are plain, and its edits are in it."""
    journal = path.with_name(path.name + "-wal")
    if journal.is_file() and journal.stat().st_size:
        raise SceneError(
            f"{path}: the last edits are still in {journal.name} beside it; close the file in the "
            "program that edits it"
        )
    with _opened(path) as database:
        rows = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        tables = {str(name).lower() for kind, name, _ in rows if kind == "table"}
        if "gpkg_contents" not in tables:
            raise SceneError(f"{path}: is an SQLite database but no GeoPackage; export it as one")
        for kind, name, sql in rows:
            if kind == "view" or (kind == "table" and not _PLAIN.match(str(sql))):
                raise SceneError(
                    f"{path}: {str(name)[:80]!r} is a view or a computed table, wanted plain "
                    "layers; export the labels to a file of their own"
                )
            if kind == "table" and _computes(database, str(name)):
                raise SceneError(
                    f"{path}: {str(name)[:80]!r} has a computed field, wanted plain ones; export "
                    "the labels to a file of their own"
                )


def _computes(database: sqlite3.Connection, table: str) -> bool:
    """Whether a table has generated columns, which SQLite marks as hidden in its own way."""
    hidden = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
    return any(number in (2, 3) for (number,) in hidden)


def layer_style(path: Path, layer: str) -> str | None:
    """Return the style (QML) of a layer that a checked GeoPackage holds, None if there is none."""
    function, limits = f"{__name__}:style_here", sandbox.Limits(_STYLE_BYTES)
    style: str | None = sandbox.run(
        function, path.absolute(), layer, name=path, limits=limits, files=[path]
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
    end = time.thread_time() + _SECONDS
    try:
        with closing(sqlite3.connect(name, uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            database.execute("PRAGMA trusted_schema = OFF")
            database.set_progress_handler(lambda: time.thread_time() > end, 10_000)
            yield database
    except sqlite3.Error as error:
        raise SceneError(
            f"{path}: wanted a sound GeoPackage, its tables cannot be read ({reason(error)}); it "
            "is truncated or damaged, export it again"
        ) from error
