"""Labels as text, and texts in rasters, that are endless, nested, ragged or in another encoding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rasterio

from attacks.cases import BUDGET, case
from attacks.cases.opening import train, write_tiff

_NINES = "9" * 5000


def _csv(name: str, content: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "labels.csv").write_bytes(content)
        return train(folder, "labels.csv")

    make.__name__ = f"csv_{name}"
    make.__doc__ = f"CSV {name.replace('_', ' ')}: {content[:50]!r}."
    return make


for _name, _text in {
    "class_without_end": f"row,col,class\n0,0,{_NINES}\n",
    "row_without_end": f"row,col,class\n{_NINES},0,1\n",
    "id_of_many_zeros": f"row,col,class\n0,0,{'0' * 5000}1e400\n",
    "row_at_infinity": "row,col,class\ninf,nan,1\n",
    "row_of_1e300": "row,col,class\n1e300,-1e300,1\n",
    "field_of_megabytes": f'row,col,class\n0,0,"{"a" * 3_000_000}\n',
    "line_of_megabytes": "row,col,class" + ",x" * 1_000_000 + "\n0,9,1\n",
    "nul": "row,col,class\n0,0,\0\n\0",
    "nothing_but_nul": "\0" * 1000,
    "digits_of_another_script": "row,col,class\n0,0,\u0967\u0968\u0969\u096a\u096b\u096c\n",
    "superscript": "row,col,class\n0,0,\u00b2\n0,9,1\n",
    "nothing": " ",
    "many_columns_of_one_name": "row,row,col,class\n1,2,3\n",
    "position_beyond_floats": "x,y,class\n1e308,-1e308,1\n",
}.items():
    case(10, says="labels.csv")(_csv(_name, _text.encode()))

_WIDE = "row,col,class" + ",x" * 500_000 + "\n" + "0,0,1\n" * 20_000 + "0,9,1\n"
case(5, says="lies outside")(_csv("of_many_columns_and_short_lines", _WIDE.encode()))
_SHORT = "row,col,class\n" + "0,0,1\n" * 1_500_000
case(5, says="all 1 training pixels")(_csv("of_many_short_lines", _SHORT.encode()))

for _encoding in ("utf-16", "utf-32", "cp037"):
    _content = "row,col,class\n0,0,1\n".encode(_encoding)
    case(10, says="UTF-8|name the columns")(_csv(f"in_{_encoding.replace('-', '_')}", _content))


def _geojson(name: str, content: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        write_tiff(folder / "scene.tif")
        with rasterio.open(folder / "scene.tif", "r+") as file:
            file.crs = "EPSG:32633"
        (folder / "labels.geojson").write_text(content)
        return ["train", "scene.tif", "labels.geojson", "--max-bytes", str(BUDGET)]

    make.__name__ = f"geojson_{name}"
    make.__doc__ = f"GeoJSON {name.replace('_', ' ')}."
    return make


def _feature(geometry: str, value: str = "1") -> str:
    feature = '{"type": "Feature", "properties": {"class": %s}, "geometry": %s}'
    return feature % (value, geometry)


def _polygon(corners: int, size: float) -> str:
    around = np.linspace(0, 2 * np.pi, corners)
    ring = np.stack([15 + size * np.cos(around), 45.1 + size * np.sin(around)], axis=1).round(7)
    ring[-1] = ring[0]
    return json.dumps({"type": "Polygon", "coordinates": [ring.tolist()]})


_POINT = '{"type": "Point", "coordinates": [15.0005, 45.1534]}'
for _name, _text in {
    "nested_arrays": _feature('{"type": "Point", "coordinates": ' + "[" * 100_000),
    "nested_collections": _feature(
        '{"type": "GeometryCollection", "geometries": [' * 5000 + _POINT + "]}" * 5000
    ),
    "class_of_many_digits": _feature(_POINT, _NINES),
    "huge_coordinates": _feature('{"type": "Point", "coordinates": [1e308, -1e308]}'),
    "integer_coordinates_without_end": _feature(
        '{"type": "Point", "coordinates": [1%s, 2]}' % ("0" * 4000)
    ),
    "infinite_coordinates": _feature('{"type": "Point", "coordinates": [Infinity, NaN]}'),
    "ragged_coordinates": _feature('{"type": "Polygon", "coordinates": [[1, [2, 3]], "x"]}'),
    "coordinates_of_texts": _feature('{"type": "Point", "coordinates": ["1", {"a": 2}]}'),
    "features_of_nothing": '{"type": "FeatureCollection", "features": [null, 1, "x", []]}',
    "empty_polygon": _feature('{"type": "Polygon", "coordinates": []}'),
    "properties_of_nothing": '{"type": "Feature", "properties": [], "geometry": null}',
}.items():
    case(10, says="labels.geojson")(_geojson(_name, _text))

_MANY = '{"type": "MultiPoint", "coordinates": [' + "[1,2]," * 1_000_000 + "[1,2]]}"
case(5, says="a text file must be read at once")(_geojson("of_many_points", _feature(_MANY)))
for _name, _text in {
    "many_points_off_the_map": '{"type": "FeatureCollection", "features": ['
    + ",".join([_feature('{"type": "Point", "coordinates": [400, 95]}')] * 20_000)
    + "]}",
}.items():
    case(8, says="outside the scene")(_geojson(_name, _text))


# Texts in rasters


def _tags(number: int, tags: dict[str, str]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        write_tiff(folder / "labels.tif", bands=1)
        with rasterio.open(folder / "labels.tif", "r+") as file:
            file.update_tags(**tags)
            file.write(np.zeros((1, 8, 8), np.uint8))
        return train(folder, "labels.tif")

    make.__name__ = f"class_tags_{number}"
    make.__doc__ = f"GeoTIFF labels with the tags {str(tags)[:70]}."
    return make


_FIT = {"class_values": "[1, 2]", "class_names": '["a", "b"]', "class_colors": '["x", "#00FF00"]'}
for _number, _changes in enumerate([
    {"class_values": "[[1, 2], [3]]"}, {"class_values": "[1e999, 2]"}, {"class_values": "{}"},
    {"class_values": '[{"a": 1}, 2]'}, {"class_names": "[[1], [2, 3]]"}, {"class_names": "5"},
    {"class_colors": "[[1, 2], 3]"}, {"class_values": "[null, 2]"}, {"class_names": "[null, {}]"},
    {"class_values": f"[{_NINES}, 1]"}, {"class_values": "[-5, 1e18]"},
    {"class_values": "[" * 9999},
    {"flag_values": "[[1], 2]", "class_values": ""},
]):  # fmt: skip
    case(10, says="no pixel is labeled")(_tags(_number, _FIT | _changes))


def _aux(number: int, body: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        arguments = _tags(0, {})(folder)
        xml = f"<PAMDataset>{body}</PAMDataset>"
        (folder / "labels.tif.aux.xml").write_text(xml)
        return arguments

    make.__name__ = f"aux_xml_{number}"
    make.__doc__ = f".aux.xml of labels that says {body[:60]}."
    return make


_COLUMNS = "".join(f"<FieldDefn><Usage>{usage}</Usage></FieldDefn>" for usage in (5, 2, 6, 7, 8))
for _number, _row in enumerate([
    f"<F>1</F><F>a</F><F>{_NINES}</F><F>1</F><F>1</F>", f"<F>{_NINES}</F><F>a</F>",
    "<F>1e300</F><F>a</F>", "<F>-1</F><F>a</F>", "<F>inf</F><F>a</F>", "<F/><F/><F/>",
]):  # fmt: skip
    _table = f"<GDALRasterAttributeTable>{_COLUMNS}<Row>{_row}</Row></GDALRasterAttributeTable>"
    _body = f"<PAMRasterBand>{_table}</PAMRasterBand>"
    case(10, says="no pixel is labeled")(_aux(_number, _body))


@case(8, says="not well-formed")
def aux_xml_nested_deeply(folder: Path) -> list[str]:
    """.aux.xml of a million open elements."""
    arguments = _aux(0, "")(folder)
    (folder / "labels.tif.aux.xml").write_text("<a>" * 900_000)
    return arguments


@case(5, says="elements; this is another file")
def aux_xml_of_many_elements(folder: Path) -> list[str]:
    """.aux.xml of more than a million elements."""
    return _aux(0, "<a/>" * 1_000_001)(folder)
