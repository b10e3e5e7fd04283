"""A scene as large as those that sensors deliver: Indian Pines mirrored, with gain and noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.scene.raster.classes import class_table, with_classes
from polyad.scene.read.known_scenes import open_known, open_known_labels

GAIN, NOISE = 0.03, 0.004  # deviation of a tile's gain; of a pixel's noise, as share of its value


def write_mirrored(folder: Path, height: int, width: int, bands: int, seed: int = 0) -> Path:
    """Write a scene of uint16, band-interleaved by line, as ENVI; return its header's path.

    Indian Pines is mirrored at its edges until the scene is full. Each copy has a gain of its own,
    each value its noise. Bands beyond those of Indian Pines lie between them.
    """
    cube = open_known("indian-pines").values  # (145, 145, 200)
    at = np.linspace(0, cube.shape[2] - 1, bands)
    low = np.floor(at).astype(int)
    high, share = np.minimum(low + 1, cube.shape[2] - 1), (at - low).astype(np.float32)
    cube = cube[..., low] * (1 - share) + cube[..., high] * share
    rng, side = np.random.default_rng(seed), len(cube)
    gain = rng.normal(1, GAIN, (height // side + 1, width // side + 1)).astype(np.float32)
    rows, cols = mirrored(height, side), mirrored(width, side)
    with (folder / "scene.img").open("wb") as out:
        for row in range(height):
            line = cube[rows[row]][cols] * gain[row // side, np.arange(width) // side, None]
            noise = rng.standard_normal((width, bands), dtype=np.float32)
            line *= 1 + NOISE * noise
            np.rint(line.T).astype("<u2").tofile(out)
    lines = {"samples": width, "lines": height, "bands": bands, "header offset": 0,
             "data type": 12, "interleave": "bil", "byte order": 0}  # fmt: skip
    header = folder / "scene.hdr"
    header.write_text("ENVI\n" + "".join(f"{k} = {v}\n" for k, v in lines.items()))
    return header


def mirrored_truth(height: int, width: int) -> xr.DataArray:
    """Return the ground truth of such a scene, dims ``(y, x)``."""
    truth = open_known_labels("indian-pines")
    values = truth.values[np.ix_(*(mirrored(n, len(truth)) for n in (height, width)))]
    return with_classes(xr.DataArray(values, dims=("y", "x")), class_table(truth))


def mirrored(length: int, side: int) -> NDArray[np.intp]:
    """Return which of ``side`` pixels each of ``length`` shows, there and back.

    Examples
    --------
    >>> mirrored(7, 3).tolist()
    [0, 1, 2, 2, 1, 0, 0]
    """
    place = np.arange(length) % (2 * side)
    return np.where(place < side, place, 2 * side - 1 - place)
