"""A small scene whose spectra mix two materials, and plots at which their shares were measured."""

import json

import numpy as np
import rasterio
import xarray as xr
from affine import Affine

from polyad.scene.raster.scene import describe

HEIGHT, WIDTH, BANDS = 36, 40, 10
GRID = Affine(10, 0, 500_000, 0, -10, 4_000_000)  # UTM 33 N, pixels of 10 m
NM = np.linspace(450, 900, BANDS)
QUICK = {"epochs": 25, "hidden": 8}


def cover(seed=0):
    """The share of the first material, (y, x), smooth and between 0 and 1."""
    rows, cols = np.indices((HEIGHT, WIDTH))
    noise = 0.05 * np.random.default_rng(seed).normal(size=(HEIGHT, WIDTH))
    return np.clip(0.5 + 0.55 * np.sin(rows / 5) * np.cos(cols / 7) + noise, 0, 1)


def pixels(seed=0):
    """The scene's values, (y, x, band), whole numbers."""
    share = cover(seed)[..., None]
    first, second = np.linspace(1000, 2500, BANDS), np.linspace(3000, 1200, BANDS)
    noise = 60 * np.random.default_rng(seed + 1).normal(size=(HEIGHT, WIDTH, BANDS))
    return np.rint(share * first + (1 - share) * second + noise).astype(np.int16)


def scene(values=None):
    """The scene in memory; -9999 stands for no data."""
    cube = xr.DataArray(pixels() if values is None else values, dims=("y", "x", "band"))
    return describe(cube, wavelength=NM, crs="EPSG:32633", transform=GRID, nodata=-9999)


def places(n=60, seed=2):
    """Rows and columns of plots, (n, 2), no two of them the same."""
    chosen = np.random.default_rng(seed).permutation(HEIGHT * WIDTH)[:n]
    return np.stack(np.unravel_index(chosen, (HEIGHT, WIDTH)), axis=1)


def measured(n=60, seed=2):
    """Cover and mass at the plots, (y, x, target)."""
    rows, cols = places(n, seed).T
    values = np.full((HEIGHT, WIDTH, 2), np.nan, np.float32)
    values[rows, cols, 0] = cover()[rows, cols]
    values[rows, cols, 1] = 12 * cover()[rows, cols] + 3
    out = xr.DataArray(values, dims=("y", "x", "target"), coords={"target": ["cover", "mass"]})
    out = out.assign_coords(units=("target", ["", "t/ha"]))
    return describe(out, crs="EPSG:32633", transform=GRID)


def write_scene(path, values=None):
    """Write the scene as a GeoTIFF with wavelengths in the tags of its bands."""
    stored = pixels() if values is None else values
    with rasterio.open(
        path, "w", driver="GTiff", width=WIDTH, height=HEIGHT, count=BANDS, dtype="int16",
        crs="EPSG:32633", transform=GRID, nodata=-9999,
    ) as out:  # fmt: skip
        out.write(np.moveaxis(stored, -1, 0))
        for k, nm in enumerate(NM, start=1):
            out.update_tags(k, wavelength=f"{nm:.1f}", wavelength_units="nm")


def write_plots(path, n=60, seed=2, extra=()):
    """Write plots as CSV of map coordinates with cover, mass and a crop's name."""
    lines = ["x,y,cover,mass,crop"]
    for row, col in places(n, seed).tolist():
        x, y = GRID * (col + 0.5, row + 0.5)
        share = cover()[row, col]
        lines.append(f"{x},{y},{share:.4f},{12 * share + 3:.3f},corn")
    path.write_text("\n".join([*lines, *extra]) + "\n")


def write_geojson(path, n=60, seed=2):
    """Write the same plots as GeoJSON in the scene's own reference system."""
    features = []
    for row, col in places(n, seed).tolist():
        x, y = GRID * (col + 0.5, row + 0.5)
        geometry = {"type": "Point", "coordinates": [x, y]}
        about = {"cover": float(cover()[row, col]), "crop": "corn", "plot": len(features)}
        features.append({"type": "Feature", "properties": about, "geometry": geometry})
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
    told = {"type": "FeatureCollection", "crs": crs, "features": features}
    path.write_text(json.dumps(told))
