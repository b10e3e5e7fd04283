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
from polyad.scene.raster.corrupt import HALO, REPAIRS, Repairs, Soundness, repair
from polyad.scene.raster.georeference import grid_of
from polyad.scene.raster.grid import check_same_place, describe_extents, move
from polyad.scene.raster.scene import as_labels, as_scene

INSIDE = "inside"
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
    scene = as_scene(scene)
    if isinstance(mask, xr.DataArray | xr.Dataset):
        mask = as_labels(mask)
        check_same_place(grid_of(scene), grid_of(mask))
    values = np.asarray(mask)
    if values.shape != scene.shape[:2] or values.dtype.kind not in "biuf":
        raise SceneMismatch(
            f"a mask must have the scene's {scene.shape[0]} rows and {scene.shape[1]} columns, got "
            f"shape {values.shape} of {values.dtype}; resample it to the scene's grid"
        )
    inside = (values != 0) & ~np.isnan(values) if values.dtype.kind == "f" else values != 0
    if INSIDE in scene.coords:
        inside = inside & scene[INSIDE].values
    if not inside.any():
        raise SceneMismatch(
            "no pixel of the scene lies inside the mask; choose one that overlaps the scene"
        )
    return scene.assign_coords({INSIDE: (("y", "x"), inside)})


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
    grid = grid_of(as_scene(scene))
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


def pixel_dtype(scene: xr.DataArray) -> np.dtype[Any]:
    """Return the type in which `read_pixels` gives a scene: with NaN outside where it must be."""
    stored = np.dtype(scene.dtype)
    if INSIDE not in scene.coords or stored.kind == "f" or _nodata(scene) is not None:
        return stored
    return np.dtype(np.float32 if stored.itemsize <= 2 else np.float64)


def read_pixels(scene: xr.DataArray, rows: slice, cols: slice) -> NDArray[Any]:
    """Read some pixels for learning or mapping, ``(h, w, bands)``, with nodata outside the mask.

    What lies outside as a whole is not read. Of a scene from `with_repairs`, corrupt pixels are
    replaced by their neighbors, whatever the window.
    """
    scene = as_scene(scene)
    repairs = repairs_of(scene)
    if repairs is None:
        return read_stored(scene, rows, cols)
    wide, inner, own = [], [], []
    for side, length in zip((rows, cols), scene.shape[:2], strict=True):
        first, stop, _ = side.indices(length)
        start = max(first - HALO, 0)
        own.append(slice(first, stop))
        wide.append(slice(start, min(stop + HALO, length)))
        inner.append(slice(first - start, stop - start))
    stored = read_stored(scene, wide[0], wide[1])
    pixels, replaced = repair(stored, scene.rio.nodata, repairs.soundness)
    repairs.note(own[0], own[1], replaced[inner[0], inner[1]])
    return pixels[inner[0], inner[1]]


def repairs_of(scene: xr.DataArray) -> Repairs | None:
    """Return by what the corrupt pixels of a scene are replaced, None if they are not."""
    repairs: Repairs | None = scene.attrs.get(REPAIRS)
    fits = repairs is not None and repairs.soundness.bands == scene.sizes["band"]
    return repairs if fits else None


def note_read_whole(scene: xr.DataArray) -> None:
    """Remember that every pixel of a scene has been read, and every corrupt one replaced."""
    repairs = repairs_of(scene)
    if repairs is not None:
        repairs.whole = True


def with_repairs(scene: xr.DataArray, soundness: Soundness | None) -> xr.DataArray:
    """Return a scene of which `read_pixels` replaces corrupt pixels; nothing is read."""
    repairs = scene.attrs.get(REPAIRS)
    if soundness is None or soundness.bands != scene.sizes["band"]:
        if repairs is not None:
            scene = scene.copy(deep=False)
            del scene.attrs[REPAIRS]
        return scene
    shape = scene.sizes["y"], scene.sizes["x"]
    if repairs is not None and repairs.soundness is soundness and repairs.shape == shape:
        return scene
    return scene.assign_attrs({REPAIRS: Repairs(soundness, shape)})


def read_stored(scene: xr.DataArray, rows: slice, cols: slice) -> NDArray[Any]:
    """Read some pixels as they are stored, with nodata outside the mask."""
    window = scene.isel(y=rows, x=cols)
    if INSIDE not in scene.coords:
        return np.asarray(window.values)
    inside, nodata = window[INSIDE].values, _nodata(scene)
    outside = np.nan if nodata is None else nodata
    if inside.all():
        return np.asarray(window.values).astype(pixel_dtype(scene), copy=False)
    pixels = np.full(window.shape, outside, pixel_dtype(scene))
    if inside.any():  # of a large window with a small part inside, that part is read
        part = tuple(_reach(np.asarray(inside.any(axis=1 - axis))) for axis in (0, 1))
        within = inside[part][..., None]
        np.copyto(pixels[part], window.isel(y=part[0], x=part[1]).values, "same_kind", where=within)
    return pixels


def masked(scene: xr.DataArray) -> xr.DataArray:
    """Return a scene as `read_pixels` would give the whole of it, lazily if it is lazy."""
    if INSIDE not in scene.coords:
        return scene
    nodata = _nodata(scene)
    pixels = scene.astype(pixel_dtype(scene)) if nodata is None else scene
    return pixels.where(scene[INSIDE], np.nan if nodata is None else nodata)


def cropped_to_mask(scene: xr.DataArray) -> xr.DataArray:
    """Return the smallest rectangle of a scene that holds all pixels of its mask."""
    if INSIDE not in scene.coords:
        return scene
    inside = scene[INSIDE].values
    rows, cols = (_reach(np.asarray(inside.any(axis=1 - axis))) for axis in (0, 1))
    cut, repairs = scene.isel(y=rows, x=cols), repairs_of(scene)
    if repairs is None:
        return cut
    # A count of its own: rows and columns of the cut are not those of the scene
    return cut.assign_attrs({REPAIRS: Repairs(repairs.soundness, (cut.sizes["y"], cut.sizes["x"]))})


def _reach(line: NDArray[np.bool_]) -> slice:
    """Return the slice from the first to the last that is True."""
    where = np.flatnonzero(line)
    return slice(int(where[0]), int(where[-1]) + 1)


def without_mask(coords: Any) -> dict[Any, Any]:
    """Return the coordinates that a map takes over from its scene."""
    return {k: v for k, v in coords.items() if set(v.dims) <= {"y", "x"} and k != INSIDE}


def _nodata(scene: xr.DataArray) -> float | None:
    """Return the nodata value of a scene if its values can have it, else None."""
    nodata = scene.rio.nodata
    if nodata is None or np.isnan(nodata):
        return None
    stored = np.dtype(scene.dtype)
    if stored.kind == "f":
        return float(nodata)
    limits = np.iinfo(stored) if stored.kind in "iu" else None
    whole = limits is not None and float(nodata).is_integer()
    return nodata if whole and limits and limits.min <= nodata <= limits.max else None


def packed(scene: xr.DataArray) -> bytes | None:
    """Return the mask of a scene in few bytes, None if it has none."""
    if INSIDE not in scene.coords:
        return None
    return zlib.compress(np.packbits(scene[INSIDE].values).tobytes())


def unpacked(scene: xr.DataArray, mask: bytes | None) -> xr.DataArray:
    """Return a scene with the mask that `packed` gave."""
    scene = as_scene(scene)
    if mask is None:
        return scene
    height, width = scene.shape[:2]
    bits = np.unpackbits(np.frombuffer(zlib.decompress(mask), np.uint8), count=height * width)
    return mask_scene(scene, bits.reshape(height, width))
