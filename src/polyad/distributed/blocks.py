"""A lazy scene in, a lazy map out: composes with the rest of a Dask pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from dask.array.overlap import overlap
from dask.delayed import delayed

from polyad.distributed.outputs import class_map
from polyad.errors import InputError
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.classifier import as_scene_model, block_classifier
from polyad.scene.raster.classes import UNLABELED, class_dtype
from polyad.scene.raster.despiking import HALO, despike
from polyad.scene.raster.mask import masked
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.tiles import Block, halo_index

Array = npt.NDArray[Any]


def map_lazy(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: bool = False,
    adapt: bool = False,
) -> xr.DataArray:
    """Return the map of a scene that is a Dask array, to be computed when asked for.

    A block of the map is made from the same block of the scene and the pixels around it that the
    model's window reaches; at the border of the scene they are reflected. The map is that of
    `polyad.map_scene`.

    Parameters
    ----------
    model : SceneModel or classifier
        See `polyad.map_scene`.
    scene : DataArray, dims ``(y, x, band)``
        Backed by Dask. Bands are put in one chunk: a scene chunked by band is read once for every
        block, so chunk it along y and x.
    window : int, optional
        See `polyad.map_scene`.
    probabilities : bool, default=False
        Return the probabilities ``(y, x, class)`` instead of the map.
    adapt : bool, default=False
        See `polyad.map_scene`. A sample of the scene is computed for it at once; without, nothing
        is read and another light is not noticed.

    Returns
    -------
    DataArray, dims ``(y, x)`` or ``(y, x, class)``
        Backed by Dask.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from polyad.scene.read.scenes import scene_from_array
    >>> values = np.random.default_rng(0).normal(size=(8, 6, 3))
    >>> model = GaussianNB().fit(values.reshape(-1, 3), np.arange(48) % 2 + 1)
    >>> lazy = map_lazy(model, scene_from_array(values).chunk(y=4, x=3))
    >>> lazy.chunks
    ((4, 4), (3, 3))
    >>> int(lazy.max())
    2
    """
    scene = as_scene(scene)
    if scene.chunks is None:
        raise InputError(
            "the scene is no Dask array; chunk it with scene.chunk(y=512, x=512), or map it with "
            "polyad.map_scene"
        )
    fitted = as_scene_model(model, scene, window)
    if adapt:
        fitted = adapt_model(fitted, scene, adapt)
    scene = fitted.view(scene)
    if scene.chunks is None:
        raise InputError(
            "bands of the scene must be interpolated to the model's wavelengths, which a lazy map "
            "does not do; map it with polyad.map_file, or resample the scene first"
        )
    if fitted.recipe is not None and fitted.recipe.steps:
        raise InputError(
            "this model's maps take steps that look beyond a block of the scene; map it with "
            "polyad.map_file, or train it with preset='fast'"
        )
    fitted.check_classes("map its scene with polyad.map_file")
    if fitted.merging is not None:
        raise InputError(
            "a lazy map has the classes of the network; map it with the model before merging, and "
            "merge the computed map with polyad.scene.merge_labels"
        )
    halo, pixels = _reach(fitted), masked(scene).data.rechunk({2: -1})
    # An axis no longer than the halo is in one block already and reflected over and over
    depth = {axis: halo if scene.shape[axis] > halo else 0 for axis in (0, 1)}
    if any(depth.values()):
        lap: Any = overlap  # it has no types
        pixels = lap(pixels, depth | {2: 0}, boundary="none")
    inner = _inner_chunks(pixels.chunks, depth, scene.shape)
    # One key in the graph, so that a worker is sent the model once
    once = delayed(fitted, pure=False)
    options: dict[str, Any] = {"fitted": once, "nodata": scene.rio.nodata, "shares": probabilities}
    if probabilities:
        count = len(fitted.classes)
        proba = pixels.map_blocks(
            _classify, **options, chunks=(*inner, (count,)), dtype=np.float32,
            meta=np.empty((0, 0, 0), np.float32),
        )  # fmt: skip
        frame = class_map(fitted, scene, proba[..., 0])
        names = [c.name for c in fitted.classes]
        lazy = xr.DataArray(proba, dims=("y", "x", "class"), coords=frame.coords).rename(None)
        return lazy.assign_coords({"class": names})
    dtype = class_dtype(fitted.classes)
    ids = pixels.map_blocks(
        _classify, **options, chunks=inner, drop_axis=2, dtype=dtype, meta=np.empty((0, 0), dtype)
    )
    lazy = class_map(fitted, scene, ids)
    return lazy.assign_attrs(_FillValue=UNLABELED)


def _reach(model: SceneModel) -> int:
    """Return how many pixels beyond a block decide its map."""
    return model.window // 2 + (0 if model.soundness is None else HALO)


def _inner_chunks(
    chunks: tuple[tuple[int, ...], ...], depth: dict[int, int], shape: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """Return the chunks of the map: those of the scene without the pixels added around them."""
    inner = []
    for axis in (0, 1):
        sizes, last = chunks[axis], len(chunks[axis]) - 1
        added = [depth[axis] * ((k > 0) + (k < last)) for k in range(last + 1)]
        inner.append(tuple(size - extra for size, extra in zip(sizes, added, strict=True)))
        if sum(inner[axis]) != shape[axis]:
            raise InputError(
                f"chunks {sizes} of the scene cannot be cut; chunk it with scene.chunk(y=512)"
            )
    return inner


def _classify(
    values: Array,
    fitted: SceneModel,
    nodata: float | None,
    shares: bool,
    block_info: Any = None,
) -> Array:
    """Classify one block that has its neighbors' pixels on the inner sides."""
    if block_info is None or not values.size:  # Dask asks for the type only
        return np.empty((0,) * (3 if shares else 2), np.float32 if shares else np.uint8)
    place, halo, beyond = block_info[0], fitted.window // 2, _reach(fitted)
    if fitted.soundness is not None:
        values = despike(values, nodata, fitted.soundness)[0]
    index = []
    for axis in (0, 1):
        number, last = place["chunk-location"][axis], place["num-chunks"][axis] - 1
        length = values.shape[axis]
        inner = slice(beyond * (number > 0), length - beyond * (number < last))
        # Where the scene ends so does the block, so reflecting in one is reflecting in the other
        index.append(halo_index(inner, halo, length))
    classify = block_classifier(fitted, nodata, shares)
    ids, proba = classify(Block(values, index[0], index[1]))
    return ids if proba is None else proba
