"""Planet Tanager: one cube of all bands in an HDF-EOS5 grid (ortho) or swath (basic).

Layout: ``surface_reflectance`` or ``toa_radiance`` (bands, rows, columns) beside its uncertainty
and masks; the attributes of the cube list ``wavelengths``, ``fwhm`` and ``good_wavelengths``. The
place of a grid stands in ``StructMetadata.0``, a text of HDF-EOS, and as ``epsg_code`` of the grid.
A swath is in sensor geometry and has no place on a map.
"""

from __future__ import annotations

import re
from typing import Any

import h5py
from h5py import h5t

from polyad.scene.raster import guards
from polyad.scene.raster.sources import to_nm
from polyad.scene.read.formats import cf, hdf
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.hdf import Hdf5File
from polyad.scene.read.formats.opening import Opened

_GRID = "HDFEOS/GRIDS/HYP"
_ROOTS = (_GRID, "HDFEOS/SWATHS/HYP")
_FIELDS = ("Data Fields", "Data_Fields")  # both spellings are delivered
_CUBES = (
    "surface_reflectance", "toa_radiance", "ortho_surface_reflectance", "ortho_radiance",
)  # fmt: skip
_STRUCTURE = "HDFEOS INFORMATION/StructMetadata.0"
_CORNER = r"\b{}=\(([-+.\deE]{{1,40}}),([-+.\deE]{{1,40}})\)"
_AXES = (1, 2, 0)  # of rows, columns and bands in the file
_FILL = -9999.0


def is_tanager(opened: Hdf5File) -> bool:
    """Return whether an open HDF5 file has the layout of Tanager."""
    return _cube(opened) is not None


def _cube(opened: Hdf5File) -> str | None:
    names = (f"{root}/{f}/{name}" for root in _ROOTS for f in _FIELDS for name in _CUBES)
    return next((n for n in names if n in opened.cubes), None)


def open_tanager(opened: Hdf5File, key: str | None) -> Opened:
    """Open a Tanager scene: reflectance or radiance, bad bands left out."""
    path = opened.path
    name = key or _cube(opened) or ""
    array = hdf.find(opened, name)
    guards.check_shape(path, array.shape)
    columns = ("wavelengths", "fwhm", "good_wavelengths")
    about = hdf.attributes(array, (*columns, "wavelengths_units", "fwhm_units", "_FillValue"))
    centers, widths, good = (
        hdf.numbers(path, name, about.get(name), array.shape[0]) for name in columns
    )
    units = [cf.text(about.get(f"{name}_units", "nm")) for name in columns[:2]]
    fill = cf.number(about, "_FillValue")
    source = hdf.plain_cube(opened, array, _AXES)
    return Opened.of(
        source,
        wavelength=None if centers is None else to_nm(centers, units[0]),
        fwhm=None if widths is None else to_nm(widths, units[1]),
        good=None if good is None else good == 1,
        nodata=_FILL if fill is None else fill,
        **(_place(opened, source.shape[:2]) if name.startswith(_GRID) else {}),
    )


def _place(opened: Hdf5File, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` of a grid, as far as the file tells."""
    stored = opened.file.get(_STRUCTURE)
    structure = ""
    if isinstance(stored, h5py.Dataset) and stored.id.get_type().get_class() == h5t.STRING:
        structure = cf.text(hdf.dataset(opened.path, opened.file, _STRUCTURE)[()])
    code = cf.number(hdf.attributes(opened.file[_GRID], ["epsg_code"]), "epsg_code")
    zone = re.search(r"\bZoneCode=(-?\d{1,2})\b", structure)
    if code is None and zone and "HE5_GCTP_UTM" in structure:
        number = int(zone[1])  # of GCTP, negative in the south
        code = 32600 + number if number > 0 else 32700 - number
    place = {"crs": None if code is None else parse_crs(opened.path, f"EPSG:{code:.0f}")}
    # HDF-EOS gives the outer corners of the first and last pixel (HE5_HDFE_GD_UL).
    first = re.search(_CORNER.format("UpperLeftPointMtrs"), structure)
    last = re.search(_CORNER.format("LowerRightMtrs"), structure)
    if first is None or last is None:
        return place
    (west, north), (east, south) = (map(float, corner.groups()) for corner in (first, last))
    dx, dy = (east - west) / shape[1], (south - north) / shape[0]
    return place | {"transform": cf.placed(opened.path, (west, dx, 0.0, north, 0.0, dy))}
