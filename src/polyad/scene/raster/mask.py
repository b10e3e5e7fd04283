"""Where a scene is looked at: outside counts as no data, and is neither learned from nor mapped.

The coordinate ``inside`` of a scene, dims ``(y, x)``, says where. One function reads pixels for
learning and mapping, `read_pixels`, and puts nodata outside; the scene itself stays as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import SceneMismatch
from polyad.scene.files.option_values import check_bbox
from polyad.scene.raster.despiking import Despiking, NoiseModel, valid_pixels
from polyad.scene.raster.grid import describe_extents, move
from polyad.scene.raster.scene import INSIDE, Scene

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


def bbox_mask(scene: xr.DataArray, bbox: Sequence[float]) -> NDArray[np.bool_]:
    """Return which pixels have their centers in a rectangle of the map, shape ``(height, width)``.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
        With a georeference.
    bbox : (left, bottom, right, top)
        In map coordinates of the scene.

    Raises
    ------
    SceneMismatch
        The scene has no georeference, or no pixel lies in it.

    Examples
    --------
    >>> scene = xr.DataArray(np.ones((2, 3, 1)), dims=("y", "x", "band"),
    ...                      coords={"y": [40.5, 39.5], "x": [10.5, 11.5, 12.5]})
    >>> bbox_mask(scene, (11, 40, 13, 41)).astype(int)
    array([[0, 1, 1],
           [0, 0, 0]])
    """
    grid = Scene.of(scene).grid
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
    """Return a scene as `read_pixels` would give the whole of it, lazily if it is lazy."""
    known = Scene.of(scene)
    if known.inside is None:
        return known.array
    pixels = known.array.astype(known.pixel_dtype)
    return pixels.where(known.array[INSIDE], known.fill)


def pixel_dtype(scene: xr.DataArray) -> np.dtype[Any]:
    """Return the type in which `read_pixels` gives a scene: with NaN outside where it must be."""
    return Scene.of(scene).pixel_dtype


def read_pixels(scene: xr.DataArray, rows: slice, cols: slice) -> NDArray[Any]:
    """Read some pixels; see `Scene.read`."""
    return Scene.of(scene).read(rows, cols)


def read_stored(scene: xr.DataArray, rows: slice, cols: slice) -> NDArray[Any]:
    """Read some pixels; see `Scene.read_stored`."""
    return Scene.of(scene).read_stored(rows, cols)


def repairs_of(scene: xr.DataArray) -> Despiking | None:
    """Return by what the corrupt pixels of a scene are replaced, None if they are not."""
    return Scene.of(scene).despiking


def note_read_whole(scene: xr.DataArray) -> None:
    """Remember that every pixel of a scene has been read, and every corrupt one replaced."""
    repairs = repairs_of(scene)
    if repairs is not None:
        repairs.whole = True


def with_repairs(scene: xr.DataArray, soundness: NoiseModel | None) -> xr.DataArray:
    """Return a scene of which `read_pixels` replaces corrupt pixels; nothing is read."""
    return Scene.of(scene).despiked(soundness).array


def cropped_to_mask(scene: xr.DataArray) -> xr.DataArray:
    """Return the smallest rectangle of a scene that holds all pixels of its mask."""
    return Scene.of(scene).crop_to_mask().array


def without_mask(coords: Any) -> dict[Any, Any]:
    """Return the coordinates that a map takes over from its scene."""
    return {k: v for k, v in coords.items() if set(v.dims) <= {"y", "x"} and k != INSIDE}


def packed(scene: xr.DataArray) -> bytes | None:
    """Return the mask of a scene in few bytes, None if it has none."""
    inside = Scene.of(scene).inside
    return None if inside is None else zlib.compress(np.packbits(inside).tobytes())


def unpacked(scene: xr.DataArray, mask: bytes | None) -> xr.DataArray:
    """Return a scene with the mask that `packed` gave."""
    known = Scene.of(scene)
    if mask is None:
        return known.array
    height, width = known.shape[:2]
    bits = np.unpackbits(np.frombuffer(zlib.decompress(mask), np.uint8), count=height * width)
    return known.masked(bits.reshape(height, width)).array


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
