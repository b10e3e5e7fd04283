"""Center, width and flag of a band, from the tags and the name that GDAL's formats give it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.scene.raster.sources import nm_factor, to_nm

# "0.4 Micrometers", "band 3 (550.2 nm)": how other programs name bands.
_NAMED = re.compile(r"([\d.]+)\s*\(?(nanomet(?:er|re)s?|micromet(?:er|re)s?|nm|[uµμ]m)\b", re.I)

Facts = tuple[float | None, float | None, bool | None]


def band_facts(
    tags: Mapping[str, str], imagery: Mapping[str, str], description: str | None
) -> Facts:
    """Return center and width of a band in nm, and whether it is good; None where untold.

    Parameters
    ----------
    tags, imagery : mapping of str to str
        Of the usual domain, and of IMAGERY, where GDAL >= 3.10 keeps micrometers.
    description : str, optional
        The band's name.

    Examples
    --------
    >>> band_facts({"wavelength": "0.55", "wavelength_units": "um", "bbl": "0"}, {}, None)
    (550.0, None, False)
    >>> band_facts({}, {}, "band 3 (550.2 nm)")
    (550.2, None, None)
    """
    tags = {k.lower(): v for k, v in tags.items()}  # ENVI turned into TIFF has plain tags
    named = _NAMED.search(description or "")
    units = tags.get("wavelength_units") or tags.get("wavelength_unit")
    center = _first_nm(
        (tags.get("wavelength"), units),
        (imagery.get("CENTRAL_WAVELENGTH_UM"), "um"),
        (named[1], named[2]) if named else (None, None),
    )
    # A width shares the unit of its center, also where that unit has to be guessed
    scale = nm_factor(np.array([_number(tags.get("wavelength")) or np.nan]), units)
    width = _number(tags.get("fwhm"))
    widths = _first_nm((imagery.get("FWHM_UM"), "um"))
    flag = _number(tags.get("bbl"))
    return (
        center,
        widths if width is None else round(width * scale, 6),
        None if flag is None else flag != 0,
    )


def columns(told: Sequence[Facts]) -> dict[str, NDArray[Any]]:
    """Return ``wavelength``, ``fwhm`` and ``good`` of all bands, as far as they tell.

    Centers and widths are of use only if every band tells its own; a band is good unless it tells
    that it is not.

    Examples
    --------
    >>> columns([(550.0, None, None), (560.0, 9.0, False)])
    {'wavelength': array([550., 560.]), 'good': array([ True, False])}
    """
    wavelength, fwhm, good = zip(*told, strict=True)
    all_told = {"wavelength": wavelength, "fwhm": fwhm}
    known = {name: np.array(v) for name, v in all_told.items() if None not in v}
    if any(flag is not None for flag in good):
        known["good"] = np.array([flag is not False for flag in good])
    return known


def _first_nm(*stated: tuple[str | None, str | None]) -> float | None:
    """Return the first of some values with their units that is a number, in nm."""
    for text, unit in stated:
        value = _number(text)
        if value is not None:
            return float(to_nm([value], unit)[0])
    return None


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
