"""No code in a file is run, no other file is opened, no address is asked."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import h5py
import rasterio

from attacks import formats
from attacks.cases import SECRET, Maker, case
from attacks.formats import XML, command, good, info, train, write_raster, write_zarr

_ADDRESS = "http://127.0.0.1:9/x"

# Pipes and links in place of a file, or of one that belongs to it


for _name in (*formats.WRITERS, "scene.zarr", "labels.nc", "model.polyad"):
    if _name not in ("scene.img", "scene.zarr"):

        @case("named pipe|unsupported|no such file|is a pipe", f"pipe_as_{_name.replace('.', '_')}")
        def _pipe(folder: Path, name: str = _name) -> list[str]:
            os.mkfifo(folder / name)
            return command(folder, name)


def _enmap(folder: Path) -> list[str]:
    return XML["enmap"][1](folder, b"<level_X/>")


def _vrt(folder: Path, name: str = "a.tif", more: str = "") -> list[str]:
    write_raster(folder / "a.tif", 1)
    (folder / "scene.vrt").write_text(
        '<VRTDataset rasterXSize="8" rasterYSize="8"><VRTRasterBand dataType="Byte" band="1">'
        f'<SimpleSource><SourceFilename relativeToVRT="1">{name}</SourceFilename>'
        f"<SourceBand>1</SourceBand></SimpleSource>{more}</VRTRasterBand></VRTDataset>"
    )
    return info("scene.vrt")


def _bands(folder: Path) -> list[str]:
    for name in ("b1.tif", "b2.tif"):
        write_raster(folder / name, 1)
    return info(".")


def _wavelength(folder: Path) -> list[str]:
    write_zarr(folder)
    write_zarr(folder, "wavelength", shape=[1], chunks=[1])
    return info("scene.zarr")


def _of(name: str) -> Maker:
    return lambda folder: good(folder, name)


_PARTS: list[tuple[Maker, str]] = [
    (_of("scene.hdr"), "scene.img"),
    (_of("scene.img"), "scene.hdr"),
    (_of("labels.tif"), "labels.tif.aux.xml"),
    *((_of("labels.shp"), f"labels.{ending}") for ending in ("dbf", "shx", "prj", "cpg")),
    (_enmap, "X-METADATA.XML"),
    (_enmap, "X-SPECTRAL_IMAGE.TIF"),
    (_vrt, "a.tif"),
    (_bands, "b2.tif"),
    (_of("scene.zarr"), "scene.zarr/cube/.zarray"),
    (_wavelength, "scene.zarr/wavelength/0"),
]
_SAYS = "leads out of the folder|symbolic link|named pipe|neither a file nor|unsupported|no data"
for _good, _part in _PARTS:
    for _how in ("link", "pipe"):

        @case(_SAYS, f"{_how}_for_{_part.replace('.', '_').replace('/', '_')}")
        def _replaced(
            folder: Path, good: Maker = _good, part: str = _part, how: str = _how
        ) -> list[str]:
            arguments = good(folder)
            (folder / part).unlink(missing_ok=True)
            if how == "pipe":
                os.mkfifo(folder / part)
            else:
                (folder / part).symlink_to(folder.parent / SECRET)
            return arguments


@case(None)
def pipes_beside_a_raster(folder: Path) -> list[str]:
    """GeoTIFF beside named pipes for overviews, masks and satellites' metadata; none is opened."""
    for ending in ("tif.ovr", "tif.msk", "RPB", "IMD", "_rpc.txt", "tab", "tif.xml", "aux"):
        os.mkfifo(folder / f"scene.{ending}")
    return good(folder, "scene.tif")


@case(None)
def style_that_links_out(folder: Path) -> list[str]:
    """GeoPackage beside a style that is a link to an outside file: it colors nothing."""
    (folder / "labels.qml").symlink_to(folder.parent / SECRET)
    return good(folder, "labels.gpkg")


@case(None)
def tiff_with_an_overview_file(folder: Path) -> list[str]:
    """GeoTIFF whose own metadata names an outside file as its overviews; it is not opened."""
    arguments = good(folder, "scene.tif")
    with rasterio.open(folder / "scene.tif", "r+") as file:
        file.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(folder.parent / SECRET))
    return arguments


# Names that a library takes for something else


@case("cannot read it as one|unsupported")
def name_of_a_driver(folder: Path) -> list[str]:
    """TIFF cut short in a folder whose name makes GDAL open another file."""
    write_raster(folder / "x.tif")
    (folder / "GTIFF_DIR:1:.." / "work").mkdir(parents=True)
    (folder / "GTIFF_DIR:1:.." / "work" / "x.tif").write_bytes(b"II*\0\x08\0\0\0")
    return info("GTIFF_DIR:1:../work/x.tif")


case("no such file", "name_in_a_file_system_of_gdal")(lambda _: info(f"/vsicurl/{_ADDRESS}.tif"))

for _label, _name in {
    "a_file_above": f"../{SECRET}",
    "an_absolute_file": "/etc/passwd",
    "an_address_of_gdal": f"/vsicurl/{_ADDRESS}.tif",
    "an_address": "https://127.0.0.1:9/a.tif",
    "a_file_in_an_archive": "/vsizip/a.zip/a.tif",
    "a_driver": f"GTIFF_DIR:1:../{SECRET}",
    "xml": "&lt;VRTDataset/&gt;",
}.items():
    case("expected files beside the VRT|no such file|another kind", f"vrt_names_{_label}")(
        lambda folder, name=_name: _vrt(folder, name)
    )

_OGR_VRT = (
    '<?xml version="1.0"?><!-- <kml --><OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>'
    f"../{SECRET}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>"
)
for _ending in ("gpkg", "shp", "fgb", "kml", "vrt", "xml"):

    @case("by its ending|reading it failed|are not read", f"vrt_called_{_ending}")
    def _called(folder: Path, name: str = f"l.{_ending}") -> list[str]:
        (folder / name).write_text(_OGR_VRT)
        return train(folder, name)


# Reference systems that would be fetched or opened if a parser took them as it takes anything

TEXTS = {
    "address": _ADDRESS,
    "remote": f"/vsicurl/{_ADDRESS}",
    "path": f"../{SECRET}",
    "init": f"+init=../{SECRET}:x",
    "grid": f"+proj=longlat +nadgrids=../{SECRET} +type=crs",
    "pipe": "pipe",
    "init-key": f'{{"type":"GeographicCRS","init":"../{SECRET}:x"}}',
    "grids-key": f'{{"type":"GeographicCRS","proj":"longlat","nadgrids":"../{SECRET}"}}',
    "escaped": '{"type":"ProjectedCRS","name":"x","conversion":{"name":"c","method":{"name":'
    f'"PROJ-based operation method: +proj=tinshift +f\\u0069le=../{SECRET}"}},"parameters":[]}}}}',
    "method": 'PROJCRS["x",CONVERSION["c",METHOD["PROJ-based operation method: proj=defmodel '
    f'model=../{SECRET}"]]]',
    "extension": 'GEOGCS["y",DATUM["d",SPHEROID["s",6378137,298]],UNIT["degree",0.0174],'
    f'EXTENSION["PROJ4","proj=longlat init=../{SECRET}:x"]]',
    "damaged": 'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",-6378137,298.3]]',
    "unknown": "EPSG:999999",
}


def _netcdf(folder: Path, text: str) -> list[str]:
    arguments = good(folder, "scene.nc")
    with h5py.File(folder / "scene.nc", "r+") as file:
        file["crs"].attrs["crs_wkt"] = text
    return arguments


def _geojson(folder: Path, text: str) -> list[str]:
    arguments = good(folder, "labels.geojson")
    path = folder / "labels.geojson"
    crs = {"type": "name", "properties": {"name": text}}
    path.write_text(json.dumps({"crs": crs} | json.loads(path.read_text())))
    return arguments


def _pam(folder: Path, text: str) -> list[str]:
    xml = f"<PAMDataset><SRS>{text}</SRS></PAMDataset>"
    (folder / "scene.tif.aux.xml").write_text(xml)
    return good(folder, "scene.tif")


def _envi(folder: Path, text: str) -> list[str]:
    return formats.write_envi(folder, f"coordinate system string = {{{text}}}\n")


def _database(folder: Path, *statements: str) -> list[str]:
    arguments = good(folder, "labels.gpkg")
    with sqlite3.connect(folder / "labels.gpkg") as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return arguments


def _gpkg(folder: Path, text: str) -> list[str]:
    quoted = text.replace("'", "''")
    return _database(
        folder,
        f"UPDATE gpkg_spatial_ref_sys SET definition = '{quoted}', organization = 'NONE', "
        "organization_coordsys_id = 100000 WHERE srs_id = 32633",
    )


_PLAIN = ("address", "remote", "path", "init", "grid", "method", "extension")
for _carrier, _kinds in (
    (_netcdf, TEXTS), (_geojson, TEXTS), (_pam, TEXTS), (_gpkg, _PLAIN), (_envi, ["extension"]),
):  # fmt: skip
    for _kind in _kinds:
        # GDAL takes no other for that of a GeoPackage, which leaves a layer without one
        _refused = _carrier is not _gpkg or _kind == "extension"
        _label = f"crs_{_kind}_in{_carrier.__name__}"

        @case("reference system" if _refused else None, _label)
        def _stated(
            folder: Path,
            carrier: Callable[[Path, str], list[str]] = _carrier,
            text: str = TEXTS[_kind],
        ) -> list[str]:
            os.mkfifo(folder / "pipe")  # to open it is to wait for good
            return carrier(folder, text)


@case("labels.shp")
def shapefile_whose_prj_is_an_address(folder: Path) -> list[str]:
    """Shapefile whose .prj is an address."""
    good(folder, "labels.shp")
    (folder / "labels.prj").write_text(_ADDRESS)
    return train(folder, "labels.shp", "--field", "none")


# Entities and links of XML

for _carrier_name, (_root, _place, _says) in XML.items():
    for _encoding in ("utf-8", "utf-16", "utf-7"):
        _text = (
            f'<?xml version="1.0" encoding="{_encoding}"?><!DOCTYPE a [<!ENTITY b SYSTEM '
            f'"../{SECRET}">]><{_root}>&b;</{_root}>'
        )
        case(_says, f"entity_{_encoding}_in_{_carrier_name}")(
            lambda folder, place=_place, text=_text, encoding=_encoding: place(
                folder, text.encode(encoding)
            )
        )

_KML = '<kml xmlns="http://www.opengis.net/kml/2.2"><Document>{}</Document></kml>'
_LINK = "<NetworkLink><Link><href>{}</href></Link></NetworkLink>"
for _label, _text in {
    "address": _LINK.format(f"{_ADDRESS}.kml"),
    "file": _LINK.format(f"../{SECRET}"),
    "style": f"<Placemark><name>a</name><styleUrl>{_ADDRESS}.kml#a</styleUrl><Point>"
    "<coordinates>15,45</coordinates></Point></Placemark>",
}.items():
    case("labels.kml", f"kml_link_to_{_label}")(
        lambda folder, text=_text: XML["kml"][1](folder, _KML.format(text).encode())
    )


# Code: databases that compute, codecs that unpickle, functions of pixels

_ENDLESS = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n) SELECT k FROM n"
for _label, _statements in {
    "an_endless_view": [f"CREATE VIEW more AS {_ENDLESS}"],
    "contents_in_a_view": [
        "ALTER TABLE gpkg_contents RENAME TO kept",
        "CREATE VIEW gpkg_contents AS SELECT * FROM kept",
    ],
    "a_layer_in_a_view": [
        "ALTER TABLE labels RENAME TO kept",
        f"CREATE VIEW labels AS SELECT fid, geom, GDAL_GetPixelValue('../{SECRET}', 1, 'pixel', 0, "
        "0) AS land FROM kept",
    ],
    "a_computed_field": [
        "ALTER TABLE labels ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(500000000)))"
    ],
    "a_virtual_table": ["CREATE VIRTUAL TABLE words USING fts5(x)"],
}.items():
    case("expected plain|no GeoPackage", f"geopackage_with_{_label}")(
        lambda folder, statements=_statements: _database(folder, *statements)
    )

_INNER = {"chunk_shape": [8, 8, 1], "index_codecs": [{"name": "bytes"}],
          "codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]}  # fmt: skip
for _label, _codecs in {
    "plugin": [{"name": "bytes"}, {"name": "numcodecs_plugin"}],
    "pickle": [{"name": "sharding_indexed", "configuration": _INNER}],
}.items():

    @case(f"packed with .*{_label}", f"zarr_codec_{_label}")
    def _codec(folder: Path, codecs: list[dict[str, object]] = _codecs) -> list[str]:
        write_zarr(folder, version=3, codecs=codecs)
        return info("scene.zarr")


@case("packed with|not allowed|version")
def zarr_pickle_beside_a_decoy(folder: Path) -> list[str]:
    """Array with a pickle filter whose zarr.json of version 3 says nothing of it."""
    place = write_zarr(folder, filters=[{"id": "pickle"}])
    write_zarr(folder, version=3)
    (place / "0.0.0").write_bytes(b"cos\nsystem\n(S'touch ../hurt'\ntR.")
    return info("scene.zarr")


@case("only puts files together")
def vrt_with_a_pixel_function(folder: Path) -> list[str]:
    """VRT with a pixel function in Python."""
    code = "<PixelFunctionCode>import os; os.system('touch owned')</PixelFunctionCode>"
    return _vrt(folder, more=f"<PixelFunctionLanguage>Python</PixelFunctionLanguage>{code}")
