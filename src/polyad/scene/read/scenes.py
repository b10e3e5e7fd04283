"""Known scenes by name: opened, or fetched by download or from a file downloaded by hand.

Indian Pines ships inside TensorLy and needs no download. The others come from a host that often
refuses scripted downloads: a file fetched by hand works as well, and in either case its SHA-256 is
checked before it is put in place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from affine import Affine
from numpy.typing import NDArray

from polyad.atomic import replacing
from polyad.errors import InputError, SceneError, reason
from polyad.safe_open import open_regular
from polyad.scene.files.benchmark_scenes import KnownScene, RemoteFile, data_folder, known_scene
from polyad.scene.files.paths import check_scene, is_address, locate, make_folder
from polyad.scene.raster import guards
from polyad.scene.raster.classes import ClassInfo, palette, with_classes
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.scene import Scene, describe, lazy_scene
from polyad.scene.raster.sources import representable
from polyad.scene.read.formats.kinds import load, open_address, open_files, open_source
from polyad.scene.read.formats.opening import Opened
from polyad.scene.read.label_rasters import read_label_raster


def open_known(name: str) -> xr.DataArray:
    """Open the cube of a known scene.

    Parameters
    ----------
    name : str
        A key of `KNOWN_SCENES`.

    Returns
    -------
    DataArray, dims (y, x, band)
        Lazy where it comes from a file. Indian Pines carries nominal wavelengths in nm.

    Examples
    --------
    >>> scene = open_known("indian-pines")
    >>> scene.dims, scene.shape
    (('y', 'x', 'band'), (145, 145, 200))
    """
    row = known_scene(name)
    if row.bundled:
        scene = _bundled_cube()
    else:
        scene = _lazy(open_source(_in_place(name, row.cube), row.cube.key, memory_budget()))
    return scene.assign_attrs(title=row.title, sensor=row.sensor, citation=row.citation)


def opened_known(name: str) -> Opened:
    """Open a known scene for those who need no DataArray."""
    row = known_scene(name)
    if not row.bundled:
        return open_source(_in_place(name, row.cube), row.cube.key, memory_budget())
    cube = _bundled_cube()
    pixels = load("matlab:MatSource")(Path(name), cube.values)
    return Opened.of(pixels, wavelength=cube["wavelength"].values)


def open_known_labels(name: str) -> xr.DataArray:
    """Open the ground truth of a known scene, with class names and colors.

    Parameters
    ----------
    name : str
        A key of `KNOWN_SCENES`.

    Returns
    -------
    DataArray of uint16, dims (y, x)
        0 is unlabeled.

    Examples
    --------
    >>> labels = open_known_labels("indian-pines")
    >>> from polyad.scene import class_table
    >>> int((labels > 0).sum()), [c.name for c in class_table(labels)][:2]
    (10249, ['Alfalfa', 'Corn-notill'])
    """
    row = known_scene(name)
    if row.bundled:
        values = _bundled().ticks[0]
    else:
        values = read_label_raster(_in_place(name, row.labels), row.labels.key).values
    labels = xr.DataArray(np.asarray(values, dtype=np.uint16), dims=("y", "x"), name="class")
    colors = palette(len(row.class_names))
    table = zip(row.class_names, colors, strict=True)
    return with_classes(labels, [ClassInfo(k, n, c) for k, (n, c) in enumerate(table, start=1)])


def fetch(
    name: str,
    from_file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    progress: bool = True,
) -> list[Path]:
    """Put the files of a known scene in place: by download, or from files fetched by hand.

    Parameters
    ----------
    name : str
        A key of `KNOWN_SCENES`.
    from_file : path or sequence of paths, optional
        Files fetched by hand. They are recognized by their checksum, whatever they are called.
        Nothing is downloaded then.
    progress : bool
        Show a bar while downloading.

    Returns
    -------
    list of Path
        The files put or found in place; empty for a scene that needs none.

    Raises
    ------
    SceneError
        If the host refuses or cannot be reached, with the way to do it by hand; or if a checksum
        is wrong.

    Examples
    --------
    >>> fetch("indian-pines")  # comes with TensorLy
    []
    """
    row = known_scene(name)
    if from_file is not None:
        given = [from_file] if isinstance(from_file, str | os.PathLike) else list(from_file)
        return [_take(name, row, Path(path)) for path in given]
    return [] if row.bundled else [_download(name, file, progress) for file in row.files]


def _download(name: str, file: RemoteFile, progress: bool) -> Path:
    """Download one file unless it is in place; its checksum is verified either way."""
    import pooch  # here: a scene that is in place is opened without it

    folder = data_folder()
    try:
        # pooch writes to a temporary name and renames only what has the right checksum.
        return Path(
            pooch.retrieve(
                file.address,
                known_hash=f"sha256:{file.sha256}",
                fname=file.name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=progress, timeout=60),
            )
        )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a bad sum, ValueError
        raise SceneError(
            f"cannot download {file.name} of {name} ({reason(error)}); fetch it by hand from "
            f"{file.address} ({file.bytes} bytes) and run `polyad fetch {name} --from {file.name}`,"
            f" which checks it and puts it into {folder}"
        ) from error


def _take(name: str, row: KnownScene, path: Path) -> Path:
    """Copy one hand-fetched file into the data folder after checking its sum."""
    guards.existing_file(path)
    with open_regular(path) as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    known = {file.sha256: file for file in row.files}
    if digest not in known:
        listed = " or ".join(f"{f.name} ({f.bytes} bytes, SHA-256 {f.sha256})" for f in row.files)
        raise SceneError(
            f"{path} ({path.stat().st_size} bytes, SHA-256 {digest}) is no file of {name}, which "
            f"has {listed}; fetch it again, or open your own copy by its path instead of by name"
        )
    target = data_folder() / known[digest].name
    make_folder(target.parent)
    with replacing(target) as temporary:
        shutil.copyfile(path, temporary)
        with temporary.open("rb") as copied:
            same = hashlib.file_digest(copied, "sha256").hexdigest() == digest
        if not same:
            raise SceneError(f"{path} changed while it was copied; run the command again")
    return target


def _in_place(name: str, file: RemoteFile) -> Path:
    """Return the fetched file, or say how to fetch it."""
    path = data_folder() / file.name
    if not path.is_file():
        raise SceneError(
            f"{name} is not on this machine: {path} is missing; run `polyad fetch {name}`, or "
            f"download {file.address} by hand and run `polyad fetch {name} --from {file.name}`"
        )
    return path


def _bundled() -> Any:
    """Return TensorLy's Indian Pines: ``tensor``, and ``ticks`` of ground truth and wavelengths."""
    # Imported here because TensorLy takes a second to import and most scenes do without it.
    from tensorly.datasets import load_indian_pines

    return load_indian_pines()


def _bundled_cube() -> xr.DataArray:
    """Return Indian Pines as integers, as they were distributed; TensorLy gives them as floats."""
    bunch = _bundled()
    # TensorLy's array lies band by band; a spectrum in one piece is read faster
    values = np.asarray(bunch.tensor).astype(np.uint16, order="C")
    scene = xr.DataArray(values, dims=("y", "x", "band"), name="indian-pines")
    wavelength = np.asarray(bunch.ticks[1], dtype=np.float64)  # (200,)
    about = (
        "nominal band centers as listed by TensorLy; not increasing throughout, as AVIRIS's "
        "spectrometers overlap, and two values near 2265 nm look like misprints of 2212 and 2222"
    )
    attrs = {"units": "nm", "long_name": "wavelength", "comment": about}
    return scene.assign_coords(wavelength=("band", wavelength, attrs))


# Open any hyperspectral file, or a known scene by name, as a lazily read scene.
#
# A scene is an ``xarray.DataArray`` with dims ``(y, x, band)``. Where the file tells, it has a
# ``wavelength`` coordinate in nanometers, a georeference in rioxarray's convention
# (``scene.rio.crs``, ``scene.rio.transform()``, pixel centers as ``x`` and ``y``) and a nodata
# value (``scene.rio.nodata``). Opening reads the header; ``scene.isel(y=..., x=...)`` reads that
# window.


def open_scene(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    max_bytes: int | None = None,
    remote: bool = False,
    nodata: float | None = None,
) -> xr.DataArray:
    """Open a scene without reading its pixels.

    Parameters
    ----------
    source : str, path, or list of paths
        A file (ENVI, GeoTIFF, JPEG 2000, VRT, MATLAB, NetCDF/HDF5, EMIT, PRISMA, Tanager,
        EnMAP, DESIS, ``.npy``), a folder (Zarr, EnMAP, DESIS, a TIFF for each band), a file and the
        array in it (``scene.mat:paviaU``), or the name of a known scene (``indian-pines``). A list
        has a file for each band.
    max_bytes : int, optional
        Most bytes that may be read at once; half of the machine's memory if not given. A scene
        that can be read by windows may be larger than that.
    remote : bool, default=False
        Whether ``source`` may be the ``https://`` address of a GeoTIFF, which is read by parts.
    nodata : float, optional
        Value that stands for "no measurement", in place of the one that the file declares.

    Returns
    -------
    DataArray, dims (y, x, band)
        Values as stored, except that EMIT, PRISMA, EnMAP, DESIS, packed NetCDF and ENVI files with
        a scale give physical values.

    Raises
    ------
    SceneError
        The file is missing, damaged, inconsistent or of a kind that is not read.
    BudgetExceeded
        A piece that must be read at once is larger than ``max_bytes``.
    """
    scene = _open_scene(source, memory_budget(max_bytes), remote)
    if nodata is not None and representable(nodata, scene.dtype) is None:
        raise InputError(f"no pixel of {scene.dtype} can have the nodata value {nodata:g}")
    return describe(scene, nodata=nodata)


def _open_scene(
    source: str | PathLike[str] | Sequence[str | PathLike[str]], budget: int, remote: bool
) -> xr.DataArray:
    if not isinstance(source, str | PathLike):
        return _lazy(open_files([Path(file) for file in source], budget))
    path, key = locate(str(source))
    if not (path.exists() and str(source)):
        check_scene(str(source), remote=remote)
        if is_address(str(source)):
            return _lazy(open_address(str(source), budget))
        return open_known(str(source))
    return _lazy(open_source(path, key, budget))


def _lazy(opened: Opened) -> xr.DataArray:
    return lazy_scene(opened.source, **opened.description)


def scene_from_array(
    values: NDArray[Any],
    *,
    wavelength: NDArray[np.float64] | None = None,
    crs: Any = None,
    transform: Affine | None = None,
    nodata: float | None = None,
) -> xr.DataArray:
    """Return an array in memory as a scene.

    Parameters
    ----------
    values : array of shape (rows, columns, bands)
        The pixels. A DataArray, whose dimensions have names, is put in order by these.
    wavelength : array of shape (bands,), optional
        Band centers in nanometers.
    crs : anything rioxarray takes, optional
        Coordinate reference system.
    transform : Affine, optional
        From (column, row) to the map; (0, 0) is the outer corner of the first pixel.
    nodata : float, optional
        Value that stands for "no measurement".

    Examples
    --------
    >>> scene_from_array(np.zeros((4, 5, 3)), wavelength=np.array([450.0, 550.0, 650.0])).sizes
    Frozen({'y': 4, 'x': 5, 'band': 3})
    """
    if isinstance(values, xr.DataArray | xr.Dataset):  # its dimensions have names already
        scene = Scene.of(values).array
    else:
        guards.check_shape(Path("array"), values.shape)
        scene = xr.DataArray(values, dims=("y", "x", "band"))
    return describe(scene, wavelength=wavelength, crs=crs, transform=transform, nodata=nodata)
