"""Reference systems as files state them: recognized by their form before any library sees them.

PROJ and GDAL take a great deal for a reference system: addresses that they fetch, files that they
open, strings that name a grid to be looked for on the disk. What comes out of a file may therefore
only be an authority's code or well-known text that names no grid.
"""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

from rasterio.crs import CRS
from rasterio.errors import CRSError

from polyad.errors import SceneError
from polyad.scene.read.formats.opening import gdal_alone

MAX_CHARACTERS = 100_000  # the longest in EPSG's register has under 20,000
MAX_DEPTH = 100

_CODE = re.compile(r"(?:EPSG|ESRI|OGC|IGNF|NKG|IAU(?:_\d{4})?)::?[A-Za-z0-9]{1,12}", re.I)
_URN = re.compile(
    r"urn:(?:x-)?ogc:def:crs:(EPSG|ESRI|OGC|IGNF|IAU):[\d.]*:([A-Za-z0-9]{1,12})", re.I
)
_WKT = re.compile(
    r"(?:GEOGCS|PROJCS|GEOCCS|LOCAL_CS|COMPD_CS|VERT_CS|GEOD(?:ETIC)?CRS|GEOG(?:RAPHIC)?CRS"
    r"|PROJ(?:ECTED)?CRS|ENG(?:INEERING)?CRS|BOUNDCRS|COMPOUNDCRS|DERIVEDPROJCRS|VERT(?:ICAL)?CRS)"
    r"\s*[\[(]",
    re.I,
)
# A grid is a file: in WKT 1 an extension or a PROJ string, in WKT 2 the file of a parameter.
# "@null" is no file; the spherical Mercator of web maps is written with it.
_GRIDS = re.compile(
    r"PROJ4_GRIDS|PARAMETERFILE|grids\s*=\s*(?!@null(?:[\s\"]|$))|\+init\s*=|\+file\s*=", re.I
)

# What PROJ strings within well-known text may set: nothing that PROJ looks up in a file.
_PROJ_KEYS = {
    "proj", "a", "b", "f", "rf", "es", "r", "datum", "ellps", "towgs84", "pm", "units", "to_meter",
    "vunits", "zone", "south", "lat_0", "lat_1", "lat_2", "lat_ts", "lon_0", "lon_1", "lon_2",
    "lonc", "x_0", "y_0", "k", "k_0", "alpha", "gamma", "azi", "h", "sweep", "o_proj", "o_lat_p",
    "o_lon_p", "type", "axis",
}  # fmt: skip
_NO_GRID = re.compile(r'\+nadgrids=@null(?=[\s"]|$)')
_SETTING = re.compile(r"(\w*)\s*=\s*(\w*)")
_READS_FILES = re.compile(r"tinshift|defmodel|grid|deformation|pipeline|horner", re.I)


def parse_crs(path: Path, stated: Any) -> CRS | None:
    """Return the reference system that a file states, None where it states none.

    Parameters
    ----------
    path : Path
        The file, for the message.
    stated : str or int
        Well-known text, a code such as ``EPSG:32632``, or its number.

    Raises
    ------
    SceneError
        It is anything else.

    Examples
    --------
    >>> parse_crs(Path("scene.nc"), "urn:ogc:def:crs:OGC:1.3:CRS84") is not None
    True
    >>> parse_crs(Path("scene.nc"), "EPSG:32632").to_epsg()
    32632
    >>> parse_crs(Path("scene.nc"), "/etc/hosts")
    Traceback (most recent call last):
    polyad.errors.SceneError: scene.nc: the reference system '/etc/hosts' is neither well-known ...
    """
    text = str(stated).strip().strip("\0")
    if not text:
        return None
    urn = _URN.fullmatch(text)
    code = f"{urn[1]}:{urn[2]}" if urn else text.replace("::", ":")
    is_code = _CODE.fullmatch(code) or (code.isdecimal() and len(code) <= 6)
    # How deep brackets are nested
    depth = max(accumulate((c in "[(") - (c in "])") for c in text))
    is_text = len(text) <= MAX_CHARACTERS and _WKT.match(text) and depth <= MAX_DEPTH
    if not is_code and not (is_text and _is_self_contained(text)):
        raise SceneError(
            f"{path}: the reference system {_short(text)!r} is neither well-known text nor a code "
            "such as 'EPSG:32632', or it names a file; write one of these into the file"
        )
    try:
        with gdal_alone():
            if not is_code:
                return CRS.from_wkt(text)
            return CRS.from_string(f"EPSG:{code}" if code.isdecimal() else code.upper())
    except (CRSError, ValueError) as error:
        raise SceneError(
            f"{path}: the reference system {_short(text)!r} is not known "
            f"({_short(str(error))}); write a code such as 'EPSG:32632' into the file"
        ) from error


def refuse_grids(path: Path | str, text: str) -> None:
    """Refuse well-known text that names a file, wherever it came from."""
    if not _is_self_contained(text):
        raise SceneError(
            f"{path}: the reference system {_short(text)!r} names a file; write a code such as "
            "'EPSG:32632' into the file"
        )


def _is_self_contained(text: str) -> bool:
    """Whether well-known text names no file.

    PROJ takes its own strings in several places of it, with or without a plus before each word.
    Nothing else there has an equals sign.
    """
    plain = _NO_GRID.sub("", text)
    return not _GRIDS.search(plain) and all(
        key.lower() in _PROJ_KEYS and not _READS_FILES.search(value)
        for key, value in _SETTING.findall(plain)
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= 60 else line[:57] + "..."
