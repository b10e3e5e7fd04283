"""A scene as large as those that sensors deliver: Indian Pines mirrored, with gain and noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from polyad.scene.raster.classes import class_table, with_classes
from polyad.scene.raster.windows import plan_tiles
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

BANDS, PER_CLASS, SEED = 285, 10, 100
GAIN, NOISE = 0.1, 0.5  # of each part: its gain differs by up to this; of the scene's own noise
HEADER = """ENVI
samples = {width}
lines = {height}
bands = {bands}
data type = 12
interleave = {interleave}
byte order = 0
header offset = 0
"""


def write_mirrored(folder: Path, shape: tuple[int, int], interleave: str = "bip") -> Path:
    """Write a scene as ENVI, its labels and which pixels train; return the header's path.

    Indian Pines is laid out again and again, mirrored, each part with its own gain and noise, on
    `BANDS` bands of uint16, band-interleaved by pixel or by line. ``labels.npz`` has the ``truth``
    and ``train``, up to `PER_CLASS` pixels of each class in every part.
    """
    rng = np.random.default_rng(SEED)
    scene = open_scene("indian-pines").load()
    truth = np.asarray(open_labels("indian-pines", scene).values).astype(np.uint8)
    old, new = np.linspace(0, 1, scene.sizes["band"]), np.linspace(0, 1, BANDS)
    spectra = scene.values.reshape(-1, len(old)).astype(np.float64)
    cube = np.stack([np.interp(new, old, spectrum) for spectrum in spectra])
    cube = cube.reshape(*truth.shape, BANDS).astype(np.float32)
    noise = np.diff(cube, axis=1).std(axis=(0, 1)) / np.sqrt(2) * NOISE
    labels, train = np.zeros(shape, np.uint8), np.zeros(shape, bool)
    by_line = interleave == "bil"
    lies = (shape[0], BANDS, shape[1]) if by_line else (*shape, BANDS)
    data = np.memmap(folder / "scene.img", np.uint16, "w+", shape=lies)
    pixels = data.transpose(0, 2, 1) if by_line else data
    for part in plan_tiles(shape, (truth.shape[0], truth.shape[1])):
        height, width = part.shape
        down, across = (1 - 2 * (s.start // n % 2) for s, n in zip(part, truth.shape, strict=True))
        gain = 1 + rng.uniform(-GAIN, GAIN)
        ground = gain * cube[::down, ::across][:height, :width]
        made = ground + rng.normal(size=ground.shape).astype(np.float32) * noise
        pixels[part] = made.clip(0, 65535).round().astype(np.uint16)
        labels[part] = truth[::down, ::across][:height, :width]
        for value in np.unique(labels[part][labels[part] > 0]):
            where = rng.permutation(np.argwhere(labels[part] == value))
            train[part][tuple(where[: min(PER_CLASS, len(where) // 2)].T)] = True
    data.flush()
    np.savez(folder / "labels.npz", truth=labels, train=train)
    header = folder / "scene.hdr"
    sizes = {"height": shape[0], "width": shape[1], "bands": BANDS, "interleave": interleave}
    header.write_text(HEADER.format(**sizes))
    return header


def mirrored_truth(folder: Path) -> xr.DataArray:
    """Return the ground truth of the scene in a folder, dims ``(y, x)``, with its classes."""
    with np.load(folder / "labels.npz") as stored:
        truth = xr.DataArray(stored["truth"], dims=("y", "x"))
    return with_classes(truth, class_table(open_labels("indian-pines", open_scene("indian-pines"))))
