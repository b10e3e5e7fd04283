"""What commands open with a good file: whatever a hostile one opens beside that is a hole."""

from __future__ import annotations

import tempfile
from pathlib import Path

import h5py
import numpy as np
import rasterio

from attacks.cases import Case, Maker
from attacks.run import attempt, touched
from attacks.vectors import ENDINGS, point, write


def opened_by_good_files() -> set[str]:
    """Return the files and sockets that ``info`` and ``train`` touch with files of every kind."""
    found: set[str] = set()
    for make in (_hdf5, _geotiff, _training, *map(_layer, ENDINGS)):
        case = Case("good", make.__name__, 0, "", make, None)
        with tempfile.TemporaryDirectory() as folder:
            outcome = attempt(case, Path(folder), known=set())
            if outcome.code != 0:
                raise RuntimeError(f"a good file was refused: {outcome.said}")
            found |= touched((Path(folder) / "trace.txt").read_text(), Path(folder) / "work")
    return found


def _cube() -> np.ndarray:
    return np.random.default_rng(0).random((12, 10, 4)).astype(np.float32)


def _hdf5(folder: Path) -> list[str]:
    with h5py.File(folder / "scene.h5", "w") as file:
        file["cube"] = _cube()
    return ["info", "scene.h5"]


def _geotiff(folder: Path) -> list[str]:
    shape = {"height": 12, "width": 10, "count": 4}
    options = {"driver": "GTiff", "dtype": "float32", "crs": "EPSG:32633"}
    place = rasterio.Affine(30, 0, 5e5, 0, -30, 5e6)
    with rasterio.open(folder / "scene.tif", "w", transform=place, **options, **shape) as file:
        file.write(np.moveaxis(_cube(), -1, 0))
    return ["info", "scene.tif"]


def _layer(driver: str) -> Maker:
    def make(folder: Path) -> list[str]:
        _geotiff(folder)
        shapes = [point(5e5 + 30 * k + 15, 5e6 - 30 * k - 15) for k in range(8)]
        place = {"crs": "EPSG:32633"}
        if driver == "LIBKML":
            shapes, place = (
                [point(15.0002, 45.1534), point(15.0014, 45.1526)] * 4,
                {"crs": "EPSG:4326"},
            )
        fields = {"land": ["a", "b"] * 4}
        path = folder / f"labels.{ENDINGS[driver]}"
        write(path, shapes, fields, driver=driver, geometry_type="Point", **place)
        return ["train", "scene.tif", path.name, "--field", "land", "--epochs", "2"]

    make.__name__ = f"layer_{ENDINGS[driver]}"
    return make


def _training(folder: Path) -> list[str]:
    np.save(folder / "scene.npy", _cube())
    rows = [f"{row},{col},{1 + row % 2}" for row in range(10) for col in range(8)]
    (folder / "labels.csv").write_text("\n".join(["row,col,class", *rows]))
    return ["train", "scene.npy", "labels.csv", "--epochs", "2"]
