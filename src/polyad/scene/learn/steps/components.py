"""Components of every pixel of a scene, kept in half precision so that drafts read no file.

A network that learned on components maps them as any other scene of so many bands, at a fraction
of the reading and projecting: forty numbers for each pixel instead of hundreds of bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.steps.whitening import NoiseWhitening
from polyad.scene.raster.tiles import Tile
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
PLAIN = 20  # principal components, the clearest; the others hold a few hundredths of the variance
PIXEL_COMPONENTS_BYTES = 2 * (20 + PLAIN)
CHUNK = 4096  # pixels that a thread projects at a time
LARGEST = 60_000.0  # half precision ends soon after


@dataclass(frozen=True)
class Components:
    """Whitened and plain components of a scene, as views on the same pixels.

    Attributes
    ----------
    values : ndarray of float16, ``(height, width, k)``
        0 where there is no data, which stands for the mean of the scene.
    columns : dict
        Which of the k belong to each view, ``"whitened"`` or ``"plain"``.
    plain : NoiseWhitening
        That made the plain ones.
    """

    values: Array
    columns: dict[str, slice]
    plain: NoiseWhitening

    @classmethod
    def blank(cls, shape: tuple[int, int], whitening: NoiseWhitening) -> Components:
        """Return components of a scene that are still to be put in."""
        plain, first = whitening.principal(), whitening.projection_.shape[1]
        kept = min(PLAIN, plain.projection_.shape[1])
        columns = {"whitened": slice(0, first), "plain": slice(first, first + kept)}
        return cls(np.zeros((*shape, first + kept), np.float16), columns, plain)

    def put(self, tile: Tile, cube: Array, whitened: Array, valid: Array) -> None:
        """Put in a tile, from its bands ``(h, w, bands)`` and its whitened components."""
        out = self.values[tile]
        out[..., self.columns["whitened"]] = np.clip(whitened, -LARGEST, LARGEST)
        columns = self.columns["plain"]
        mean = self.plain.mean_.astype(np.float32)
        scale = self.plain.scale_[:, None]
        kept = columns.stop - columns.start
        projection = (self.plain.projection_[:, :kept] / scale).astype(np.float32)
        spectra, known = cube.reshape(-1, cube.shape[-1]), valid.reshape(-1, 1)

        def project(start: int) -> Array:
            some = slice(start, start + CHUNK)
            centered = np.where(known[some], spectra[some] - mean, np.float32(0))
            return np.clip(centered @ projection, -LARGEST, LARGEST).astype(np.float16)

        parts = run_tasks(project, range(0, len(spectra), CHUNK))
        out[..., columns] = np.concatenate(parts).reshape(*tile.shape, kept)

    def view(self, names: tuple[str, ...]) -> Array:
        """Return the components of some views, side by side, ``(height, width, k)``; not a copy."""
        spans = [self.columns[name] for name in self.columns if name in names]
        return self.values[..., spans[0].start : spans[-1].stop]

    def guide(self, tile: Tile, stride: int, count: int) -> Array:
        """Return the ``count`` clearest plain components of a tile, of unit variance."""
        first, ratio = self.columns["plain"].start, self.plain.ratio_[:count]
        every = self.values[tile.rows, tile.cols, first : first + count][::stride, ::stride]
        return every.astype(np.float32) / np.sqrt(ratio).astype(np.float32)
