"""Vector files, well-formed ones: hostile files and tests of readers begin with them."""

import struct
import warnings

import numpy as np
from affine import Affine

from polyad.scene.raster.grid import move
from polyad.scene.read.scenes import scene_from_array

UTM = "EPSG:32633"
PLACE = Affine(30.0, 0.0, 365_000.0, 0.0, -30.0, 5_809_000.0)
ENDINGS = {"GPKG": "gpkg", "ESRI Shapefile": "shp", "FlatGeobuf": "fgb", "LIBKML": "kml"}


def scene(shape=(6, 8), crs=UTM, place=PLACE, bands=3):
    values = np.random.default_rng(0).random((*shape, bands)).astype(np.float32)
    return scene_from_array(values, crs=crs, transform=place)


def point(x, y):
    return struct.pack("<BIdd", 1, 1, x, y)


def line(*corners):
    return struct.pack("<BII", 1, 2, len(corners)) + _flat(corners)


def polygon(*rings):
    body = b"".join(struct.pack("<I", len(ring)) + _flat(ring) for ring in rings)
    return struct.pack("<BII", 1, 3, len(rings)) + body


def multi(kind, *parts):
    """Several geometries in one: kind 4 of points, 5 of lines, 6 of polygons, 7 of anything."""
    return struct.pack("<BII", 1, kind, len(parts)) + b"".join(parts)


def _flat(corners):
    return b"".join(struct.pack("<dd", *xy) for xy in corners)


def at(col, row, place=PLACE):
    """The map coordinates of a place in pixels; (0.5, 0.5) is the center of the first."""
    return move(place, col, row)


def box(left, top, right, bottom, place=PLACE):
    """The ring of a rectangle given in columns and rows."""
    corners = ((left, top), (right, top), (right, bottom), (left, bottom), (left, top))
    return [at(*corner, place) for corner in corners]


def write(path, shapes, fields, *, driver="GPKG", crs=UTM, layer=None, geometry_type="Unknown"):
    """Write features with their fields, each a list of values."""
    from pyogrio.raw import write as write_layer

    data = [np.array(values, dtype=_dtype(values)) for values in fields.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no reference system
        write_layer(
            path,
            np.array([*shapes, None], dtype=object)[:-1],
            data,
            list(fields),
            geometry_type=geometry_type,
            crs=crs,
            driver=driver,
            layer=layer,
            append=path.exists(),
        )
    return path


def _dtype(values):
    return object if any(v is None or isinstance(v, str) for v in values) else None
