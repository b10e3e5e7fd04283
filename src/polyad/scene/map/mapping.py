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
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.spatial import cKDTree
from tqdm import tqdm

from polyad.errors import InputError, PolyadWarning
from polyad.scene.files.option_values import check_coverage
from polyad.scene.files.paths import check_apart, check_ending, check_output, set_paths
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.classifier import as_scene_model, block_classifier
from polyad.scene.map.refining import Shares, active_steps, refiner, warn_of_other_scene
from polyad.scene.raster.classes import (
    UNLABELED,
    VALUE_DIMS,
    SetRule,
    Target,
    class_dtype,
    set_members,
    with_classes,
)
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.labels import Merging
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.selection import without_mask
from polyad.scene.raster.windows import Tile, plan_tiles, read_block, tile_shape
from polyad.scene.read.classes import Colors
from polyad.scene.write.writers import MapWriter, ValueWriter
from polyad.threads import one_ahead

AnyPath = str | os.PathLike[str]


def check_map_kind(
    model: SceneModel,
    path: AnyPath,
    probabilities: AnyPath | None = None,
    probability_dtype: str = "float32",
) -> None:
    """Raise an error if a map of values cannot be what is asked for."""
    if model.values is None:
        return
    if probabilities is not None or probability_dtype != "float32":
        raise InputError(
            "the model predicts values, which have no probabilities; leave out --probabilities and "
            "--probability-type, and ask for --uncertainty to have their standard deviation"
        )
    check_ending(path, "map of values")


def map_writer(
    model: SceneModel,
    scene: xr.DataArray,
    path: AnyPath,
    *,
    probabilities: AnyPath | None = None,
    probability_dtype: str = "float32",
    uncertainty: AnyPath | None = None,
    sets: SetRule | None = None,
) -> MapWriter | ValueWriter:
    """Return the writer of the map that ``model`` makes of ``scene``; see `polyad.map_file`."""
    crs, transform = georeference(scene)
    place: dict[str, Any] = {"crs": crs, "transform": transform}
    place["coords"] = without_mask(scene.coords)
    shape = scene.sizes["y"], scene.sizes["x"]
    if model.values is not None:
        return ValueWriter(path, shape, model.values.targets, uncertainty=uncertainty, **place)
    return MapWriter(
        path,
        shape,
        model.classes,
        probabilities=probabilities,
        probability_dtype=probability_dtype,
        uncertainty=uncertainty,
        sets=sets,
        **place,
    )


Array = npt.NDArray[Any]
ASKED = 20_000  # pixels of a map, about, whose distance to the labels is taken
# Labels held out must lie this share as far from others as the map does, or sets are warned of: on
# Indian Pines, seeds 100 to 103, 0.7 to 1 where promises are kept, below 0.6 in other blocks and
# below 0.4 on other fields.
NEAR = 0.6


def prediction_sets(model: SceneModel, proba: xr.DataArray, coverage: float = 0.9) -> xr.DataArray:
    """Return the classes that each pixel may be of, so that most sets hold the true one.

    Parameters
    ----------
    model : SceneModel
        Trained by preset fast or best: their spatial folds say how far to trust its probabilities.
    proba : DataArray, dims ``(y, x, class)``
        From ``map_scene(model, scene, probabilities=True)``.
    coverage : float, default=0.9
        Promised share of the sets that hold the true class, of pixels like the labels.

    Returns
    -------
    DataArray of bool, dims ``(y, x, class)``
        Whether the class is in the pixel's set. No set is empty but those of pixels that were not
        mapped.
    """
    rule = set_rule(model, coverage)
    proba = proba.transpose(..., "class")
    if proba.sizes["class"] != len(rule.least):
        raise InputError(
            f"the model has {len(rule.least)} classes, the probabilities {proba.sizes['class']}; "
            "pass those of its own map"
        )
    return proba.copy(data=set_members(np.asarray(proba.values), rule) == 1)


def set_rule(model: SceneModel, coverage: float, scene: xr.DataArray | None = None) -> SetRule:
    """Return the rule of the model's sets; refuse where nothing says what they hold.

    A merged class is in the set if its probability is as large as that of one of its parts would
    have to be, so it is in every set that holds such a part.

    Raises
    ------
    InputError
        The model keeps no scores of held-out labels, too few of them for the level, or those of
        maps with label propagation, which a map of this ``scene`` does not have.
    """
    coverage = check_coverage(coverage)
    model.check_classes("ask for --uncertainty instead of --coverage")
    if model.held_out is None:
        raise InputError(
            "the model cannot say what sets hold the true class: it keeps no scores of labels that "
            "were held out; train it with preset fast or best on labels in two places of each class"
        )
    steps = () if model.recipe is None else model.recipe.steps
    if scene is not None and len(active_steps(model, scene)) < len(steps):
        raise InputError(
            "the sets of a model for this-scene are calibrated with label propagation, which a map "
            "of another scene does not have; train with --goal other-scenes (in Python, "
            "goal='other-scenes')"
        )
    rule = model.held_out.rule(coverage, len(model.unmerged.classes))
    if model.merging is None:
        return rule
    parts: list[list[float]] = [[] for _ in model.classes]
    for position, least in zip(model.merging.positions, rule.least, strict=True):
        parts[position].append(least)
    return rule._replace(least=tuple(map(min, parts)))


class LabelDistance:
    """How far the pixels of a map lie from the labels, gathered tile by tile.

    Sets keep their promise where the map lies about as far from the labels as labels that were
    held out lay from the others, and miss it farther away.

    Parameters
    ----------
    model : SceneModel
        Whose sets are written.
    scene : DataArray
        Which is mapped.
    """

    def __init__(self, model: SceneModel, scene: xr.DataArray) -> None:
        self.tested = 0.0 if model.held_out is None else model.held_out.distance
        shape = scene.sizes["y"], scene.sizes["x"]
        self.stride = max(math.isqrt(shape[0] * shape[1] // ASKED), 1)
        self.labels = None  # they lie in another scene
        if model.learned_from(scene):
            self.labels = cKDTree(model.training_pixels(shape))
        self.sum, self.count = 0.0, 0

    def add(self, tile: Tile, class_ids: Array) -> None:
        """Take the mapped pixels of a tile, of all that lie on a grid."""
        if self.labels is None:
            return
        top, left = (-edge.start % self.stride for edge in tile)  # where the grid begins in it
        pixels = np.argwhere(class_ids[top :: self.stride, left :: self.stride]) * self.stride
        pixels += np.array([tile.rows.start + top, tile.cols.start + left])
        self.sum += float(np.sum(self.labels.query(pixels)[0]))
        self.count += len(pixels)

    def warn(self) -> None:
        """Warn if the sets can hardly keep their promise."""
        if self.labels is None:
            said = "the labels that promise it lie in another scene"
        elif self.count and self.tested < NEAR * self.sum / self.count:
            said = (
                f"pixels of the map lie {self.sum / self.count:.0f} pixels from the next label on "
                f"average, labels that were held out only {self.tested:.0f}"
            )
        else:
            return
        warnings.warn(
            "sets will hold the true class less often than promised where no label is near: "
            f"{said}; label some pixels there, or check with polyad evaluate --coverage",
            PolyadWarning,
            stacklevel=3,
        )


Classify = Callable[..., tuple[Array, Array | None]]
"""What was read of a tile, and its `Shares` if they are known, to ids and probabilities."""
SMOOTHED_TILE = 4  # times as large as others is a tile whose halo is wide
IN_MEMORY_TILE = 4  # times as large as others is a tile that need not be read
WORKING_SHARE = 16  # what is computed of a tile may take this many times what is read of it


@overload
def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: Literal[False] = False,
    tile: int | None = None,
    adapt: bool | None = None,
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
    adapt: bool | None = None,
    progress: bool = False,
) -> tuple[xr.DataArray, xr.DataArray]: ...


def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: bool = False,
    tile: int | None = None,
    adapt: bool | None = None,
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
    adapt : bool, optional
        Whether the model is adapted to the scene's light, see `polyad.scene.adapt_model`.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    class_map : DataArray, dims ``(y, x)``
        Class ids, 0 where the scene has no data, with the scene's georeference and the classes'
        names and colors.
    proba : DataArray, dims ``(y, x, class)``
        If asked for; NaN where the scene has no data.
    """
    model = as_scene_model(model, scene, window)
    model.check_classes("map it with polyad.scene.map_values, or polyad.map_file")
    model = adapt_model(model, scene, adapt)
    scene = model.view(scene)
    class_map = blank_map(model, scene)
    shape = (*class_map.shape, len(model.classes))
    proba = np.empty(shape, np.float32) if probabilities else None
    for where, class_ids, tile_proba in iter_map(model, scene, probabilities, tile, progress):
        class_map.values[where] = class_ids
        if proba is not None:
            proba[where] = tile_proba
    if proba is None:
        return class_map
    names = {"class": [c.name for c in model.classes]}
    return class_map, _like(scene, proba, ("y", "x", "class")).assign_coords(names)


def blank_map(model: SceneModel, scene: xr.DataArray) -> xr.DataArray:
    """Return a map of ``scene`` in which no pixel has a class yet, dims ``(y, x)``."""
    scene = as_scene(scene)
    ids = np.zeros((scene.sizes["y"], scene.sizes["x"]), class_dtype(model.classes))
    class_map = with_classes(_like(scene, ids, ("y", "x")), model.classes)
    class_map.attrs["_FillValue"] = UNLABELED
    return class_map


def map_file(
    model: Any,
    scene: xr.DataArray,
    path: str | os.PathLike[str],
    *,
    window: int | None = None,
    probabilities: str | os.PathLike[str] | None = None,
    probability_dtype: str = "float32",
    uncertainty: str | os.PathLike[str] | None = None,
    coverage: float | None = None,
    merge: str | Sequence[str] = (),
    colors: Colors | None = None,
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> int:
    """Map a scene into a file: classes, or the numbers that a model of values predicts.

    A GeoTIFF or Zarr store is written tile by tile, so neither scene nor map need fit in memory;
    the other kinds are made from the whole map.

    Parameters
    ----------
    model, scene, window, tile, adapt, progress
        See `map_scene`.
    path : path-like
        The class map: ``.tif``, ``.hdr``, ``.png``, ``.nc``, ``.zarr`` or ``.npy``. It appears when
        whole.
    probabilities : path-like, optional
        A GeoTIFF with one band for each class.
    probability_dtype : {"float32", "uint8"}, default="float32"
        Of the probabilities and of the uncertainty.
    uncertainty : path-like, optional
        A GeoTIFF with three bands, each from 0 (certain) to 1: one minus the largest probability,
        one minus the difference of the two largest (the margin), and the entropy. Of a model of
        values, the standard deviation of each target.
    coverage : float, optional
        Write prediction sets too, of which at least this share is to hold the true class, such as
        0.9: beside ``map.tif`` their sizes as ``map_set_size.tif`` and their members as
        ``map_sets.tif``, one band of 0 and 1 for each class. See `polyad.scene.prediction_sets`.
    merge : str or sequence of str, optional
        Rules such as ``corn+soy=crops`` by which classes become one, whose probability is the sum
        of theirs; classes by name or id.
    colors : path-like or mapping, optional
        Other colors for the classes, see `polyad.scene.read_colors`.

    Returns
    -------
    int
        How many pixels have a class or value: those with data in all bands that the model wants.
    """
    model = with_classes_for_maps(as_scene_model(model, scene, window), merge, colors)
    check_map_kind(model, path, probabilities, probability_dtype)
    model = adapt_model(model, scene, adapt)
    source, scene = as_scene(scene).encoding.get("source"), model.view(scene)
    rule = None if coverage is None else set_rule(model, coverage, scene)
    outputs = {"map": path, "file of probabilities": probabilities}
    outputs |= {} if rule is None else set_paths(path)
    for what, target in (outputs | {"file of uncertainty": uncertainty}).items():
        if target is not None:
            check_output(target, what)
            check_apart(target, [source] if source else [], what)
    options: dict[str, Any] = {"probabilities": probabilities, "uncertainty": uncertainty}
    options |= {"probability_dtype": probability_dtype, "sets": rule}
    reach = None if rule is None else LabelDistance(model, scene)
    with map_writer(model, scene, path, **options) as writer:
        wanted, mapped = any(v is not None for v in (probabilities, uncertainty, rule)), 0
        for where, class_ids, tile_proba in iter_map(model, scene, wanted, tile, progress):
            writer.write((where.rows, where.cols), class_ids, tile_proba)
            mapped += int(np.count_nonzero(class_ids))
            if reach is not None:
                reach.add(where, class_ids)
    if reach is not None:
        reach.warn()
    if not mapped:
        warn_of_empty_map("the map")
    return mapped


def warn_of_empty_map(name: str) -> None:
    """Warn the caller's caller that no pixel of a map has a class."""
    warnings.warn(
        f"no pixel of {name} has a class: none has data in all bands that the model wants; see "
        "polyad info for the scene's bands and nodata value",
        PolyadWarning,
        stacklevel=3,
    )


def with_classes_for_maps(
    model: SceneModel, merge: str | Sequence[str] = (), colors: Colors | None = None
) -> SceneModel:
    """Return the model with classes merged and then colored; see `map_file`."""
    if merge:
        model = model.merged(merge)
    return model if colors is None else model.colored(colors)


def iter_map(
    model: SceneModel,
    scene: xr.DataArray,
    probabilities: bool,
    tile: int | None = None,
    progress: bool = False,
    tiles: Sequence[Tile] | None = None,
) -> Iterator[tuple[Tile, Array, Array | None]]:
    """Yield each tile with its class ids ``(h, w)`` and, if asked for, its probabilities.

    Of a model of values, the ids are 1 where there is a value, and in place of the probabilities
    come the values; if they are asked for, with their standard deviations.

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
    scene = model.view(scene)
    warn_of_other_scene(model, scene)
    mapper = tile_mapper(model, scene, probabilities, progress)
    tiles = scene_tiles(scene, tile, model) if tiles is None else tiles
    with tqdm(desc="mapping", unit="tile", total=len(tiles), disable=not progress) as bar:
        for where, pixels in _read(mapper, scene, tiles):
            outcome = mapper.classify(pixels)
            del pixels  # before the tile after the next is read
            yield where, *outcome
            bar.update()


def _read(
    mapper: TileMapper, scene: xr.DataArray, tiles: Iterable[Tile]
) -> Iterator[tuple[Tile, Any]]:
    """Yield each tile with its pixels; what lies on disk is read one tile ahead."""
    if scene.variable._in_memory:  # there is nothing to wait for
        return ((tile, mapper.read(tile)) for tile in tiles)
    return one_ahead(mapper.read, tiles)


@dataclass(frozen=True)
class TileMapper:
    """How one tile of a scene is mapped, in two steps: the next tile may be read meanwhile."""

    read: Callable[[Tile], Any]
    classify: Classify

    def __call__(self, tile: Tile, shares: Shares | None = None) -> tuple[Array, Array | None]:
        """Return ids ``(h, w)`` and, if asked for, probabilities ``(h, w, classes)``."""
        return self.classify(self.read(tile), shares)


def tile_mapper(
    model: SceneModel,
    scene: xr.DataArray,
    probabilities: bool = False,
    progress: bool = False,
    check: Callable[[], None] = lambda: None,
) -> TileMapper:
    """Return the function that maps one tile of a scene, by the network and the model's steps.

    It gives ids ``(h, w)`` and, if asked for, probabilities ``(h, w, classes)``. What a tile needs
    of the whole scene can be given with it, ``map_tile(tile, shares.cut(tile))``, see
    `scene_shares`; else it is computed at the first tile and kept, and ``check`` is called
    meanwhile, which may raise. Buffers are kept too: use one in each thread.
    """
    scene = model.view(scene)
    if model.merging is not None:
        return _merging_mapper(model, model.merging, scene, probabilities, progress)
    steps, halo = active_steps(model, scene), model.window // 2
    classify = block_classifier(model, scene.rio.nodata, probabilities or bool(steps))
    if not steps:
        return TileMapper(
            lambda tile: read_block(scene, tile, halo), lambda block, _=None: classify(block)
        )

    def network(tile: Tile) -> Array:
        return np.asarray(classify(read_block(scene, tile, halo))[1])

    refined = refiner(model, scene, steps, network, progress, check)

    def map_tile(tile: Tile, shares: Shares | None = None) -> tuple[Array, Array | None]:
        proba = refined(tile, shares)
        return _likeliest(model, proba), proba if probabilities else None

    return TileMapper(lambda tile: tile, map_tile)  # steps read what they need


def _merging_mapper(
    model: SceneModel, merging: Merging, scene: xr.DataArray, probabilities: bool, progress: bool
) -> TileMapper:
    """Return the mapper of a model whose classes are merged: their probabilities are summed."""
    apart = tile_mapper(model.unmerged, scene, True, progress)

    def classify(pixels: Any, shares: Shares | None = None) -> tuple[Array, Array | None]:
        proba = merging.sums(np.asarray(apart.classify(pixels, shares)[1]))
        return _likeliest(model, proba), proba if probabilities else None

    return TileMapper(apart.read, classify)


def _likeliest(model: SceneModel, proba: Array) -> Array:
    """Return the ids ``(h, w)`` of the largest probabilities ``(h, w, classes)``; 0 for NaN."""
    values = np.array([c.value for c in model.classes], class_dtype(model.classes))
    blank = np.isnan(proba[..., 0])
    ids = values[np.where(blank[..., None], 0, proba).argmax(axis=-1)]
    ids[blank] = UNLABELED
    return ids


def scene_tiles(
    scene: xr.DataArray, side: int | None = None, model: SceneModel | None = None
) -> list[Tile]:
    """Return the tiles that a scene is mapped by, in the order in which they are written.

    A model of very many classes gets smaller ones, for the probabilities of a tile's pixels; one
    that smooths them larger ones, since the halo of each tile is computed once more. A scene in
    memory has larger ones too: threads wait for each other at the end of a tile.
    """
    scene = as_scene(scene)
    shape = scene.sizes["y"], scene.sizes["x"]
    read = scene.sizes["band"] * scene.dtype.itemsize
    if scene.variable._in_memory:
        read //= IN_MEMORY_TILE
    if model is not None and model.recipe is not None and model.recipe.guided is not None:
        read //= SMOOTHED_TILE
    made = 0 if model is None else model.working_bytes
    return plan_tiles(shape, tile_shape(shape, max(read, made // WORKING_SHARE), side))


def _like(scene: xr.DataArray, values: Array, dims: tuple[str, ...]) -> xr.DataArray:
    """Return ``values`` with the coordinates and georeference of ``scene``."""
    return xr.DataArray(values, dims=dims, coords=without_mask(scene.coords))


@overload
def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: Literal[False] = False,
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> xr.DataArray: ...


@overload
def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: Literal[True],
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> tuple[xr.DataArray, xr.DataArray]: ...


def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: bool = False,
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> xr.DataArray | tuple[xr.DataArray, xr.DataArray]:
    """Predict the values of every pixel of a scene.

    Parameters
    ----------
    model : SceneModel
        Of `polyad.scene.train_values`.
    scene, tile, adapt, progress
        See `polyad.map_scene`.
    uncertainty : bool, default=False
        Return the standard deviations too.

    Returns
    -------
    values : DataArray of float32, dims ``(y, x, target)``
        NaN where the scene has no data.
    deviation : DataArray of float32, dims ``(y, x, target)``
        If asked for; see `polyad.scene.learn.outputs`.
    """
    fit = model.value_fit
    model = adapt_model(model, scene, adapt)
    scene, targets = model.view(scene), fit.targets
    size = (scene.sizes["y"], scene.sizes["x"], fit.bands(uncertainty))
    numbers = np.empty(size, np.float32)
    for where, _, of_tile in iter_map(model, scene, uncertainty, tile, progress):
        numbers[where] = of_tile
    values = _frame(scene, numbers[..., : len(targets)], targets)
    if not uncertainty:
        return values
    return values, _frame(scene, numbers[..., len(targets) :], targets)


def _frame(scene: xr.DataArray, numbers: Array, targets: tuple[Target, ...]) -> xr.DataArray:
    names, units = [t.name for t in targets], [t.units for t in targets]
    out = xr.DataArray(numbers, dims=VALUE_DIMS, coords=without_mask(scene.coords))
    out = out.assign_coords(target=names, units=("target", units))
    return out.assign_attrs(_FillValue=np.float32(np.nan))
