"""What cannot be used fails with one clear message, without control characters."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rasterio

from attacks.cases import EITHER, case
from attacks.cases.sizes import image, tiff
from attacks.formats import CSV, WRITERS, XML, command, good, info, train, write_envi

_NINES = "9" * 5000

# Files of every format that are cut short, mostly zeros, or noise

_NOISE = np.random.default_rng(0).bytes(300)
_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "zeros": lambda content: content[:100] + bytes(max(0, len(content) - 100)),
    "noise": lambda content: content[:16] + _NOISE,
}
for _name, _change in itertools.product(WRITERS, _CHANGES):
    if _name == "scene.zarr" or (_name, _change) == ("labels.shp", "zeros"):  # warns as well
        continue
    # Headers of text may be read without their end, and arrays hold any number
    _textual = _name in ("labels.csv", "scene.hdr", "scene.img")
    _loose = _textual or _change in ("zeros", "noise")

    @case(EITHER if _loose else r"(scene|labels)\.", f"{_name.replace('.', '_')}_{_change}")
    def _damaged(folder: Path, name: str = _name, change: str = _change) -> list[str]:
        arguments, path = good(folder, name), folder / name
        path.write_bytes(_CHANGES[change](path.read_bytes()))
        return arguments


# Texts that say what cannot be


def _feature(kind: str, coordinates: str, value: str = "1") -> str:
    place = f'{{"type": "{kind}", "coordinates": {coordinates}}}'
    return f'{{"type": "Feature", "properties": {{"class": {value}}}, "geometry": {place}}}'


_COLLECTION = '{"type": "GeometryCollection", "geometries": ['
_TEXTS: dict[str, dict[str, str | bytes]] = {
    "labels.csv": {
        "class_without_end": f"row,col,class\n0,0,{_NINES}\n",
        "row_without_end": f"row,col,class\n{_NINES},0,1\n",
        "id_of_many_zeros": f"row,col,class\n0,0,{'0' * 5000}1e400\n",
        "row_at_infinity": "row,col,class\ninf,nan,1\n",
        "row_of_1e300": "row,col,class\n1e300,-1e300,1\n",
        "field_of_megabytes": f'row,col,class\n0,0,"{"a" * 3_000_000}\n',
        "line_of_megabytes": "row,col,class" + ",x" * 1_000_000 + "\n0,9,1\n",
        "nul": "row,col,class\n0,0,\0\n\0",
        "digits_of_another_script": "row,col,class\n0,0,\u0967\u0968\u0969\u096a\u096b\u096c\n",
        "superscript": "row,col,class\n0,0,\u00b2\n0,9,1\n",
        "many_columns_of_one_name": "row,row,col,class\n1,2,3\n",
        "position_beyond_floats": "x,y,class\n1e308,-1e308,1\n",
        **{e.replace("-", "_"): CSV.encode(e) for e in ("utf-16", "utf-32", "cp037")},
    },
    "labels.geojson": {
        "nested_arrays": _feature("Point", "[" * 100_000),
        "nested_collections": _COLLECTION * 5000 + "]}" * 5000,
        "class_of_many_digits": _feature("Point", "[15.0005, 45.1534]", _NINES),
        "huge_coordinates": _feature("Point", "[1e308, -1e308]"),
        "integer_coordinates_without_end": _feature("Point", f"[1{'0' * 4000}, 2]"),
        "infinite_coordinates": _feature("Point", "[Infinity, NaN]"),
        "ragged_coordinates": _feature("Polygon", '[[1, [2, 3]], "x"]'),
        "coordinates_of_texts": _feature("Point", '["1", {"a": 2}]'),
        "features_of_nothing": '{"type": "FeatureCollection", "features": [null, 1, "x", []]}',
        "empty_polygon": _feature("Polygon", "[]"),
        "properties_of_nothing": '{"type": "Feature", "properties": [], "geometry": null}',
    },
}
for _name, _texts in _TEXTS.items():
    for _label, _content in _texts.items():

        @case("labels.|UTF-8|name the columns", f"{_name.replace('.', '_')}_of_{_label}")
        def _text(folder: Path, name: str = _name, content: str | bytes = _content) -> list[str]:
            raw = content.encode() if isinstance(content, str) else content
            (folder / name).write_bytes(raw)
            return train(folder, name)


# Headers


def _npy_header(shape: str = "(2,2,2)", descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


for _label, _header in {
    "nested": "(" * 60_000,
    "objects": _npy_header(descr="'|O'"),
    "wide": _npy_header(descr="'<U1000000000'"),
    "endless": _npy_header(f"({_NINES},1,1)"),
    "powers": _npy_header("(9**9**9,1,1)"),
    "record": _npy_header(descr="[('a', '<f8', (1000000, 1000))]"),
}.items():
    for _name in ("scene.npy", "labels.npy"):

        @case(
            "expected|declares|holds pickled|needs three|2-D raster", f"{_name[:-4]}_npy_{_label}"
        )
        def _npy(folder: Path, name: str = _name, header: str = _header) -> list[str]:
            arguments = command(folder, name)
            head = b"\x93NUMPY\1\0" + struct.pack("<H", len(header))
            (folder / name).write_bytes(head + header.encode() + bytes(64))
            return arguments


for _label, _lines, _more, _says in (
    ("pixels_without_size", "4", "map info = {UTM, 1, 1, 5e5, 4e6, 0, 0, 33, North, WGS-84}",
     "pixel size other than 0"),
    ("a_nested_reference_system", "4",
     "coordinate system string = {" + 'PROJCS["a",' * 8000 + "}", None),
    ("lines_without_end", _NINES, "", "whole number"),
):  # fmt: skip
    case(_says, f"envi_of_{_label}")(
        lambda folder, more=_more, lines=_lines: write_envi(folder, more, lines)
    )


@case("finite")
def tiff_at_infinity(folder: Path) -> list[str]:
    """GeoTIFF whose pixel size is infinite."""
    double, place = 12, 2048
    head = tiff(image((33550, double, 3, place), (33922, double, 6, place + 24)))
    numbers = struct.pack("<9d", np.inf, 1, 0, 0, 0, 0, 1, 1, 0)
    (folder / "scene.tif").write_bytes((head.ljust(place, b"\0") + numbers).ljust(10**4, b"\0"))
    return info("scene.tif")


# Tables of classes in the tags of a raster and beside it

_FIT = {"class_values": "[1, 2]", "class_names": '["a", "b"]', "class_colors": '["x", "#00FF00"]'}
for _number, _tags in enumerate([
    {"class_values": "[[1, 2], [3]]"}, {"class_values": "[1e999, 2]"}, {"class_values": "{}"},
    {"class_values": '[{"a": 1}, 2]'}, {"class_names": "[[1], [2, 3]]"}, {"class_names": "5"},
    {"class_colors": "[[1, 2], 3]"}, {"class_values": "[null, 2]"}, {"class_names": "[null, {}]"},
    {"class_values": f"[{_NINES}, 1]"}, {"class_values": "[-5, 1e18]"},
    {"class_values": "[" * 9999}, {"flag_values": "[[1], 2]", "class_values": ""},
]):  # fmt: skip

    @case(None, f"class_tags_{_number}")
    def _class_tags(folder: Path, tags: dict[str, str] = _FIT | _tags) -> list[str]:
        arguments = good(folder, "labels.tif")
        with rasterio.open(folder / "labels.tif", "r+") as file:
            file.update_tags(**tags)
        return arguments


_COLUMNS = "".join(f"<FieldDefn><Usage>{usage}</Usage></FieldDefn>" for usage in (5, 2, 6, 7, 8))
for _number, _row in enumerate([
    f"<F>1</F><F>a</F><F>{_NINES}</F><F>1</F><F>1</F>", f"<F>{_NINES}</F><F>a</F>",
    "<F>1e300</F><F>a</F>", "<F>-1</F><F>a</F>", "<F>inf</F><F>a</F>", "<F/><F/><F/>",
]):  # fmt: skip
    _table = f"<GDALRasterAttributeTable>{_COLUMNS}<Row>{_row}</Row></GDALRasterAttributeTable>"
    _xml = f"<PAMDataset><PAMRasterBand>{_table}</PAMRasterBand></PAMDataset>"
    case(None, f"class_table_{_number}")(
        lambda folder, xml=_xml: XML["aux_xml"][1](folder, xml.encode())
    )


case("no such file", "name_with_escape_sequences")(
    lambda _: ["info", "scene\x1b[2J\x1b]0;title\x07.tif"]
)
