"""Good files of every format, small: what hostile files, and the search, begin with."""

from __future__ import annotations

import io
import json
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import rasterio
import scipy.io

from attacks.cases import BUDGET
from attacks.vectors import ENDINGS, point, write

LIMIT = ["--max-bytes", str(BUDGET)]
PLACE = rasterio.Affine(30, 0, 5e5, 0, -30, 5e6)
CUBE = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
IDS = np.tile(np.uint8([1, 2]), (8, 4))
SHORT = ["--epochs", "2", "--out", "m.polyad"]  # for files that are read, and trained with


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


def write_raster(path: Path, bands: int = 3, driver: str = "GTiff", **options: Any) -> None:
    """Write a raster of 8 x 8 pixels that has a place but, unless given, no reference system."""
    shape = {"height": 8, "width": 8, "count": bands, "dtype": "uint8"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = {} if driver == "PNG" else {"transform": PLACE}
        with rasterio.open(path, "w", driver=driver, **place, **shape, **options) as file:
            file.write(np.arange(bands * 64, dtype=np.uint8).reshape(bands, 8, 8) % 7)


def write_hdf5(path: Path) -> None:
    """Write a scene with wavelengths and a reference system."""
    with h5py.File(path, "w") as file:
        file["cube"] = CUBE
        file["wavelength"] = np.linspace(400, 900, 3)
        file["cube"].attrs["grid_mapping"] = "crs"
        file.create_dataset("crs", data=0).attrs["crs_wkt"] = "EPSG:32633"


def write_envi(folder: Path, more: str = "", lines: str = "4", size: int = 16) -> list[str]:
    """Write an ENVI pair of 4 samples whose data are ``size`` zeros, sparse."""
    head = f"ENVI\nsamples = 4\nlines = {lines}\ndata type = 1\ninterleave = bsq\n"
    (folder / "scene.hdr").write_text(head + ("" if "bands" in more else "bands = 1\n") + more)
    with (folder / "scene.img").open("wb") as file:
        file.truncate(size)
    return info("scene.hdr")


def write_zarr(folder: Path, name: str = "cube", version: int = 2, **changes: Any) -> Path:
    """Write an array of 8 x 8 x 1 bytes with its chunk into ``scene.zarr``; return its folder."""
    store, shape = folder / "scene.zarr", [8, 8, 1]
    place = store / name
    place.mkdir(parents=True, exist_ok=True)
    if version == 2:
        group, file, chunk = {"zarr_format": 2}, ".zarray", place / "0.0.0"
        meta = {"shape": shape, "chunks": shape, "dtype": "|u1", "order": "C", "fill_value": 0,
                "compressor": None, "filters": None}  # fmt: skip
    else:
        group, file = {"zarr_format": 3, "node_type": "group"}, "zarr.json"
        chunk = place / "c" / "0" / "0" / "0"
        grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
        meta = {"node_type": "array", "shape": shape, "data_type": "uint8", "chunk_grid": grid,
                "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
                "codecs": [{"name": "bytes"}], "attributes": {}}  # fmt: skip
    (store / (".zgroup" if version == 2 else "zarr.json")).write_text(json.dumps(group))
    (place / file).write_text(json.dumps({"zarr_format": version} | meta | changes))
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_bytes(bytes(range(64)))
    return place


def write_layer(path: Path) -> Path:
    """Write four labeled points in the format that the ending tells."""
    driver = next(driver for driver, ending in ENDINGS.items() if ending == path.suffix[1:])
    places = [(500_015.0, 4_999_985.0), (500_105.0, 4_999_895.0)] * 2
    crs = "EPSG:32633"
    if driver == "LIBKML":
        places, crs = [(15.0002, 45.1534), (15.0014, 45.1526)] * 2, "EPSG:4326"
    shapes, fields = [point(*xy) for xy in places], {"land": ["a", "b"] * 2}
    return write(path, shapes, fields, driver=driver, crs=crs, geometry_type="Point")


def info(name: str) -> list[str]:
    """Return the arguments that open a scene."""
    return ["info", name, *LIMIT]


def train(folder: Path, labels: str, *options: str) -> list[str]:
    """Write a scene of 8 x 8 pixels and return the arguments that open ``labels`` with it."""
    if labels.endswith((".geojson", *ENDINGS.values())):
        write_raster(folder / "scene.tif", crs="EPSG:32633")
        return ["train", "scene.tif", labels, *options, *LIMIT]
    np.save(folder / "scene.npy", CUBE)
    return ["train", "scene.npy", labels, *options, *LIMIT]


def command(folder: Path, name: str) -> list[str]:
    """Return the arguments that open a file by what it is called: as labels or as a scene."""
    if not name.startswith("labels"):
        return info(name)
    field = ["--field", "land"] if name.endswith(tuple(ENDINGS.values())) else []
    return train(folder, name, *field, *SHORT)


def _geojson(path: Path) -> None:
    places = [[15.0002, 45.1534], [15.0014, 45.1526]] * 2
    features = [
        {"type": "Feature", "properties": {"class": 1 + k % 2},
         "geometry": {"type": "Point", "coordinates": place}}
        for k, place in enumerate(places)
    ]  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


CSV = "row,col,class\n" + "".join(f"{k // 8},{k % 8},{1 + k % 2}\n" for k in range(64))
WRITERS: dict[str, Callable[[Path], Any]] = {
    "scene.tif": lambda path: write_raster(path, crs="EPSG:32633"),
    "scene.jp2": lambda path: write_raster(path, driver="JP2OpenJPEG", crs="EPSG:32633"),
    "scene.npy": lambda path: np.save(path, CUBE),
    "scene.h5": write_hdf5,
    "scene.nc": write_hdf5,
    "scene.mat": lambda path: scipy.io.savemat(path, {"cube": CUBE}),
    "scene.hdr": lambda path: write_envi(path.parent),
    "scene.img": lambda path: write_envi(path.parent),
    "scene.zarr": lambda path: write_zarr(path.parent),
    "labels.tif": lambda path: write_raster(path, 1),
    "labels.png": lambda path: write_raster(path, 1, "PNG"),
    "labels.npy": lambda path: np.save(path, IDS),
    "labels.mat": lambda path: scipy.io.savemat(path, {"gt": IDS}),
    "labels.csv": lambda path: path.write_text(CSV),
    "labels.geojson": _geojson,
    **{f"labels.{ending}": write_layer for ending in ENDINGS.values()},
}


def good(folder: Path, name: str) -> list[str]:
    """Write the good file of a name, and return the arguments that open it."""
    WRITERS[name](folder / name)
    return command(folder, name)


def deflated_zeros(count: int) -> bytes:
    """Return a zlib stream of ``count`` zeros, a multiple of 2**20, without making them."""
    import zlib

    packer = zlib.compressobj(9)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = b"\x03\x00" + struct.pack(">I", (count % 65521) << 16 | 1)  # last block, Adler-32
    return head + block * (count // 2**20) + end


# XML that belongs to a file: how it is put beside it, and what is said of one that is hostile


def _aux(folder: Path, text: bytes) -> list[str]:
    write_raster(folder / "labels.tif", 1)
    (folder / "labels.tif.aux.xml").write_bytes(text)
    return train(folder, "labels.tif", *SHORT)


def _enmap(folder: Path, text: bytes) -> list[str]:
    write_raster(folder / "X-SPECTRAL_IMAGE.TIF")
    (folder / "X-METADATA.XML").write_bytes(text)
    return info(".")


def _colors(folder: Path, text: bytes) -> list[str]:
    (folder / "labels.csv").write_text(CSV)
    (folder / "c.qml").write_bytes(text)
    return [*train(folder, "labels.csv", *SHORT), "--colors", "c.qml"]


def _style(folder: Path, text: bytes) -> list[str]:
    write_layer(folder / "labels.gpkg").with_suffix(".qml").write_bytes(text)
    return command(folder, "labels.gpkg")


def _kml(folder: Path, text: bytes) -> list[str]:
    (folder / "labels.kml").write_bytes(text)
    return train(folder, "labels.kml")


_REFUSED = "DOCTYPE|well-formed|another file"
XML: dict[str, tuple[str, Callable[[Path, bytes], list[str]], str | None]] = {
    "aux_xml": ("PAMDataset", _aux, _REFUSED),
    "enmap": ("level_X", _enmap, _REFUSED),
    "colors": ("qgis", _colors, _REFUSED),
    "style": ("qgis", _style, None),  # one that cannot be read colors nothing
    "kml": ("kml", _kml, "labels.kml"),
}
