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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.spatial import cKDTree

from polyad.errors import InputError, PolyadWarning
from polyad.scene.files import paths
from polyad.scene.files.option_values import check_coverage
from polyad.scene.learn.adaptation import Adaptation, adapt_model, find_adaptation
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.classifier import as_scene_model
from polyad.scene.map.tile_mapper import Mapper, active_steps, scene_tiles
from polyad.scene.raster.classes import (
    UNLABELED,
    VALUE_DIMS,
    SetRule,
    class_dtype,
    set_members,
    with_classes,
)
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Tile
from polyad.scene.read.classes import Colors
from polyad.scene.write.writers import MapWriter

AnyPath = str | os.PathLike[str]
Array = npt.NDArray[Any]


class MapOptions(TypedDict, total=False):
    """Options of all maps in memory; see `map_scene`."""

    tile: int | None
    adapt: bool | None
    progress: bool


@overload
def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: Literal[False] = False,
    **options: Unpack[MapOptions],
) -> xr.DataArray: ...


@overload
def map_scene(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: Literal[True],
    **options: Unpack[MapOptions],
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
    seen, ids, proba = _map_in_memory(model, scene, probabilities, tile, adapt, progress)
    class_map = blank_map(model, seen).copy(data=ids)
    if proba is None:
        return class_map
    coords = {**seen.map_coords, "class": [c.name for c in model.classes]}
    return class_map, xr.DataArray(proba, dims=("y", "x", "class"), coords=coords)


def _map_in_memory(
    model: SceneModel,
    scene: xr.DataArray,
    numbers: bool,
    tile: int | None,
    adapt: bool | None,
    progress: bool,
) -> tuple[Scene, Array, Array | None]:
    """Return the scene as the model sees it, ids ``(h, w)`` and numbers ``(h, w, k)``."""
    known = model.view(scene)
    mapper = Mapper(adapt_model(model, known, adapt), known, numbers, progress)
    shape, ids, out = mapper.scene.shape[:2], None, None
    for where, tile_ids, tile_numbers in mapper.run(scene_tiles(mapper.scene, tile, model)):
        ids = np.empty(shape, tile_ids.dtype) if ids is None else ids
        ids[where] = tile_ids
        if tile_numbers is not None:
            out = np.empty((*shape, tile_numbers.shape[2]), np.float32) if out is None else out
            out[where] = tile_numbers
    return mapper.scene, np.asarray(ids), out


def blank_map(model: SceneModel, scene: Scene) -> xr.DataArray:
    """Return a map of ``scene`` in which no pixel has a class yet, dims ``(y, x)``."""
    ids = np.zeros(scene.shape[:2], class_dtype(model.classes))
    class_map = xr.DataArray(ids, dims=("y", "x"), coords=scene.map_coords)
    return with_classes(class_map, model.classes).assign_attrs(_FillValue=UNLABELED)


@overload
def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: Literal[False] = False,
    **options: Unpack[MapOptions],
) -> xr.DataArray: ...


@overload
def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: Literal[True],
    **options: Unpack[MapOptions],
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
        Of `polyad.scene.train_regression`.
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
    targets = model.value_fit.targets
    seen, _, numbers = _map_in_memory(model, scene, uncertainty, tile, adapt, progress)
    coords = {**seen.map_coords, "target": [t.name for t in targets]}
    coords["units"] = ("target", [t.units for t in targets])
    values, deviations = (
        xr.DataArray(np.asarray(numbers)[..., part], coords, VALUE_DIMS).assign_attrs(
            _FillValue=np.float32("nan")
        )
        for part in (slice(len(targets)), slice(-len(targets), None))
    )
    return (values, deviations) if uncertainty else values


# --- maps in files -------------------------------------------------------------------------------


class MapFileOptions(TypedDict, total=False):
    """What is asked of a map in a file; see `map_file`."""

    probabilities: AnyPath | None
    probability_dtype: str
    uncertainty: AnyPath | None
    coverage: float | None
    merge: str | Sequence[str]
    colors: Colors | None
    tile: int | None
    adapt: bool | None


@dataclass(frozen=True)
class MapRequest:
    """`MapFileOptions` with their defaults."""

    probabilities: AnyPath | None = None
    probability_dtype: str = "float32"
    uncertainty: AnyPath | None = None
    coverage: float | None = None
    merge: str | Sequence[str] = ()
    colors: Colors | None = None
    tile: int | None = None
    adapt: bool | None = None

    def outputs(self, path: AnyPath) -> dict[str, Path]:
        """Return the files that are written beside and with the map, by what they are."""
        named = {"map": path, "file of probabilities": self.probabilities}
        named["file of uncertainty"] = self.uncertainty
        beside = {} if self.coverage is None else paths.set_paths(path)
        return {what: Path(file) for what, file in named.items() if file is not None} | beside

    def model(self, model: Any, scene: Scene, window: int | None = None) -> SceneModel:
        """Return the model with classes merged and then colored."""
        fitted = as_scene_model(model, scene, window)
        if self.merge:
            fitted = fitted.merged(self.merge)
        return fitted if self.colors is None else fitted.colored(self.colors)


@dataclass(frozen=True)
class MapPlan:
    """One scene, the model for it, its tiles and its output; made before any pixel is classified.

    Attributes
    ----------
    model : SceneModel
        As it maps this scene: with merged classes, and adapted.
    scene : Scene
        As the model sees it.
    path : Path
        The map.
    request : MapRequest
    tiles : list of Tile
        In the order in which the output is written.
    sets : SetRule or None
        By which prediction sets are written beside the map.
    adaptation : Adaptation or None
        How the model was adapted.
    """

    model: SceneModel
    scene: Scene
    path: Path
    request: MapRequest
    tiles: list[Tile]
    sets: SetRule | None
    adaptation: Adaptation | None

    @property
    def numbers(self) -> bool:
        """Whether probabilities of tiles are needed, or standard deviations of values."""
        asked = (self.request.probabilities, self.request.uncertainty, self.sets)
        return any(output is not None for output in asked)

    @property
    def depth(self) -> int:
        """How many numbers a mapped pixel has beside its class id."""
        if self.model.values is not None:
            return self.model.values.bands(self.numbers)
        return len(self.model.classes) if self.numbers else 0

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.scene.shape[0] * self.scene.shape[1]

    def check_outputs(self) -> None:
        """Raise `OutputError` before any work, if its result could not be written."""
        outputs, source = self.request.outputs(self.path), self.scene.source
        paths.check_names_differ(outputs.items())
        for what, path in outputs.items():
            paths.check_output(path, what)
            paths.check_apart(path, [source] if source else [], what)

    def write(self, tiles: Iterable[tuple[Tile, Array, Array | None]]) -> int:
        """Write mapped tiles, see `Mapper.run`; return how many pixels have a class or value."""
        mapped = 0
        reach = None if self.sets is None else LabelDistance(self.model, self.scene)
        with self._writer() as writer:
            for tile, ids, numbers in tiles:
                writer.write(tile, ids, numbers)
                mapped += int(np.count_nonzero(ids))
                if reach is not None:
                    reach.add(tile, ids)
        if reach is not None:
            reach.warn()
        return mapped

    def _writer(self) -> MapWriter:
        grid, request, values = self.scene.grid, self.request, self.model.values
        return MapWriter(
            self.path,
            grid.shape,
            self.model.classes if values is None else values.targets,
            crs=grid.crs,
            transform=grid.transform,
            probabilities=request.probabilities,
            probability_dtype=request.probability_dtype,
            uncertainty=request.uncertainty,
            sets=self.sets,
            coords=self.scene.map_coords,
        )


def plan_map(model: SceneModel, scene: Scene, path: AnyPath, request: MapRequest) -> MapPlan:
    """Return the plan of a map by a model of ``request.model``; a sample of the scene is read."""
    if model.values is not None:
        if request.probabilities is not None or request.probability_dtype != "float32":
            raise InputError(
                "the model predicts values, which have no probabilities; leave out --probabilities "
                "and --probability-type, and ask for --uncertainty to have their standard deviation"
            )
        paths.check_ending(path, "map of a regression target")
    scene = model.view(scene)
    adaptation = find_adaptation(model, scene, request.adapt)
    adapted = model if adaptation is None else adaptation.apply(model)
    scene = adapted.view(scene)
    rule = None if request.coverage is None else set_rule(adapted, request.coverage, scene)
    tiles = scene_tiles(scene, request.tile, adapted)
    return MapPlan(adapted, scene, Path(path), request, tiles, rule, adaptation)


def map_file(
    model: Any,
    scene: xr.DataArray | Scene,
    path: AnyPath,
    *,
    window: int | None = None,
    progress: bool = False,
    **options: Unpack[MapFileOptions],
) -> int:
    """Map a scene into a file: classes, or the numbers that a regression model predicts.

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
    request, known = MapRequest(**options), Scene.of(scene)
    plan = plan_map(request.model(model, known, window), known, path, request)
    plan.check_outputs()
    mapper = Mapper(plan.model, plan.scene, plan.numbers, progress)
    mapped = plan.write(mapper.run(plan.tiles))
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


# --- prediction sets -----------------------------------------------------------------------------

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


def set_rule(
    model: SceneModel, coverage: float, scene: Scene | xr.DataArray | None = None
) -> SetRule:
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
    if model.training.held_out is None:
        raise InputError(
            "the model keeps no scores of held-out labels, which prediction sets need; train it "
            "with preset fast or best on labels in two places of each class"
        )
    steps = () if model.recipe is None else model.recipe.steps
    if scene is not None and len(active_steps(model, model.view(scene))) < len(steps):
        raise InputError(
            "the sets of a model for this-scene are calibrated with label propagation, which a map "
            "of another scene does not have; train with --goal other-scenes (in Python, "
            "goal='other-scenes')"
        )
    rule = model.training.held_out.rule(coverage, len(model.unmerged.classes))
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
    """

    def __init__(self, model: SceneModel, scene: Scene) -> None:
        self.tested = 0.0 if model.training.held_out is None else model.training.held_out.distance
        shape = scene.shape[:2]
        self.stride = max(math.isqrt(shape[0] * shape[1] // ASKED), 1)
        self.labels = None  # they lie in another scene
        if model.training.scene == scene.fingerprint:
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
            reason = "the labels that guarantee it lie in another scene"
        elif self.count and self.tested < NEAR * self.sum / self.count:
            reason = (
                f"pixels of the map lie {self.sum / self.count:.0f} pixels from the next label on "
                f"average, labels that were held out only {self.tested:.0f}"
            )
        else:
            return
        warnings.warn(
            "sets will hold the true class less often than guaranteed where no label is near: "
            f"{reason}; label some pixels there, or check with polyad evaluate --coverage",
            PolyadWarning,
            stacklevel=3,
        )
