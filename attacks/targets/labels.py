"""Files of labels, and the reference systems in them."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import rasterio

from attacks import builders, vectors
from attacks.targets.base import Target, from_file, from_tree, open_as_labels, packed
from attacks.targets.scenes import mats, tiffs
from attacks.trees import Tree, pack


def _geojson(tree: Tree, folder: Path) -> None:
    path = folder / "labels.geojson"
    path.write_bytes(pack(tree))
    open_as_labels(path)


def _geojson_seeds() -> list[Tree]:
    ring = [[10.05, 39.95], [10.25, 39.95], [10.25, 39.75], [10.05, 39.95]]
    shapes = [
        {"type": "Point", "coordinates": [10.05, 39.95]},
        {"type": "Polygon", "coordinates": [ring]},
        {"type": "MultiPolygon", "coordinates": [[ring]]},
        {
            "type": "GeometryCollection",
            "geometries": [{"type": "Point", "coordinates": [10, 39.9]}],
        },
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    features = [
        {"type": "Feature", "properties": {"class": k, "name": "n", "color": "#4477AA"},
         "geometry": shape}
        for k, shape in enumerate(shapes, start=1)
    ]  # fmt: skip
    return [{"type": "FeatureCollection", "crs": crs, "features": features}]


_CSV = [
    b"row,col,class,name,color\n0,0,1,Corn,#4477AA\n1,2,2,Oats,#EE7733\n",
    b"lon;lat;class\n10.05;39.95;Corn\n10.15;39.85;Oats\n",
    "\ufeffx,y,class\r\n10.05,39.95,3\r\n".encode(),
]


def _pngs() -> list[bytes]:
    def write(path: Path) -> None:
        shape = {"height": 4, "width": 5, "count": 1, "dtype": "uint8"}
        with rasterio.open(path, "w", driver="PNG", **shape) as file:
            file.write((np.arange(20, dtype=np.uint8) % 3).reshape(1, 4, 5))

    return [builders.saved(write, "x.png")]


def _pam(data: bytes, folder: Path) -> None:
    (folder / "labels.tif").write_bytes(_label_tiff())
    (folder / "labels.tif.aux.xml").write_bytes(data)
    open_as_labels(folder / "labels.tif")


@functools.cache
def _label_tiff() -> bytes:
    return tiffs(1)[0]


def _pam_seeds() -> list[bytes]:
    from polyad.scene.raster.classes import ClassInfo
    from polyad.scene.write.geotiff import pam_xml

    table = [ClassInfo(1, "Corn", "#4477AA"), ClassInfo(2, "Oats", "#EE7733")]
    return [pam_xml(table).encode()]


def _crs(data: bytes, folder: Path) -> None:
    from polyad.scene.read.formats.crs import parse_crs

    parse_crs(folder / "x.nc", data.decode("utf-8", "replace"))


_CRS = [
    b"EPSG:32633",
    b"urn:ogc:def:crs:OGC:1.3:CRS84",
    b'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257]],UNIT["degree",0.0174]]',
    b'{"type":"GeographicCRS","name":"x","datum":{"type":"GeodeticReferenceFrame","name":"d",'
    b'"ellipsoid":{"name":"e","semi_major_axis":6378137,"inverse_flattening":298.2}},'
    b'"coordinate_system":{"subtype":"ellipsoidal","axis":[{"name":"Longitude","abbreviation":"lon",'
    b'"direction":"east","unit":"degree"},{"name":"Latitude","abbreviation":"lat",'
    b'"direction":"north","unit":"degree"}]}}',
]


def _wkb(data: bytes, _: Path) -> None:
    from polyad.errors import SceneError
    from polyad.scene.read.rasterize import parts_of_wkb

    try:
        parts_of_wkb(data)
    except ValueError as error:  # what its caller expects
        raise SceneError(str(error)) from error


def _wkb_seeds() -> list[bytes]:
    ring = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)]
    single = [vectors.point(1.0, 2.0), vectors.line(*ring), vectors.polygon(ring, ring)]
    return [*single, vectors.multi(7, *single), vectors.multi(6, single[2], single[2])]


def _flatgeobufs() -> list[bytes]:
    places = [vectors.point(10.05 + 0.1 * k, 39.95) for k in range(4)]

    def write(path: Path) -> None:
        fields = {"land": ["a", "b", "a", "b"]}
        kind = {"driver": "FlatGeobuf", "geometry_type": "Point"}
        vectors.write(path, places, fields, crs="EPSG:4326", **kind)

    return [builders.saved(write, "x.fgb")]


LABELS = {
    "labels-wkb": Target(_wkb_seeds, _wkb, words=(b"\x01\x07\0\0\0", b"\xff\xff\xff\x7f")),
    "labels-fgb": Target(_flatgeobufs, from_file("labels.fgb", open_as_labels)),
    "crs": Target(lambda: _CRS, _crs, words=(b"EPSG:", b"GEOGCS[", b"AUTHORITY[", b"PROJCRS[")),
    "labels-tiff": Target(lambda: tiffs(1), from_file("labels.tif", open_as_labels)),
    "labels-pam": Target(_pam_seeds, _pam, words=(b"<GDALRasterAttributeTable>", b"<F>")),
    "labels-png": Target(_pngs, from_file("labels.png", open_as_labels)),
    "labels-csv": Target(
        lambda: _CSV, from_file("labels.csv", open_as_labels), words=(b"row", b'"')
    ),
    "labels-geojson": Target(packed(_geojson_seeds), from_tree(_geojson), tree=True),
    "labels-mat": Target(mats, from_file("labels.mat", open_as_labels)),
}
