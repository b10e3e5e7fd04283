"""The files beside a raster that belong to it: GDAL's ``.aux.xml`` and world files.

Both are read here, not by GDAL, which would fetch an address that stands where a reference system
should and open every file that an ``.aux.xml`` names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.parsers import expat

from affine import Affine
from rasterio.errors import CRSError

from polyad.errors import SceneError, reason
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.read.formats.crs import parse_crs, refuse_grids
from polyad.scene.read.formats.opening import check_beside

MAX_ELEMENTS = 1_000_000  # elements and attributes, each of which takes about 100 bytes
_PAM_BYTES = 4 * 2**20  # a table of 65535 classes needs less
_WORLD_BYTES = 4096  # six numbers


def read_pam(path: Path) -> ET.Element | None:
    """Return the root of ``<path>.aux.xml``, None where there is none."""
    side = path.with_name(path.name + ".aux.xml")
    if not side.exists():
        return None
    return read_xml(check_beside(path, side), "GDAL's auxiliary metadata", _PAM_BYTES)


def georeference(path: Path, dataset: Any) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` of an open raster, None each where it has none.

    In GDAL's order: the ``.aux.xml``, the raster itself, the world file.
    """
    pam = read_pam(path)
    stated, numbers = None, list[float]()
    if pam is not None:
        stated, numbers = pam.findtext("SRS"), _floats(pam.findtext("GeoTransform", ""))
    crs = None if stated is None else parse_crs(path, stated)
    own = own_georeference(path, dataset) if crs is None or len(numbers) != 6 else {}
    crs = own["crs"] if crs is None else crs
    transform = Affine.from_gdal(*numbers) if len(numbers) == 6 else own["transform"]
    transform = transform or _world_file(path)
    if transform is None and crs is not None:
        transform = dataset.transform
    if transform is not None:
        guards.check_place(path, transform)
    return {"crs": crs, "transform": transform}


def own_georeference(path: Path | str, dataset: Any) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` of the raster itself, None each where it has none."""
    try:
        crs = dataset.crs
        if crs is not None:
            refuse_grids(path, crs.to_wkt())
    except (CRSError, UnicodeError) as error:
        raise SceneError(
            f"{path}: its reference system cannot be read ({reason(error)}); write a code such as "
            "'EPSG:32632' into the file"
        ) from error
    # GDAL gives the identity for "no georeference"; its origin and size are never a real map.
    none = dataset.transform == Affine.identity()
    return {"crs": crs, "transform": None if none else dataset.transform}


def band_metadata(pam: ET.Element | None) -> dict[int, dict[str, dict[str, str]]]:
    """Return the band metadata of an ``.aux.xml``: number -> domain ("" is the usual) -> tags."""
    bands: dict[int, dict[str, dict[str, str]]] = {}
    for band in () if pam is None else pam.iterfind("PAMRasterBand"):
        number = band.get("band", "")
        if not (number.isdecimal() and len(number) <= 6):
            continue
        for metadata in band.iterfind("Metadata"):
            tags = {item.get("key", ""): item.text or "" for item in metadata.iterfind("MDI")}
            domains = bands.setdefault(int(number), {})
            domains.setdefault(metadata.get("domain", ""), {}).update(tags)
    return bands


def _world_file(path: Path) -> Affine | None:
    """Return the transform in the six numbers of a ``.tfw`` (``.pgw``, ``.wld``)."""
    ending = path.suffix[1:]
    for name in (f"{ending[0]}{ending[-1]}w", f"{ending}w", "wld") if ending else ():
        for side in (path.with_suffix(f".{name.lower()}"), path.with_suffix(f".{name.upper()}")):
            if not side.exists():
                continue
            with open_regular(check_beside(path, side)) as file:
                numbers = _floats(file.read(_WORLD_BYTES).decode("latin-1"))
            if len(numbers) == 6:
                a, d, b, e, x, y = numbers  # x and y are the center of the first pixel
                return Affine(a, b, x - (a + b) / 2, d, e, y - (d + e) / 2)
    return None


def _floats(text: str) -> list[float]:
    try:
        return [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        return []


# XML: without entities, in one encoding, and bounded


def read_xml(
    path: Path, what: str, max_bytes: int, doctype: re.Pattern[str] | None = None
) -> ET.Element:
    """Return the root element of a small XML file.

    The text is decoded here, as UTF-8 whatever it declares. A DOCTYPE is refused: without one there
    are no entities, which can grow without bound. Names stay as they are written, prefix and all:
    put in full, each would repeat its namespace.

    Parameters
    ----------
    path : Path
    what : str
        What it should be, for messages.
    max_bytes : int
        Of the file.
    doctype : pattern, optional
        Of a DOCTYPE that declares nothing and is cut out, once; any other is refused.
    """
    text = read_text(path, what, max_bytes)
    return parse_xml(path, text if doctype is None else doctype.sub("", text, count=1), what)


def read_text(path: Path, what: str, max_bytes: int) -> str:
    """Return the text of a small XML file, not yet looked at."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # reading asks for the memory of all it may get
        content = file.read(min(size, max_bytes) + 1)
    if len(content) > max_bytes:
        most = guards.human_bytes(max_bytes)
        raise SceneError(f"{path}: expected {what} of at most {most}, got more; it is another file")
    return content.decode("utf-8-sig", errors="replace")


def parse_xml(path: Path, text: str, what: str) -> ET.Element:
    """Return the root element of XML that stands in a file; see `read_xml`."""
    if (elements := text.count("<") + text.count("=")) > MAX_ELEMENTS:
        raise SceneError(f"{path}: expected {what}, got {elements:,} elements; it is another file")
    parser, builder = expat.ParserCreate(), ET.TreeBuilder()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, ValueError) as error:
        message = f"expected {what}, it is not well-formed XML ({reason(error)})"
        raise SceneError(f"{path}: {message}; remove it or copy it again") from error


def _refuse(*_: object) -> None:
    raise ValueError("it has a DOCTYPE")
