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
import numpy as np
from h5py import h5t
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import to_nm
from polyad.scene.read.formats import hdf
from polyad.scene.read.formats.cf import number, placed, text
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.hdf import Hdf5File, attributes
from polyad.scene.read.formats.opening import Opened

_GRID = "HDFEOS/GRIDS/HYP"
_ROOTS = (_GRID, "HDFEOS/SWATHS/HYP")
_FIELDS = ("Data Fields", "Data_Fields")  # both spellings are delivered
_CUBES = (
    "surface_reflectance", "toa_radiance", "ortho_surface_reflectance", "ortho_radiance",
)  # fmt: skip
_STRUCTURE = "HDFEOS INFORMATION/StructMetadata.0"
_STRUCTURE_BYTES = 2**20  # HDF-EOS writes 32000
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
    about = attributes(
        array,
        ("wavelengths", "wavelengths_units", "fwhm", "fwhm_units", "good_wavelengths",
         "_FillValue"),
    )  # fmt: skip
    count = array.shape[0]
    good = _per_band(opened, about, "good_wavelengths", count)
    fill = number(about, "_FillValue")
    source = hdf.plain_cube(opened, array, _AXES)
    return Opened.of(
        source,
        wavelength=_nanometers(opened, about, "wavelengths", count),
        fwhm=_nanometers(opened, about, "fwhm", count),
        good=None if good is None else good == 1,
        nodata=_FILL if fill is None else fill,
        **(_place(opened, source.shape[:2]) if name.startswith(_GRID) else {}),
    )


def _per_band(
    opened: Hdf5File, about: dict[str, Any], name: str, count: int
) -> NDArray[np.float64] | None:
    values = np.ravel(about.get(name, ()))
    if values.dtype.kind not in "biuf" or not values.size:
        return None
    if values.size != count:
        raise SceneError(
            f"{opened.path}: expected {count} values of '{name}', one per band, got {values.size}; "
            "the file is damaged, download it again"
        )
    return values.astype(np.float64)


def _nanometers(
    opened: Hdf5File, about: dict[str, Any], name: str, count: int
) -> NDArray[np.float64] | None:
    values = _per_band(opened, about, name, count)
    return None if values is None else to_nm(values, text(about.get(f"{name}_units", "nm")))


def _place(opened: Hdf5File, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` of a grid, as far as the file tells."""
    structure = _structure(opened)
    code = number(attributes(opened.file[_GRID], ["epsg_code"]), "epsg_code")
    if code is None and "HE5_GCTP_UTM" in structure:
        zone = re.search(r"\bZoneCode=(-?\d{1,2})\b", structure)
        code = _utm(int(zone[1])) if zone else None
    place = {"crs": None if code is None else parse_crs(opened.path, f"EPSG:{code:.0f}")}
    corners = [_point(structure, name) for name in ("UpperLeftPointMtrs", "LowerRightMtrs")]
    if None in corners:
        return place
    (west, north), (east, south) = (corner or (0.0, 0.0) for corner in corners)
    rows, cols = shape
    # HDF-EOS gives the outer corners of the first and last pixel (HE5_HDFE_GD_UL).
    step = ((east - west) / cols, (south - north) / rows)
    return place | {"transform": placed(opened.path, (west, step[0], 0.0, north, 0.0, step[1]))}


def _utm(zone: int) -> int:
    """Return the EPSG code of a zone of GCTP, which is negative in the south."""
    return 32600 + zone if zone > 0 else 32700 - zone


def _structure(opened: Hdf5File) -> str:
    """Return the text in which HDF-EOS describes its grids, empty where there is none."""
    stored = opened.file.get(_STRUCTURE)
    if not isinstance(stored, h5py.Dataset) or stored.id.get_type().get_class() != h5t.STRING:
        return ""
    kind = stored.id.get_type()
    plain = not kind.is_variable_str() and stored.shape == () and not stored.external
    if not plain or kind.get_size() > _STRUCTURE_BYTES:
        return ""
    return text(stored[()])


def _point(structure: str, name: str) -> tuple[float, float] | None:
    found = re.search(rf"\b{name}=\(([^,()]{{1,40}}),([^,()]{{1,40}})\)", structure)
    try:
        return (float(found[1]), float(found[2])) if found else None
    except ValueError:
        return None
