"""From the source of a QGIS raster layer to the file that `polyad` opens; nothing of QGIS here."""

from __future__ import annotations

import re

# NETCDF:"/data/scene.nc":reflectance and HDF5:"/data/scene.h5"://group/data, quoted or not
_INSIDE = re.compile(r'(?:NETCDF|HDF5):(?:"(?P<quoted>[^"]+)"|(?P<bare>.+?)):(?P<key>[^:]+)')
_DRIVER = re.compile(r"[A-Z0-9_]{2,}:")  # a drive of Windows has one letter


def raster_file(provider: str, source: str) -> str:
    r"""Return what to call the file of a raster layer on polyad's command line.

    Raises
    ------
    ValueError
        If the layer is no plain file on this machine; its message is for the user.

    Examples
    --------
    >>> raster_file("gdal", "/data/scene.img")
    '/data/scene.img'
    >>> raster_file("gdal", 'NETCDF:"/data/scene.nc":reflectance')
    '/data/scene.nc:reflectance'
    >>> raster_file("gdal", 'HDF5:"C:/data/scene.h5"://cube/values')
    'C:/data/scene.h5:/cube/values'
    """
    path = source.split("|")[0]  # QGIS appends open options
    inside = _INSIDE.fullmatch(path)
    if inside is not None:
        key = re.sub("^/+", "/", inside["key"])
        return f"{inside['quoted'] or inside['bare']}:{key}"
    if provider != "gdal" or path.startswith("/vsi") or "://" in path or _DRIVER.match(path):
        raise ValueError(
            f"layer {source}: expected a plain file on this machine; save it with Export > Save As "
            "in its menu, and take that layer"
        )
    return path
