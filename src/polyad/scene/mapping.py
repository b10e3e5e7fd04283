r"""From a scene and a fitted model to a class map, tile by tile.

A scene is never cut into patches to be mapped. The weight of a hidden unit is a sum of separable
terms, :math:`W^{(q)} = \sum_r w_1^{(q,r)} \circ w_2^{(q,r)} \circ w_3^{(q,r)}`, so its product with
the window around every pixel of a tile is

1. one matrix product: each pixel's spectrum with the Q * R spectral factors, and
2. a short correlation of the result with the spatial factors, each term with its own.

The answer is the one that patch by patch gives, for about ``window ** 2`` times less work, and no
patch is ever made. A model of another kind is mapped by batches of patches. In both cases memory is
bounded by the tile, not by the scene.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import softmax
from tqdm import tqdm

from polyad.atomic import replacing_together
from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.classes import UNLABELLED, ClassInfo, class_color, with_classes
from polyad.scene.geotiff_map import MapWriter, class_dtype
from polyad.scene.model import SceneModel
from polyad.scene.model_header import working_bytes
from polyad.scene.order import as_scene
from polyad.scene.patches import check_window
from polyad.scene.readers import valid_pixels
from polyad.scene.refining import active_steps, refiner, warn_of_other_scene
from polyad.scene.separable import Scorer, separable_scorer, standardization
from polyad.scene.tiles import Block, Mosaic, Tile, plan_tiles, read_block, tile_shape
from polyad.scene.writers import (
    add_map,
    add_probabilities,
    check_output,
    georeference,
    write_map,
)
from polyad.threads import run_parts

Array = npt.NDArray[Any]
# Of projected pixels computed at once by each thread: few enough to stay in the processor's caches,
# and enough for the halo to weigh little.
PIECE_BYTES = 3 * 2**20
PATCH_BYTES = 64 * 2**20
WORKING_SHARE = 16  # what is computed of a tile may take this many times what is read of it


@overload
def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: Literal[False] = False,
    tile: int | None = None,
    progress: bool = False,
) -> xr.DataArray: ...


@overload
def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: Literal[True],
    tile: int | None = None,
    progress: bool = False,
) -> tuple[xr.DataArray, xr.DataArray]: ...


def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: bool = False,
    tile: int | None = None,
    progress: bool = False,
) -> xr.DataArray | tuple[xr.DataArray, xr.DataArray]:
    """Classify every pixel of a scene.

    Parameters
    ----------
    model : SceneModel or classifier
        A fitted `SceneModel`, or any scikit-learn classifier of patches (with ``window``) or of
        spectra (without), whose classes are positive whole numbers.
    scene : DataArray, dims ``(y, x, band)``
        May be lazy: it is read tile by tile.
    window : int, optional
        Side of the patches that ``model`` wants, when it is not a `SceneModel` or Rank-R
        classifier, which know it.
    probabilities : bool, default=False
        Return the class probabilities too.
    tile : int, optional
        Side of a tile in pixels; chosen by memory when not given.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    class_map : DataArray, dims ``(y, x)``
        Class ids, 0 where the scene has no data, with the scene's georeference and the classes'
        names and colours.
    proba : DataArray, dims ``(y, x, class)``
        If asked for; NaN where the scene has no data.
    """
    scene = as_scene(scene)
    model = as_scene_model(model, scene, window)
    class_map = blank_map(model, scene)
    shape = (*class_map.shape, len(model.classes))
    proba = np.empty(shape, np.float32) if probabilities else None
    for part, found, shares in iter_map(model, scene, probabilities, tile, progress):
        class_map.values[part] = found
        if proba is not None:
            proba[part] = shares
    if proba is None:
        return class_map
    names = {"class": [c.name for c in model.classes]}
    return class_map, _like(scene, proba, ("y", "x", "class")).assign_coords(names)


def blank_map(model: SceneModel, scene: xr.DataArray) -> xr.DataArray:
    """Return a map of ``scene`` in which no pixel has a class yet, dims ``(y, x)``."""
    scene = as_scene(scene)
    ids = np.zeros((scene.sizes["y"], scene.sizes["x"]), class_dtype(model.classes))
    class_map = with_classes(_like(scene, ids, ("y", "x")), model.classes)
    class_map.attrs["_FillValue"] = UNLABELLED
    return class_map


def map_file(
    model: Any,
    scene: xr.DataArray,
    path: str | os.PathLike[str],
    *,
    window: int | None = None,
    probabilities: str | os.PathLike[str] | None = None,
    probability_dtype: str = "float32",
    tile: int | None = None,
    progress: bool = False,
) -> None:
    """Map a scene into a file.

    A GeoTIFF is written tile by tile, so neither scene nor map need fit in memory; the other
    kinds are made from the whole map.

    Parameters
    ----------
    model, scene, window, tile, progress
        See `map_scene`.
    path : path-like
        The class map: ``.tif``, ``.hdr``, ``.png``, ``.nc`` or ``.npy``. It appears when whole.
    probabilities : path-like, optional
        A GeoTIFF with one band for each class.
    probability_dtype : {"float32", "uint8"}, default="float32"
    """
    scene = as_scene(scene)
    model = as_scene_model(model, scene, window)
    model.check(scene)
    check_output(path, "map")
    if probabilities is not None:
        check_output(probabilities, "file of probabilities")
    if Path(path).suffix.lower() not in (".tif", ".tiff"):
        if probabilities is None:
            write_map(path, map_scene(model, scene, tile=tile, progress=progress))
            return
        class_map, proba = map_scene(model, scene, probabilities=True, tile=tile, progress=progress)
        with replacing_together() as outputs:
            add_map(outputs, path, class_map)
            add_probabilities(outputs, probabilities, proba, probability_dtype)
        return
    crs, transform = georeference(scene)
    shape = scene.sizes["y"], scene.sizes["x"]
    with MapWriter(
        path,
        shape,
        model.classes,
        crs=crs,
        transform=transform,
        probabilities=probabilities,
        probability_dtype=probability_dtype,
    ) as writer:
        wanted = probabilities is not None
        for part, found, shares in iter_map(model, scene, wanted, tile, progress):
            writer.write((part.rows, part.cols), found, shares)


def iter_map(
    model: SceneModel,
    scene: xr.DataArray,
    probabilities: bool,
    tile: int | None = None,
    progress: bool = False,
    tiles: Sequence[Tile] | None = None,
) -> Iterator[tuple[Tile, Array, Array | None]]:
    """Yield each tile with its class ids ``(h, w)`` and, if asked for, its probabilities.

    Parameters
    ----------
    model, scene, probabilities, tile, progress
        See `map_scene`.
    tiles : sequence of Tile, optional
        The tiles to map; those of the whole scene when not given.

    Yields
    ------
    tile : Tile
    ids : ndarray, ``(h, w)``
    proba : ndarray of float32, ``(h, w, classes)``, or None
    """
    scene = as_scene(scene)
    model.check(scene)
    warn_of_other_scene(model, scene)
    map_tile = tile_mapper(model, scene, probabilities)
    tiles = scene_tiles(scene, tile, model) if tiles is None else tiles
    for part in tqdm(tiles, desc="mapping", unit="tile", disable=not progress):
        yield part, *map_tile(part)


def tile_mapper(
    model: SceneModel, scene: xr.DataArray, probabilities: bool = False
) -> Callable[[Tile], tuple[Array, Array | None]]:
    """Return the function that maps one tile of a scene, by the network and the model's steps.

    It gives ids ``(h, w)`` and, if asked for, probabilities ``(h, w, classes)``. It keeps buffers,
    and what its steps learned of the whole scene: use one in each thread.
    """
    scene = as_scene(scene)
    steps, halo = active_steps(model, scene), model.window // 2
    classify = block_classifier(model, scene.rio.nodata, probabilities or bool(steps))
    if not steps:
        return lambda tile: classify(read_block(scene, tile, halo))

    def network(tile: Tile) -> Array:
        return np.asarray(classify(read_block(scene, tile, halo))[1])

    refined = refiner(model, scene, steps, network)
    values = np.array([c.value for c in model.classes], class_dtype(model.classes))

    def map_tile(tile: Tile) -> tuple[Array, Array | None]:
        proba = refined(tile)
        blank = np.isnan(proba[..., 0])
        ids = values[np.where(blank[..., None], 0, proba).argmax(axis=-1)]
        ids[blank] = UNLABELLED
        return ids, proba if probabilities else None

    return map_tile


def scene_tiles(
    scene: xr.DataArray, side: int | None = None, model: SceneModel | None = None
) -> list[Tile]:
    """Return the tiles that a scene is mapped by, in the order in which they are written.

    A model of very many classes gets smaller ones, for the probabilities of a tile's pixels.
    """
    scene = as_scene(scene)
    shape = scene.sizes["y"], scene.sizes["x"]
    read = scene.sizes["band"] * scene.dtype.itemsize
    made = 0 if model is None else working_bytes(len(model.classes), model.recipe)
    return plan_tiles(shape, tile_shape(shape, max(read, made // WORKING_SHARE), side))


def block_classifier(
    model: SceneModel, nodata: float | None, probabilities: bool = False
) -> Callable[[Block], tuple[Array, Array | None]]:
    """Return the function that classifies one tile, read with its halo, by the network alone.

    It takes a block whose halo is half the model's window, and returns ids ``(h, w)`` and, if
    asked for, probabilities ``(h, w, classes)``. The pieces of a tile are shared out among as many
    threads as torch has.
    """
    values = np.array([c.value for c in model.classes], class_dtype(model.classes))
    halo, side = model.window // 2, piece_side(model)
    spare: list[Scorer] = []  # they keep buffers: one for each thread, and for the next tile
    fill = np.asarray(0.0 if model.fill is None else model.fill, np.float32)  # (bands,) or ()

    def classify(block: Block) -> tuple[Array, Array | None]:
        shape = len(block.rows) - 2 * halo, len(block.cols) - 2 * halo
        ids = np.empty(shape, values.dtype)
        shares = np.empty((*shape, len(values)), np.float32) if probabilities else None
        inner = slice(halo, -halo or None)

        def classify_piece(piece: Tile) -> None:
            try:
                scorer = spare.pop()
            except IndexError:
                scorer = make_scorer(model)
            rows, cols = (slice(p.start, p.stop + 2 * halo) for p in piece)
            pixels = block.cut(rows, cols)
            scores = None if pixels.holds(nodata) else scorer(pixels)  # (classes, h, w)
            valid = None
            if scores is None:
                gathered = pixels.whole()
                valid = valid_pixels(gathered, nodata)
                filled = Mosaic.of(np.where(valid[..., None], gathered, fill))
                scores = np.asarray(scorer(filled, sure=True))
            ids[piece] = values[largest(scores)]
            if shares is not None:
                shares[piece] = softmax(scores, axis=0).transpose(1, 2, 0)
            if valid is not None:
                blank = ~valid[inner, inner]
                ids[piece][blank] = UNLABELLED
                if shares is not None:
                    shares[piece][blank] = np.nan
            spare.append(scorer)

        pieces = plan_tiles(shape, (equal_parts(shape[0], side), equal_parts(shape[1], side)))
        if _may_share_out(model):
            run_parts(classify_piece, pieces)
        else:
            for piece in pieces:
                classify_piece(piece)
        return ids, shares

    return classify


def as_scene_model(model: Any, scene: xr.DataArray, window: int | None = None) -> SceneModel:
    """Return ``model`` itself if it is a `SceneModel`, else make one of a bare classifier."""
    scene = as_scene(scene)
    if isinstance(model, SceneModel):
        return model
    ids = np.asarray(model.classes_)
    if ids.dtype.kind not in "iu":
        raise InputError(
            f"a map holds whole numbers, the model has classes {ids[:3]!r}...; fit it on class ids"
        )
    classes = tuple(ClassInfo(int(v), f"class {v}", class_color(int(v))) for v in ids)
    side, bands = _window_and_bands(model, window, scene.sizes["band"])
    if not _is_separable(model, side):
        return SceneModel(model, side, classes, bands)
    centre, _ = standardization(model, bands)
    return SceneModel(model, side, classes, bands, fill=tuple(centre.tolist()))


def _is_separable(estimator: Any, window: int) -> bool:
    return isinstance(estimator, RankRClassifier) and (
        window == 1 or len(estimator.sample_shape_) > 1
    )


def _may_share_out(model: SceneModel) -> bool:
    """Whether several threads may score at a time; of other classifiers that is not known."""
    return _is_separable(model.estimator, model.window) and (
        model.estimator.network_.output.weight.device.type == "cpu"
    )


def _window_and_bands(model: Any, window: int | None, scene_bands: int) -> tuple[int, int]:
    """Return what a bare classifier was fitted on, as far as it tells."""
    shape = tuple(getattr(model, "sample_shape_", ()))
    if len(shape) > 1:
        if len(shape) < 3 or shape[0] != shape[1]:
            raise InputError(
                f"a scene is mapped by a model of square windows (s, s, bands) or of spectra "
                f"(bands,), this one was fitted on samples of {shape}"
            )
        if window not in (None, shape[0]):
            raise InputError(
                f"the model was fitted on windows of side {shape[0]}, got window={window}; "
                "leave it out"
            )
        return check_window(shape[0]), math.prod(shape[2:])
    side = check_window(1 if window is None else window)
    features = int(getattr(model, "n_features_in_", 0))
    if features in (0, side):  # it takes patches, or does not tell
        return side, scene_bands
    if features % side**2:
        raise InputError(
            f"the model was fitted on {features} values, which are no windows of {side} x {side} "
            "pixels; pass the window it was fitted on"
        )
    return side, features // side**2


def make_scorer(model: SceneModel) -> Scorer:
    """Return the separable path for a Rank-R classifier, batches of patches for any other."""
    if _is_separable(model.estimator, model.window):
        return separable_scorer(model.estimator)
    return patch_scorer(model.estimator, model.window)


def piece_side(model: SceneModel) -> int:
    """Return the side of the pieces in which a thread computes a tile, at most.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> piece_side(SceneModel(SimpleNamespace(hidden=75, rank=1), 5, (), 200))
    98
    """
    if isinstance(model.estimator, RankRClassifier):  # its parameters need not be its network's
        layer = model.estimator.network_.hidden
        terms = layer.out_features * layer.rank
    else:
        terms = getattr(model.estimator, "hidden", 1) * getattr(model.estimator, "rank", 1)
    padded = math.isqrt(PIECE_BYTES // (4 * max(terms, len(model.classes))))
    return min(max(padded - model.window + 1, 16 if terms < 2**16 else 1), 256)


def equal_parts(length: int, most: int) -> int:
    """Return how long the parts are, if ``length`` is cut into equal ones of at most ``most``.

    Examples
    --------
    >>> equal_parts(145, most=140)
    73
    """
    return -(-length // -(-length // most))


def patch_scorer(estimator: Any, window: int) -> Scorer:
    """Score a tile patch by patch: for any classifier, and the reference for the fast path.

    Scores are log-probabilities, or for a classifier that has none, one for the class predicted.
    """

    def scores(pixels: Mosaic, sure: bool = False) -> Array | None:
        block = pixels.whole()
        if not sure and not valid_pixels(block).all():
            return None
        views = np.lib.stride_tricks.sliding_window_view(block, (window, window), axis=(0, 1))
        views = views.transpose(0, 1, 3, 4, 2)  # (h, w, window, window, bands)
        height, width = views.shape[:2]
        shape = _sample_shape(estimator, window, block.shape[2])
        rows = max(1, PATCH_BYTES // max(1, width * window * window * block.shape[2] * 4))
        parts = []
        for start in range(0, height, rows):
            samples = views[start : start + rows].astype(np.float32).reshape(-1, *shape)
            parts.append(_class_scores(estimator, samples))
        return np.concatenate(parts).T.reshape(-1, height, width)

    return scores


def largest(scores: Array) -> Array:
    """Return ``scores.argmax(axis=0)``, ten times as fast for a few classes of many pixels.

    The index rises by whole rows: a class that beats all before it has the highest index so far.

    Examples
    --------
    >>> largest(np.array([[0.2, 0.5], [0.7, 0.5], [0.1, 0.0]]))
    array([1, 0], dtype=uint8)
    """
    kind = np.min_scalar_type(len(scores) - 1).type
    best, index = scores[0].copy(), np.zeros(scores.shape[1:], kind)
    for k in range(1, len(scores)):
        np.maximum(index, (scores[k] > best) * kind(k), out=index)
        np.maximum(best, scores[k], out=best)
    return index


def _sample_shape(estimator: Any, window: int, bands: int) -> tuple[int, ...]:
    """Return the shape of the samples that the classifier wants.

    Ours say so. One of scikit-learn's says how long the first axis was: the window's side if it
    was fitted on patches, the whole patch's if it was fitted on vectors.
    """
    shape = tuple(getattr(estimator, "sample_shape_", ()))
    if shape:
        return shape
    flat = window * window * bands
    takes_vectors = getattr(estimator, "n_features_in_", flat) == flat
    return (flat,) if takes_vectors else (window, window, bands)


def _class_scores(estimator: Any, samples: Array) -> Array:
    if hasattr(estimator, "predict_proba"):
        with np.errstate(divide="ignore"):
            return np.log(estimator.predict_proba(samples))
    predicted = estimator.predict(samples)
    return np.where(predicted[:, None] == estimator.classes_, 0.0, -np.inf)


def _like(scene: xr.DataArray, values: Array, dims: tuple[str, ...]) -> xr.DataArray:
    """Return ``values`` with the coordinates and georeference of ``scene``."""
    coords = {k: v for k, v in scene.coords.items() if set(v.dims) <= {"y", "x"}}
    return xr.DataArray(values, dims=dims, coords=coords)
