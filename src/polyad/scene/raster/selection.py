r"""Which pixels and bands of a scene are used: masks, band selection, and the bands of a model.

The coordinate ``inside`` of a scene, dims ``(y, x)``, is its mask. Outside counts as no data, and
is neither learned from nor mapped; the pixels themselves stay as they are.

A scene may have more bands than a model wants, or have them in another order. A band whose center
lies within a tenth of the wanted band's width counts as the same. Within half of the width, the
value at the wanted center is interpolated between the two bands around it,
:math:`x(\lambda) = (1 - t) x_a + t x_b`. Anything farther is another band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError, SceneError, SceneMismatch
from polyad.scene.files.option_values import check_bbox
from polyad.scene.raster.bands import keep_bands
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.grid import Grid, describe_extents, move
from polyad.scene.raster.scene import INSIDE, Scene, lazy_scene
from polyad.scene.raster.windows import Tile, plan_tiles, tile_shape

_STRIP_BYTES = 64 * 2**20  # what valid_mask holds at a time
_STRIP_PIXELS = 2**22  # whose places on the map are worked out at a time


def mask_scene(scene: xr.DataArray, mask: xr.DataArray | ArrayLike) -> xr.DataArray:
    """Return a scene of which only the pixels in ``mask`` are learned from and mapped.

    Outside counts as no data in training, mapping and accuracy assessment; maps keep the grid of
    the whole scene. No pixel is read or changed, so a masked scene is still known for the scene
    that a model was trained on.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    mask : DataArray, dims ``(y, x)``, or array of shape ``(height, width)``
        Inside where it is True or not 0. Of a scene that is masked already, what both hold is left.

    Returns
    -------
    DataArray
        The scene with the coordinate ``inside``.

    Raises
    ------
    SceneMismatch
        The mask has another grid, or holds no pixel of the scene.

    Examples
    --------
    >>> scene = xr.DataArray(np.ones((2, 3, 4)), dims=("y", "x", "band"))
    >>> masked = mask_scene(scene, [[0, 1, 1], [0, 0, 0]])
    >>> int(masked["inside"].sum())
    2
    """
    return Scene.of(scene).masked(mask).array


def bbox_mask(grid: Grid, bbox: Sequence[float]) -> NDArray[np.bool_]:
    """Return which pixels have their centers in a rectangle of the map, shape ``(height, width)``.

    Parameters
    ----------
    grid : Grid
        Of the scene, with a georeference.
    bbox : (left, bottom, right, top)
        In map coordinates of the scene.

    Raises
    ------
    SceneMismatch
        The scene has no georeference, or no pixel lies in it.

    Examples
    --------
    >>> from affine import Affine
    >>> grid = Grid((2, 3), None, Affine(1, 0, 10, 0, -1, 41))
    >>> bbox_mask(grid, (11, 40, 13, 41)).astype(int)
    array([[0, 1, 1],
           [0, 0, 0]])
    """
    if grid.transform is None:
        raise SceneMismatch(
            "a bounding box lies on the map, but the scene has no georeference; give a mask of the "
            "scene's rows and columns"
        )
    left, bottom, right, top = check_bbox(bbox)
    height, width = grid.shape
    inside = np.empty((height, width), bool)
    strip = max(1, _STRIP_PIXELS // width)
    for start in range(0, height, strip):
        rows = np.arange(start, min(start + strip, height), dtype=np.float64)[:, None] + 0.5
        x, y = move(grid.transform, np.arange(width, dtype=np.float64)[None, :] + 0.5, rows)
        inside[start : start + strip] = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    if not inside.any():
        corners = np.array([(left, bottom), (left, top), (right, bottom), (right, top)])
        pixels = np.stack(move(~grid.transform, corners[:, 0], corners[:, 1]), axis=1)
        raise SceneMismatch(
            "no pixel of the scene has its center in the bounding box: "
            f"{describe_extents(pixels, grid, 'it reaches')}; give left, bottom, right and top in "
            "map coordinates of the scene"
        )
    return inside


def masked(scene: xr.DataArray) -> xr.DataArray:
    """Return a scene as `Scene.read` would give the whole of it, lazily if it is lazy."""
    known = Scene.of(scene)
    if known.inside is None:
        return known.array
    pixels = known.array.astype(known.pixel_dtype)
    return pixels.where(known.array[INSIDE], known.fill)


def valid_mask(scene: xr.DataArray) -> NDArray[np.bool_]:
    """Return which pixels of ``scene`` have a measurement in every band, shape ``(y, x)``.

    A lazily opened scene is read strip by strip, so that memory stays bounded. For one tile, pass
    ``scene.isel(y=..., x=...)``.
    """
    known = Scene.of(scene)
    rows, cols, bands = known.shape
    strip = max(1, _STRIP_BYTES // max(1, cols * bands * known.dtype.itemsize))
    mask = np.empty((rows, cols), bool)
    for top in range(0, rows, strip):
        part = known.read(slice(top, top + strip), slice(None))
        mask[top : top + strip] = valid_pixels(part, known.nodata)
    return mask


EMPTY, LOOKED_AT = "without data in any pixel", "bands_looked_at"
LOOKS = 32  # tiles of a large scene that are looked at for bands without data

Array = NDArray[Any]
Ranges = str | Sequence[tuple[float, float]]


def usable_bands(scene: xr.DataArray) -> xr.DataArray:
    """Return ``scene`` without the bands that have no data wherever the scene has data.

    Kept, one such band would leave no pixel with data in all bands. Tiles are read until every band
    has shown a value, as a rule one tile; of a large scene `LOOKS` of them, spread over it.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``

    Returns
    -------
    DataArray
        With a mark, so that it is not looked at again.

    Examples
    --------
    >>> values = np.ones((2, 2, 3))
    >>> values[..., 1] = np.nan
    >>> Scene.of(usable_bands(xr.DataArray(values, dims=("y", "x", "band")))).bands.left_out
    '2 without data in any pixel'
    """
    return with_usable_bands(Scene.of(scene)).array


def with_usable_bands(known: Scene) -> Scene:
    """Return a scene without the bands that have no data, see `usable_bands`."""
    if LOOKED_AT in known.array.attrs or (known.dtype.kind != "f" and known.nodata is None):
        return known  # in the second case every value is a measurement
    empty = np.ones(known.bands.count, bool)
    for tile in _looks(known):
        left = np.flatnonzero(empty)
        values = known.select(left).read(*tile)  # (h, w, bands left)
        empty[left] = ~valid_pixels(values[..., None], known.nodata).any(axis=(0, 1))
        if not empty.any():
            break
    # A scene without any data is told as what it is by whoever wants its pixels
    usable = known.array if empty.all() else keep_bands(known.array, ~empty, EMPTY)
    return Scene(usable.assign_attrs({LOOKED_AT: "yes"}))


def _looks(scene: Scene) -> Iterator[Tile]:
    """Yield the tiles to look at, the middle of the scene first: its corners often have no data."""
    # Four times as many bytes for a pixel as it has make tiles of a quarter of the usual size
    size = tile_shape(scene.shape[:2], 4 * scene.bands.count * scene.dtype.itemsize)
    tiles = plan_tiles(scene.shape[:2], size)
    if scene.inside is not None:  # only where the scene is looked at
        tiles = [tile for tile in tiles if scene.inside[tile].any()]
    chosen = np.unique(np.linspace(0, len(tiles) - 1, LOOKS).astype(int))
    for number in sorted(chosen, key=lambda n: abs(n - len(tiles) // 2)):
        yield tiles[number]


def select_bands(
    scene: xr.DataArray, bands: Ranges | None = None, drop_nm: Ranges | None = None
) -> xr.DataArray:
    """Return ``scene`` with the bands whose center lies in some wavelengths and not in others.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
        With wavelengths.
    bands : str or sequence of (low, high), optional
        Ranges in nm to keep, both ends included, as in ``"400-1300,1450-1800"``; all if not given.
    drop_nm : str or sequence of (low, high), optional
        Ranges in nm to leave out.

    Raises
    ------
    InputError
        The ranges cannot be understood.
    SceneError
        The scene has no wavelengths, or no band is left.

    Examples
    --------
    >>> coords = {"wavelength": ("band", [500.0, 900.0, 1400.0, 1900.0])}
    >>> scene = xr.DataArray(np.zeros((1, 1, 4)), dims=("y", "x", "band"), coords=coords)
    >>> select_bands(scene, "400-1500", drop_nm=[(1340, 1450)])["wavelength"].values.tolist()
    [500.0, 900.0]
    """
    known = Scene.of(scene)
    if bands is None and drop_nm is None:
        return known.array
    if known.bands.wavelength is None:
        raise SceneError(
            "bands are chosen by wavelength, and the scene has none; add them to its header, or in "
            "Python take bands by number with scene.isel(band=...)"
        )
    centers = np.asarray(known.bands.wavelength, float)
    keep = np.ones(len(centers), bool) if bands is None else _within(centers, parse_ranges(bands))
    if drop_nm is not None:
        keep &= ~_within(centers, parse_ranges(drop_nm))
    return keep_bands(known.array, keep, "not chosen")


def parse_ranges(ranges: Ranges) -> list[tuple[float, float]]:
    """Return ranges of wavelengths as numbers.

    Examples
    --------
    >>> parse_ranges("400-1300, 1450.5-1800")
    [(400.0, 1300.0), (1450.5, 1800.0)]
    """
    try:
        texts = [r.split("-") for r in ranges.split(",")] if isinstance(ranges, str) else ranges
        pairs = [(float(low), float(high)) for low, high in texts]
    except ValueError:
        pairs = []
    if not pairs or not all(low <= high for low, high in pairs):
        raise InputError(
            f"expected wavelengths in nm as ranges such as 400-1300,1450-1800, the smaller end "
            f"first, got {ranges!r}"
        )
    return pairs


def _within(centers: Array, ranges: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    return np.any([(low <= centers) & (centers <= high) for low, high in ranges], axis=0)


SAME, NEAR = 0.1, 0.5  # of a band's width


@dataclass(frozen=True)
class BandMatch:
    """Where the wanted bands lie among those of a scene.

    Attributes
    ----------
    first, second : ndarray of int, ``(wanted,)``
        The two bands of the scene that a wanted band is made from.
    share : ndarray, ``(wanted,)``
        Of the second of them; 0 where the first is taken as it is.
    shift : float
        The largest distance in nm between a wanted band and the nearest one of the scene.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    share: NDArray[np.float64]
    shift: float

    @property
    def interpolated(self) -> int:
        """How many bands are made from two."""
        return int(np.count_nonzero(self.share))


def match_bands(wanted: Array, widths: Array, centers: Array) -> BandMatch:
    """Find the bands at ``wanted`` wavelengths among those of a scene at ``centers``.

    Parameters
    ----------
    wanted : ndarray, ``(wanted,)``
        Centers in nm.
    widths : ndarray, ``(wanted,)``
        Of these bands, in nm.
    centers : ndarray, ``(bands,)``
        Of the scene, in any order.

    Raises
    ------
    SceneMismatch
        A wanted band is farther than half its width from every band of the scene.

    Examples
    --------
    >>> match = match_bands(np.array([500.0, 603.0]), np.array([10.0, 10.0]),
    ...                     np.array([600.0, 610.0, 500.5]))
    >>> match.first.tolist(), match.second.tolist(), match.share.tolist(), match.shift
    ([2, 0], [2, 1], [0.0, 0.3], 3.0)
    """
    order = np.argsort(centers, kind="stable")  # unknown ones, NaN, last
    order = order[: np.count_nonzero(np.isfinite(centers))]
    if not len(order):
        raise SceneMismatch("the scene does not tell the wavelength of any band; train a new model")
    above = np.searchsorted(centers[order], wanted)
    low, high = (order[np.clip(above + k, 0, len(order) - 1)] for k in (-1, 0))
    below = np.abs(wanted - centers[low]) < np.abs(wanted - centers[high])
    nearest = np.where(below, low, high)
    shift = np.abs(wanted - centers[nearest])
    far = ~(shift < NEAR * widths) & (shift > 0)
    if far.any():
        worst = int(np.flatnonzero(far)[shift[far].argmax()])
        raise SceneMismatch(
            f"model wants {len(wanted)} bands{span(wanted)}, scene has {len(centers)}"
            f"{span(centers)}: the nearest to the model's band at {wanted[worst]:.1f} nm, "
            f"{widths[worst]:.1f} nm wide, is {shift[worst]:.1f} nm away; give the scene the bands "
            "the model was trained on, as with gdal_translate -b, or train a model on this scene"
        )
    if len(np.unique(nearest)) < len(nearest):
        twice = np.bincount(nearest).argmax()
        low, high = np.sort(wanted[nearest == twice])[:2]
        raise SceneMismatch(
            f"two bands of the model, at {low:.1f} and {high:.1f} nm, are nearest to one band of "
            "the scene; resample the scene to the model's bands, or train a model on this scene"
        )
    first, second, share = nearest.copy(), nearest.copy(), np.zeros(len(wanted))
    # Beyond the scene's range the nearest band is taken
    between = (shift > SAME * widths) & (above > 0) & (above < len(order))
    first[between], second[between] = low[between], high[between]
    step = centers[high[between]] - centers[low[between]]
    share[between] = (wanted[between] - centers[low[between]]) / step
    return BandMatch(first, second, share, float(shift.max(initial=0.0)))


def scene_in_bands(scene: Scene, match: BandMatch, wanted: Array) -> Scene:
    """Return ``scene`` with the bands of a match, at ``wanted`` wavelengths; nothing is read.

    Bands that are only chosen or put in another order are the scene's own; where one has to be
    interpolated, all are float32, with NaN where there is no data.
    """
    if not match.interpolated:
        same = np.array_equal(match.first, np.arange(scene.bands.count))
        return scene if same else scene.select(match.first)
    source = ResampledSource(scene.array, match)
    place = {k: v for k, v in scene.array.coords.items() if "band" not in v.dims}
    resampled = lazy_scene(source, wavelength=np.asarray(wanted, float), nodata=np.nan)
    numbers = ("band", scene.bands.number[match.first])
    return Scene(resampled.assign_coords(place).assign_coords(number=numbers))


@dataclass(frozen=True)
class ResampledSource:
    """The pixels of a scene at the wavelengths of a match, float32; NaN where there is no data."""

    scene: xr.DataArray
    match: BandMatch

    @property
    def path(self) -> Path:
        """The scene's file, for error messages."""
        return Path(str(self.scene.encoding.get("source", "scene")))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and wanted bands."""
        return self.scene.sizes["y"], self.scene.sizes["x"], len(self.match.first)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single precision."""
        return np.dtype(np.float32)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        first, second, share = (
            a[bands] for a in (self.match.first, self.match.second, self.match.share)
        )
        needed, place = np.unique(np.concatenate([first, second]), return_inverse=True)
        stored = self.scene.isel(y=rows, x=cols, band=needed).values
        with np.errstate(over="ignore"):  # what is infinite as float32 is no data
            values = stored.astype(np.float32)
        values[~valid_pixels(stored[..., None], self.scene.rio.nodata)] = np.nan
        a, b = values[..., place[: len(first)]], values[..., place[len(first) :]]
        return np.where(share > 0, (1 - share) * a + share * b, a).astype(np.float32)


def span(wavelength: Any) -> str:
    """Return the range of wavelengths as words, "" where it is not known.

    Examples
    --------
    >>> span([418.2, 2445.5])
    ' (418 to 2446 nm)'
    """
    centers = np.asarray([] if wavelength is None else wavelength, float)
    centers = centers[np.isfinite(centers)]
    return f" ({centers.min():.0f} to {centers.max():.0f} nm)" if len(centers) else ""
