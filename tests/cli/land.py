"""A scene of three fields in files of several kinds, and commands run on them in this process."""

import csv
import json

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.warp import transform as reproject

from polyad.cli import main
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.write.writers import MapWriter

HEIGHT, WIDTH, BANDS = 40, 50, 8
CORNER = (500_000.0, 4_000_000.0)  # UTM 33 N, pixels of 10 m
NM = np.linspace(450, 900, BANDS)
NAMES = ("Corn", "Soil", "Water")
QUICK = ("--preset", "fast", "--epochs", "25", "--hidden", "10", "--window", "3")


def truth():
    """Three upright fields: Corn in the west, Soil, Water in the east."""
    return np.repeat([1, 2, 3], [20, 15, 15])[None].repeat(HEIGHT, axis=0)


def pixels():
    rng = np.random.default_rng(0)
    clean = 300 * truth()[..., None] + 20 * np.arange(BANDS) * (truth()[..., None] - 2)
    return np.rint(clean + rng.normal(0, 60, (HEIGHT, WIDTH, BANDS)) + 1000).astype(np.int16)


def center(row, col):
    return CORNER[0] + 10 * (col + 0.5), CORNER[1] - 10 * (row + 0.5)


def write_envi(path, values, interleave):
    axes = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    path.with_suffix(".img").write_bytes(values.transpose(axes).tobytes())
    wavelengths = ", ".join(f"{w:.1f}" for w in NM[: values.shape[2]])
    path.write_text(
        f"ENVI\nsamples = {values.shape[1]}\nlines = {values.shape[0]}\n"
        f"bands = {values.shape[2]}\nheader offset = 0\nfile type = ENVI Standard\n"
        f"data type = 2\ninterleave = {interleave}\nbyte order = 0\ndata ignore value = -9999\n"
        f"map info = {{UTM, 1, 1, {CORNER[0]}, {CORNER[1]}, 10, 10, 33, North, WGS-84}}\n"
        f"wavelength units = Nanometers\nwavelength = {{{wavelengths}}}\n"
    )


def write_tiff(path, values, crs="EPSG:32633", dtype="int16"):
    grid = Affine(10, 0, CORNER[0], 0, -10, CORNER[1])
    bands = np.moveaxis(np.atleast_3d(values), -1, 0)
    with rasterio.open(
        path, "w", driver="GTiff", width=bands.shape[2], height=bands.shape[1], count=len(bands),
        dtype=dtype, crs=crs, transform=grid,
    ) as out:  # fmt: skip
        out.write(bands.astype(dtype))


def write_named(path, values, names):
    """Write a class map as polyad does, with names for the ids from 1 on."""
    classes = [ClassInfo(k, n, "#112233") for k, n in enumerate(names, start=1)]
    grid = {"crs": "EPSG:32633", "transform": Affine(10, 0, CORNER[0], 0, -10, CORNER[1])}
    with MapWriter(path, values.shape, classes, **grid) as out:
        out.write((slice(None), slice(None)), values.astype(np.uint8))


def write_geojson(path, crs="EPSG:4326"):
    """Points of Corn and Water and a polygon of Soil, in longitude and latitude."""
    places = [(r, c, "Corn") for r in range(2, 38, 4) for c in (3, 9, 15)]
    places += [(r, c, "Water") for r in range(2, 38, 4) for c in (37, 42, 47)]

    def moved(points):
        x, y = zip(*points, strict=True)
        return [list(p) for p in zip(*reproject("EPSG:32633", crs, x, y), strict=True)]

    features = [
        {"type": "Feature", "properties": {"class": name},
         "geometry": {"type": "Point", "coordinates": moved([center(r, c)])[0]}}
        for r, c, name in places
    ]  # fmt: skip
    ring = moved([center(*p) for p in ((10, 22), (10, 30), (14, 30), (14, 22), (10, 22))])
    geometry = {"type": "Polygon", "coordinates": [ring]}
    features.append({"type": "Feature", "properties": {"class": "Soil"}, "geometry": geometry})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def write_csv(path, ids=False):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["row", "col", "class"])
        for row in range(1, 39, 3):
            for col in (4, 12, 24, 31, 38, 46):
                k = truth()[row, col]
                table.writerow([row, col, k if ids else NAMES[k - 1]])


def run(*arguments):
    """Run a command in this process; return its exit code."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code or 0


def as_json(capsys, *arguments):
    """Return the JSON object that a command prints."""
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *arguments):
    """Return the one sentence that bad input is answered with."""
    capsys.readouterr()
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("polyad: ")
    assert err.count("\n") == 1, err
    return err
