"""Files that make a reader open, or wait for, something else than the file that was named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rasterio

from attacks.cases import BUDGET, SECRET, case

_PLACE = rasterio.Affine(30, 0, 5e5, 0, -30, 5e6)
_HEADER = "ENVI\nsamples = 4\nlines = 4\nbands = 1\ndata type = 1\ninterleave = bsq\n"
_ENTITIES = '<?xml version="1.0"{}?><!DOCTYPE a [<!ENTITY b SYSTEM "../{}">]><{}>&b;</{}>'


def info(name: str) -> list[str]:
    """Return the arguments that open a scene."""
    return ["info", name, "--max-bytes", str(BUDGET)]


def train(folder: Path, labels: str) -> list[str]:
    """Write a scene of 8 x 8 pixels and return the arguments that open ``labels`` with it."""
    np.save(folder / "scene.npy", np.random.default_rng(0).random((8, 8, 3)))
    return ["train", "scene.npy", labels, "--max-bytes", str(BUDGET)]


def write_tiff(path: Path, bands: int = 3, place: rasterio.Affine = _PLACE) -> None:
    """Write a GeoTIFF of 8 x 8 pixels."""
    shape = {"height": 8, "width": 8, "count": bands, "dtype": "uint8"}
    with rasterio.open(path, "w", driver="GTiff", transform=place, **shape) as file:
        file.write(np.arange(bands * 64, dtype=np.uint8).reshape(bands, 8, 8) % 7)


def _pipe(name: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        os.mkfifo(folder / name)
        return info(name) if kind == "scene" else train(folder, name)

    kind, ending = name.split(".")
    make.__name__ = f"pipe_as_{kind}_{ending}"
    make.__doc__ = f"A named pipe called {name}."
    return make


for _name in ("scene.tif", "scene.npy", "scene.h5", "scene.mat", "scene.zarr", "scene.hdr",
              "labels.csv", "labels.geojson", "labels.tif", "labels.npy", "labels.png",
              "labels.mat", "labels.nc"):  # fmt: skip
    case(9, says="named pipe|of no kind")(_pipe(_name))


@case(9, says="is a named pipe")
def pipe_as_model(folder: Path) -> list[str]:
    """Named pipe called model.polyad."""
    os.mkfifo(folder / "model.polyad")
    return ["info", "model.polyad"]


@case(9, says="is a named pipe")
def pipe_as_aux_xml(folder: Path) -> list[str]:
    """GeoTIFF whose .aux.xml is a named pipe."""
    write_tiff(folder / "scene.tif")
    os.mkfifo(folder / "scene.tif.aux.xml")
    return info("scene.tif")


@case(9, says=None)
def pipes_beside_a_raster(folder: Path) -> list[str]:
    """GeoTIFF beside named pipes for overviews, masks and satellites' metadata; none is opened."""
    write_tiff(folder / "scene.tif")
    for ending in ("tif.ovr", "tif.msk", "RPB", "IMD", "_rpc.txt", "tab", "tif.xml", "aux"):
        os.mkfifo(folder / f"scene.{ending}")
    return info("scene.tif")


@case(9, says="leads out of the folder")
def envi_data_links_out(folder: Path) -> list[str]:
    """ENVI header whose data file is a link to an outside file."""
    (folder / "scene.hdr").write_text(_HEADER)
    (folder / "scene.img").symlink_to(folder.parent / SECRET)
    return info("scene.hdr")


@case(9, says="leads out of the folder")
def envi_header_links_out(folder: Path) -> list[str]:
    """ENVI data whose header is a link to an outside header."""
    (folder.parent / "other.hdr").write_text(_HEADER)
    (folder / "scene.img").write_bytes(bytes(16))
    (folder / "scene.hdr").symlink_to(folder.parent / "other.hdr")
    return info("scene.img")


@case(9, says="leads out of the folder")
def aux_xml_links_out(folder: Path) -> list[str]:
    """GeoTIFF labels whose .aux.xml is a link to an outside file."""
    write_tiff(folder / "labels.tif", bands=1)
    (folder / "labels.tif.aux.xml").symlink_to(folder.parent / SECRET)
    return train(folder, "labels.tif")


@case(9, says="leads out of the folder")
def enmap_metadata_links_out(folder: Path) -> list[str]:
    """EnMAP folder whose metadata is a link to an outside file."""
    write_tiff(folder / "X-SPECTRAL_IMAGE.TIF")
    (folder / "X-METADATA.XML").symlink_to(folder.parent / SECRET)
    return info(".")


@case(9, says="leads out of the folder")
def enmap_image_links_out(folder: Path) -> list[str]:
    """EnMAP folder whose image is a link to an outside file."""
    (folder / "X-METADATA.XML").write_text("<level_X/>")
    (folder / "X-SPECTRAL_IMAGE.TIF").symlink_to(folder.parent / SECRET)
    return info(".")


@case(9, says="cannot read it as one|of no kind")
def name_of_a_driver(folder: Path) -> list[str]:
    """TIFF cut short in a folder whose name makes GDAL open another file."""
    (folder / "GTIFF_DIR:1:..").mkdir()
    write_tiff(folder / "x.tif")
    (folder / "GTIFF_DIR:1:.." / "work").mkdir()
    (folder / "GTIFF_DIR:1:.." / "work" / "x.tif").write_bytes(b"II*\0\x08\0\0\0")
    return info("GTIFF_DIR:1:../work/x.tif")


@case(1, says="no such file")
def name_in_a_file_system_of_gdal(folder: Path) -> list[str]:
    """Scene called /vsicurl/http://..."""
    del folder
    return info("/vsicurl/http://127.0.0.1:9/x.tif")


def _stated(kind: str, text: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        os.mkfifo(folder / "pipe")
        write_tiff(folder / "scene.tif")
        xml = f"<PAMDataset><SRS>{text}</SRS></PAMDataset>"
        (folder / "scene.tif.aux.xml").write_text(xml)
        return info("scene.tif")

    make.__name__ = f"aux_xml_srs_{kind}"
    make.__doc__ = f"GeoTIFF whose .aux.xml gives {text!r} as reference system."
    return make


for _kind, _text in {"address": "http://127.0.0.1:9/x", "path": f"../{SECRET}", "pipe": "pipe",
                     "grid": f"+proj=longlat +nadgrids=../{SECRET} +type=crs"}.items():  # fmt: skip
    case(1, says="reference system")(_stated(_kind, _text))


@case(5, says=None)
def aux_xml_with_a_long_namespace(folder: Path) -> list[str]:
    """GeoTIFF whose .aux.xml has 3000 names in a namespace of a megabyte."""
    write_tiff(folder / "scene.tif")
    names = "".join(f"<n{k}/>" for k in range(3000))
    xml = f'<PAMDataset xmlns="{"u" * 10**6}">{names}</PAMDataset>'
    (folder / "scene.tif.aux.xml").write_text(xml)
    return info("scene.tif")


@case(1, says=None)
def tiff_with_an_overview_file(folder: Path) -> list[str]:
    """GeoTIFF whose own metadata names an outside file as its overviews; it is not opened."""
    write_tiff(folder / "scene.tif")
    with rasterio.open(folder / "scene.tif", "r+") as file:
        file.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(folder.parent / SECRET))
    return info("scene.tif")


@case(1, says="reference system")
def envi_with_a_grid(folder: Path) -> list[str]:
    """ENVI header whose coordinate system names a grid, which is a file."""
    (folder / "scene.img").write_bytes(bytes(16))
    wkt = f'GEOGCS["x",EXTENSION["PROJ4_GRIDS","../{SECRET}"]]'
    (folder / "scene.hdr").write_text(f"{_HEADER}coordinate system string = {{{wkt}}}\n")
    return info("scene.hdr")


def _entities(encoding: str) -> tuple[Callable[[Path], list[str]], Callable[[Path], list[str]]]:
    def labels(folder: Path) -> list[str]:
        write_tiff(folder / "labels.tif", bands=1)
        text = _ENTITIES.format(f' encoding="{encoding}"', SECRET, "PAMDataset", "PAMDataset")
        (folder / "labels.tif.aux.xml").write_bytes(text.encode(encoding))
        return train(folder, "labels.tif")

    def enmap(folder: Path) -> list[str]:
        write_tiff(folder / "X-SPECTRAL_IMAGE.TIF")
        text = _ENTITIES.format(f' encoding="{encoding}"', SECRET, "level_X", "level_X")
        (folder / "X-METADATA.XML").write_bytes(text.encode(encoding))
        return info(".")

    for make, name in ((labels, "aux_xml"), (enmap, "enmap")):
        make.__name__ = f"{name}_entities_{encoding.replace('-', '_')}"
        make.__doc__ = f"XML in {encoding} with an entity that is an outside file."
    return labels, enmap


for _encoding in ("utf-8", "utf-16", "utf-16-be", "utf-32", "utf-7", "cp037"):
    for _make in _entities(_encoding):
        case(9, says="DOCTYPE|well-formed")(_make)
