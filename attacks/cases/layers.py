"""Vector files that compute, lead elsewhere, lie about their sizes or are something else."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import rasterio

from attacks.cases import BUDGET, SECRET, case
from attacks.cases.opening import write_tiff
from attacks.cases.references import TEXTS
from attacks.vectors import point, write

_PLACES = [(500_015.0, 4_999_985.0), (500_105.0, 4_999_895.0)] * 2
_KML = (
    '<?xml version="1.0" encoding="UTF-8"?>{}<kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
    "{}</Document></kml>"
)
_MARK = "<Placemark><name>a</name>{}<Point><coordinates>15,45</coordinates></Point></Placemark>"


def _train(folder: Path, labels: str, *options: str) -> list[str]:
    write_tiff(folder / "scene.tif")
    with rasterio.open(folder / "scene.tif", "r+") as file:
        file.crs = "EPSG:32633"
    return ["train", "scene.tif", labels, *options, "--max-bytes", str(BUDGET)]


def _layer(folder: Path, name: str, driver: str) -> Path:
    shapes = [point(*xy) for xy in _PLACES]
    fields = {"land": ["a", "b", "a", "b"]}
    return write(folder / name, shapes, fields, driver=driver, geometry_type="Point")


# Databases that compute


def _geopackage(name: str, *statements: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        database = sqlite3.connect(_layer(folder, "labels.gpkg", "GPKG"))
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.close()
        return _train(folder, "labels.gpkg", "--epochs", "2", "--out", "m.polyad")

    make.__name__ = f"geopackage_{name}"
    make.__doc__ = f"GeoPackage {name.replace('_', ' ')}."
    return make


_ENDLESS = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n) SELECT k FROM n"
for _name, _statements in {
    "with_an_endless_view": (f"CREATE VIEW more AS {_ENDLESS}",),
    "whose_contents_are_a_view": (
        "ALTER TABLE gpkg_contents RENAME TO kept",
        "CREATE VIEW gpkg_contents AS SELECT * FROM kept",
    ),
    "whose_layer_is_a_view": (
        "ALTER TABLE labels RENAME TO kept",
        f"CREATE VIEW labels AS SELECT fid, geom, GDAL_GetPixelValue('../{SECRET}', 1, 'pixel', 0, "
        "0) AS land FROM kept",
    ),
    "with_a_computed_field": (
        "ALTER TABLE labels ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(500000000)))",
    ),
    "with_a_virtual_table": ("CREATE VIRTUAL TABLE words USING fts5(x)",),
}.items():
    case(9, says="wanted plain|no GeoPackage")(_geopackage(_name, *_statements))

for _kind in ("address", "remote", "path", "init", "grid", "method", "extension"):
    _text = TEXTS[_kind].replace("'", "''")
    # GDAL takes none of them, which leaves a layer without a reference system
    case(1, says="the reference system" if _kind == "extension" else None)(
        _geopackage(
            f"with_a_reference_system_of_{_kind}",
            f"UPDATE gpkg_spatial_ref_sys SET definition = '{_text}', organization = 'NONE', "
            "organization_coordsys_id = 100000 WHERE srs_id = 32633",
        )
    )


@case(10, says="there is no layer")
def layer_that_is_sql(folder: Path) -> list[str]:
    """A layer that is called as a statement is written."""
    _layer(folder, "labels.gpkg", "GPKG")
    return _train(folder, "labels.gpkg", "--layer", 'labels"; DROP TABLE labels; --')


@case(10, says="there is no field")
def field_that_is_sql(folder: Path) -> list[str]:
    """A field that is called as an expression is written."""
    _layer(folder, "labels.gpkg", "GPKG")
    return _train(folder, "labels.gpkg", "--field", "(SELECT sql FROM sqlite_master)")


@case(10, says="is an SQLite database but no GeoPackage")
def database_of_nothing(folder: Path) -> list[str]:
    """SQLite database that is no GeoPackage."""
    with sqlite3.connect(folder / "labels.gpkg") as database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    return _train(folder, "labels.gpkg")


# Files that are something else, or lead elsewhere


def _called(name: str, content: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / name).write_text(content)
        return _train(folder, name)

    make.__name__ = f"vrt_called_{name.rpartition('.')[2]}"
    make.__doc__ = f"List of other files that OGR would open, called {name}."
    return make


_VRT = (
    '<?xml version="1.0"?><!-- <kml --><OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>'
    f"../{SECRET}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>"
)
for _ending in ("gpkg", "shp", "fgb", "kml", "vrt", "xml"):
    case(2, says="by its ending|reading it failed|are not read")(_called(f"l.{_ending}", _VRT))

for _ending in (".dbf", ".shx", ".prj", ".cpg"):

    def _linked(folder: Path, ending: str = _ending) -> list[str]:
        path = _layer(folder, "labels.shp", "ESRI Shapefile").with_suffix(ending)
        path.unlink(missing_ok=True)
        path.symlink_to(folder.parent / SECRET)
        return _train(folder, "labels.shp")

    _linked.__name__ = f"shapefile_whose_{_ending[1:]}_links_out"
    _linked.__doc__ = f"Shapefile whose {_ending} is a link to an outside file."
    case(9, says="leads out of the folder")(_linked)


@case(9, says="is a named pipe")
def shapefile_beside_a_pipe(folder: Path) -> list[str]:
    """Shapefile whose .prj is a named pipe."""
    path = _layer(folder, "labels.shp", "ESRI Shapefile").with_suffix(".prj")
    path.unlink()
    os.mkfifo(path)
    return _train(folder, "labels.shp")


@case(1, says="labels.shp")
def shapefile_whose_prj_is_an_address(folder: Path) -> list[str]:
    """Shapefile whose .prj is an address."""
    path = _layer(folder, "labels.shp", "ESRI Shapefile")
    path.with_suffix(".prj").write_text("http://127.0.0.1:9/x")
    return _train(folder, "labels.shp", "--field", "none")


@case(9, says=None)
def style_that_links_out(folder: Path) -> list[str]:
    """GeoPackage beside a style that is a link to an outside file: it colors nothing."""
    path = _layer(folder, "labels.gpkg", "GPKG")
    path.with_suffix(".qml").symlink_to(folder.parent / SECRET)
    return [*_train(folder, "labels.gpkg"), "--epochs", "2", "--out", "m.polyad"]


def _style(name: str, text: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        path = _layer(folder, "labels.gpkg", "GPKG")
        path.with_suffix(".qml").write_text(text)
        return [*_train(folder, "labels.gpkg"), "--epochs", "2", "--out", "m.polyad"]

    make.__name__ = f"style_{name}"
    make.__doc__ = f"Style of QGIS {name.replace('_', ' ')}: it colors nothing."
    return make


_LAUGHS = "<!DOCTYPE qgis [<!ENTITY a 'aaaaaaaaaa'>{}]><qgis>&i;</qgis>".format(
    "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
)
for _name, _text in {
    "of_entities": _LAUGHS,
    "that_names_a_file": f"<!DOCTYPE qgis [<!ENTITY x SYSTEM '../{SECRET}'>]><qgis>&x;</qgis>",
    "of_many_elements": "<qgis>" + "<a/>" * 1_000_000 + "</qgis>",
    "of_megabytes": "<qgis>" + "a" * 5_000_000 + "</qgis>",
}.items():
    case(8, says=None)(_style(_name, _text))


def _kml(name: str, text: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "labels.kml").write_text(text)
        return _train(folder, "labels.kml")

    make.__name__ = f"kml_{name}"
    make.__doc__ = f"KML {name.replace('_', ' ')}."
    return make


_LINK = "<NetworkLink><Link><href>{}</href></Link></NetworkLink>"
for _name, _text in {
    "of_a_link_to_an_address": _KML.format("", _LINK.format("http://127.0.0.1:9/x.kml")),
    "of_a_link_to_a_file": _KML.format("", _LINK.format(f"../{SECRET}")),
    "with_a_style_elsewhere": _KML.format(
        "", _MARK.format("<styleUrl>http://127.0.0.1:9/x.kml#a</styleUrl>")
    ),
    "of_entities": _KML.format(_LAUGHS.split("<qgis>")[0].replace("qgis", "kml"), "&i;"),
    "that_names_a_file": _KML.format(
        f"<!DOCTYPE kml [<!ENTITY x SYSTEM '../{SECRET}'>]>",
        "<Placemark><name>&x;</name></Placemark>",
    ),
    "nested_deeply": _KML.format("", "<Folder>" * 100_000 + "</Folder>" * 100_000),
    "cut_short": _KML.format("", _MARK)[:-60],
}.items():
    case(8, says="labels.kml")(_kml(_name, _text))


# Sizes that are not so


def _changed(
    name: str,
    driver: str,
    ending: str,
    change: Callable[[bytes], bytes],
    says: str | None = "labels",
) -> None:
    def make(folder: Path) -> list[str]:
        path = _layer(folder, f"labels.{ending}", driver)
        path.write_bytes(change(path.read_bytes()))
        return _train(folder, path.name, "--epochs", "2", "--out", "m.polyad")

    make.__name__ = name
    make.__doc__ = name.replace("_", " ").capitalize() + "."
    case(5, says=says)(make)


_HUGE = (2**31 - 1).to_bytes(4, "big")
_changed("shapefile_of_records_without_end", "ESRI Shapefile", "shp",
         lambda b: b[:104] + _HUGE + b[108:], says=None)  # fmt: skip
_changed("shapefile_of_another_kind", "ESRI Shapefile", "shp",
         lambda b: b[:32] + b"\x1f\0\0\0" + b[36:108] + b"\x1f\0\0\0" + b[112:])  # fmt: skip
_changed("flatgeobuf_with_a_header_without_end", "FlatGeobuf", "fgb",
         lambda b: b[:8] + b"\xff\xff\xff\x7f" + b[12:])  # fmt: skip
_changed("flatgeobuf_of_zeros", "FlatGeobuf", "fgb", lambda b: b[:12] + bytes(len(b) - 12))
_changed("flatgeobuf_cut_short", "FlatGeobuf", "fgb", lambda b: b[: len(b) // 2])
_changed("geopackage_cut_short", "GPKG", "gpkg", lambda b: b[: len(b) // 2])
_changed("geopackage_of_zeros", "GPKG", "gpkg", lambda b: b[:100] + bytes(len(b) - 100))


@case(5, says="must be read at once")
def layer_of_many_features(folder: Path) -> list[str]:
    """FlatGeobuf of more features than the budget holds."""
    n = 500_000
    write(folder / "labels.fgb", [point(500_015.0, 4_999_985.0)] * n, {"land": [1] * n},
          driver="FlatGeobuf", geometry_type="Point")  # fmt: skip
    return _train(folder, "labels.fgb")
