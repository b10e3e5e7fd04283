"""Files built from trees, and trees of good files to begin with."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from attacks.trees import Tree

MOST_WRITTEN = 100_000  # values; an array of more is declared and left empty


def build_hdf5(tree: Tree, path: Path) -> None:
    """Write the HDF5 file that ``tree`` describes: attributes, arrays and links by name."""
    with h5py.File(path, "w", track_order=True) as file:
        for name, about in tree["arrays"].items():
            _array(file, name, about)
        for name, target in tree.get("soft", {}).items():
            file[name] = h5py.SoftLink(target)
        for name, about in tree["arrays"].items():
            _attributes(file, file[name], about.get("attrs", {}))
            for axis, scale in enumerate(about.get("scales", [])):
                file[scale].make_scale(scale)
                file[name].dims[axis].attach_scale(file[scale])
        _attributes(file, file, tree.get("attrs", {}))


def _array(file: h5py.File, name: str, about: Tree) -> None:
    shape, dtype = tuple(about["shape"]), np.dtype(about["dtype"])
    options = {
        "chunks": tuple(about["chunks"]) if about.get("chunks") else None,
        "compression": about.get("gzip"),
        "fillvalue": about.get("fill"),
    }
    made = file.create_dataset(name, shape, dtype, **options)
    if "values" in about and np.prod(shape, dtype=float) <= MOST_WRITTEN:
        made[...] = np.resize(np.asarray(about["values"]), shape)


def _attributes(file: h5py.File, node: Any, attrs: Tree) -> None:
    for name, value in attrs.items():
        if isinstance(value, dict):  # what JSON has no form for
            kind, inner = next(iter(value.items()))
            value = {
                "empty": lambda v: h5py.Empty(np.dtype(v)),
                "dtype": lambda v: np.asarray(v[1]).astype(v[0]),
                "reference": lambda v: file[v].ref,
                "bytes": lambda v: v.encode("latin-1"),
            }[kind](inner)
        node.attrs[name] = value


def hdf5_seeds() -> list[Tree]:
    """Return trees of a plain HDF5 cube, NetCDF, EMIT, PRISMA, Tanager and MATLAB 7.3 files."""
    ramp = list(range(24))
    cube = {"shape": [4, 5, 3], "dtype": "<i2", "values": ramp, "chunks": [2, 5, 3], "gzip": 4}
    wkt = (
        'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
        'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
    )
    netcdf = {
        "attrs": {"Conventions": "CF-1.8"},
        "arrays": {
            "y": {"shape": [4], "dtype": "<f8", "values": [40.0, 39.9, 39.8, 39.7]},
            "x": {"shape": [5], "dtype": "<f8", "values": [10.0, 10.1, 10.2, 10.3, 10.4]},
            "wavelength": {
                "shape": [3], "dtype": "<f4", "values": [450.0, 550.0, 650.0],
                "attrs": {"units": "nm"},
            },
            "crs": {"shape": [], "dtype": "<i4", "attrs": {"crs_wkt": wkt}},
            "reflectance": {
                **cube, "scales": ["y", "x", "wavelength"],
                "attrs": {"grid_mapping": "crs", "scale_factor": 0.1, "add_offset": 1.0,
                          "_FillValue": {"dtype": ["<i2", [-1]]}, "coordinates": "wavelength"},
            },
        },
    }  # fmt: skip
    table = {"shape": [6, 5], "dtype": "<i4", "values": [1, 2, 3, 0, 4]}
    bands = {"shape": [3], "dtype": "<f4", "values": [450.0, 550.0, 650.0]}
    emit = {
        "attrs": {"geotransform": [10.0, 0.1, 0.0, 40.0, 0.0, -0.1], "spatial_ref": wkt},
        "arrays": {
            "reflectance": {
                "shape": [4, 5, 3], "dtype": "<f4", "values": ramp, "attrs": {"_FillValue": -9.0},
            },
            "location/glt_x": table,
            "location/glt_y": table,
            "sensor_band_parameters/wavelengths": bands,
            "sensor_band_parameters/fwhm": bands,
            "sensor_band_parameters/good_wavelengths": {
                "shape": [3], "dtype": "u1", "values": [1, 1, 0],
            },
        },
    }  # fmt: skip
    swath, geo = "HDFEOS/SWATHS/PRS_L2D_HCO", "Geolocation Fields"
    prisma = {
        "attrs": {
            "Product_ULcorner_easting": 5e5, "Product_ULcorner_northing": 5e6, "Epsg_Code": 32633,
            "Product_LRcorner_easting": 500150.0, "Product_LRcorner_northing": 4999880.0,
            "List_Cw_Vnir": [900.0, 800.0], "List_Cw_Swir": [1000.0, 0.0],
            "List_Fwhm_Vnir": [9.0, 8.0], "List_Fwhm_Swir": [10.0, 0.0],
            "L2ScaleVnirMin": 0.0, "L2ScaleVnirMax": 1.0,
            "L2ScaleSwirMin": 0.0, "L2ScaleSwirMax": 1.0,
        },
        "arrays": {
            f"{swath}/Data Fields/VNIR_Cube": {"shape": [4, 2, 5], "dtype": "<u2", "values": ramp},
            f"{swath}/Data Fields/SWIR_Cube": {"shape": [4, 2, 5], "dtype": "<u2", "values": ramp},
            f"{swath}/{geo}/Latitude": {"shape": [4, 5], "dtype": "<f4", "values": [40.0]},
            f"{swath}/{geo}/Longitude": {"shape": [4, 5], "dtype": "<f4", "values": [10.0]},
        },
    }  # fmt: skip
    fields = "HDFEOS/GRIDS/HYP/Data Fields"
    tanager = {
        "arrays": {
            f"{fields}/surface_reflectance": {
                "shape": [3, 4, 5], "dtype": "<f4", "values": ramp,
                "attrs": {"wavelengths": [450.0, 550.0, 650.0], "fwhm": [5.0, 5.0, 5.0],
                          "good_wavelengths": [1, 0, 1], "_FillValue": -9999.0,
                          "wavelengths_units": {"bytes": "nm"}},
            },
            f"{fields}/nodata_pixels": {"shape": [4, 5], "dtype": "u1", "values": [0]},
        },
    }  # fmt: skip
    dated = {"arrays": {"cube": {**cube, "shape": [1, 4, 5, 3], "chunks": [1, 2, 5, 3]}}}
    labels = {"arrays": {"gt": {"shape": [4, 5], "dtype": "u1", "values": [0, 1, 2]}}}
    return [{"arrays": {"cube": cube}}, netcdf, emit, prisma, tanager, dated, labels]


def build_files(tree: Tree, folder: Path) -> None:
    """Write a folder of files: text that is a tree as JSON, bytes as Latin-1 text."""
    for name, content in tree.items():
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise ValueError("a name that leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = (
            content.encode("latin-1") if isinstance(content, str) else json.dumps(content).encode()
        )
        path.write_bytes(raw)


def zarr_seeds() -> list[Tree]:
    """Return trees of Zarr stores of both versions."""
    import zarr

    found = []
    for version in (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            group = zarr.open_group(folder, mode="w", zarr_format=version)
            cube = group.create_array("cube", shape=(4, 5, 3), chunks=(2, 5, 3), dtype="i2")
            cube[:] = np.arange(60).reshape(4, 5, 3)
            cube.attrs["_ARRAY_DIMENSIONS"] = ["y", "x", "wavelength"]
            centers = group.create_array("wavelength", shape=(3,), dtype="f8")
            centers[:] = [450, 550, 650]
            centers.attrs["_ARRAY_DIMENSIONS"] = ["wavelength"]
            found.append(files_tree(Path(folder)))
    return found


def files_tree(folder: Path) -> Tree:
    """Return the tree of a folder of files, as `build_files` takes it."""
    tree = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        raw = path.read_bytes()
        try:
            content = json.loads(raw)
        except ValueError:
            content = raw.decode("latin-1")
        tree[str(path.relative_to(folder))] = content
    return tree


def npy(values: np.ndarray) -> bytes:
    """Return an array as the bytes of an ``.npy`` file."""
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


def saved(write: Callable[[Path], Any], name: str) -> bytes:
    """Return the bytes of a file that ``write`` makes."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rasters without a place on the map
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()
