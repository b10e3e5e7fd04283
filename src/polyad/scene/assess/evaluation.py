"""Evaluation: a model's predictions on labeled pixels that it did not learn from."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.errors import InputError, PolyadWarning, SceneError, SceneMismatch
from polyad.scene.assess.areas import Z95
from polyad.scene.assess.scores import INVENTED, RENUMBERED, Scores, SetScores, score, score_sets
from polyad.scene.files.option_values import check_preset
from polyad.scene.learn.accuracy import NOT_TESTED, CrossValidation, HeldOutLabels, cross_validation
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.experts import TrainSettings
from polyad.scene.learn.folds import (
    mean_distance,
    pixel_folds,
    spatial_folds,
    testable,
)
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.outputs import ValueScore, score_values
from polyad.scene.learn.radiometry import corrupt_pixels, prepared
from polyad.scene.learn.regression import check_values
from polyad.scene.learn.sampling import Split, no_overlap
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics
from polyad.scene.learn.training import default_statistics, learnable, train_on
from polyad.scene.map.mapping import set_rule
from polyad.scene.map.tile_mapper import Mapper, scene_tiles
from polyad.scene.raster.classes import ClassInfo, Target, as_values, class_key, class_table
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import with_usable_bands
from polyad.scene.raster.windows import Tile, extract_patches, plan_tiles
from polyad.scene.read.classes import in_model_ids, with_legend
from polyad.scene.read.labels import check_labels, drop_nodata, has_data

Array = npt.NDArray[Any]


def evaluate(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    split: Split | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> Scores:
    """Score a model on labeled pixels that it did not learn from.

    Only the tiles that hold test pixels are mapped. Classes are matched by name where model and
    labels both have names, else by id. Test pixels of classes that the model does not know are left
    out and counted in `Scores.left_out`.

    Parameters
    ----------
    model : SceneModel
    scene, labels : DataArray
    split : Split, optional
        From a sampler, such as `polyad.scene.blocks` or ``from_labels``. By default, on
        the scene the model learned from, all labeled pixels but its training pixels are the test
        set; on another scene, all labeled pixels.
    adapt : bool, optional
        Whether the model is adapted to the scene's light, see `polyad.scene.adapt_model`.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    Scores
        With the accuracy on all test pixels and on those whose window shares no pixel with any
        training window.
    """
    model.check_classes("compare it with values by polyad.scene.evaluation_of")
    options: EvaluationOptions = {"split": split, "adapt": adapt, "progress": progress}
    return class_evaluation(model, scene, labels, **options).scores


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation; see `evaluation_of`."""

    split: Split | None
    adapt: bool | None
    coverage: float | None
    progress: bool


def evaluation_of(
    model: SceneModel,
    scene: xr.DataArray | Scene,
    reference: xr.DataArray,
    **options: Unpack[EvaluationOptions],
) -> ClassEvaluation | RegressionEvaluation:
    """Compare a model's predictions with labels or measured values that it did not learn from.

    Only the tiles that hold such pixels are mapped.

    Parameters
    ----------
    model : SceneModel
    scene : DataArray, dims ``(y, x, band)``
    reference : DataArray
        Labels, dims ``(y, x)``, or values, dims ``(y, x, target)``: see `polyad.scene.open_values`;
        targets have the names of the model's.
    split, adapt, progress
        See `polyad.evaluate`; a split is for labels.
    coverage : float, optional
        Score prediction sets of this level too.
    """
    if options.get("coverage") is not None:
        model.check_classes("leave out --coverage (coverage)")
    evaluation = class_evaluation if model.values is None else regression_evaluation
    return evaluation(model, scene, reference, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """How a model was evaluated, of classes or of regression.

    Attributes
    ----------
    pixels : ndarray of int, ``(n_test, 2)``
        Rows and columns of what was predicted.
    n_train : int
    fit_seconds : float or None
        Of the whole training; None if the model does not say.
    map_seconds : float
        For the tiles that were mapped.
    adapted : str or None
        How the model was adapted to the scene's light, in words.
    replaced : int or None
        Corrupt pixels of the scene, read as their neighbors; None of a large scene of which only
        a part was mapped.
    """

    pixels: Array
    n_train: int
    fit_seconds: float | None
    map_seconds: float
    adapted: str | None = None
    replaced: int | None = None

    def _facts(self) -> dict[str, object]:
        """Return plain numbers and strings."""
        return {
            "n_train": self.n_train,
            "n_test": len(self.pixels),
            "fit_seconds": None if self.fit_seconds is None else round(self.fit_seconds, 4),
            "map_seconds": round(self.map_seconds, 4),
            "pixels_replaced": self.replaced,
        } | ({} if self.adapted is None else {"adapted": self.adapted})


def _map_test_pixels(
    model: SceneModel, scene: Scene, pixels: Array, whole: Array | None, progress: bool
) -> tuple[Array, Array, Evaluation]:
    """Return what `map_pixels` does, and how the evaluation was done."""
    started = time.perf_counter()
    ids, numbers = map_pixels(model, scene, pixels, whole=whole, progress=progress)
    done = Evaluation(
        pixels=pixels,
        n_train=len(model.training.pixels),
        fit_seconds=model.training.seconds,
        map_seconds=time.perf_counter() - started,
        adapted=model.adapted,
        replaced=corrupt_pixels(scene),
    )
    return ids, numbers, done


@dataclass(frozen=True, eq=False)
class ClassEvaluation(Evaluation):
    """A model's predictions on the test pixels, and their scores; see also `Evaluation`.

    Attributes
    ----------
    scores : Scores
    split : Split
        Without the test pixels of classes that the model does not know.
    labels : DataArray
        In the model's ids, names and colors; classes that it does not know follow its own.
    confidence : ndarray, ``(n_test,)``
        Probability of the class predicted.
    right : ndarray of bool, ``(n_test,)``
    sets : SetScores or None
        How often prediction sets hold the true class, if asked for.
    """

    scores: Scores
    split: Split
    labels: xr.DataArray
    confidence: Array
    right: Array
    sets: SetScores | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings."""
        sets = {} if self.sets is None else self.sets.to_dict()
        return self.scores.to_dict() | self._facts() | sets

    def __str__(self) -> str:
        return f"{self.scores}" if self.sets is None else f"{self.scores}\n\n{self.sets}"


def class_evaluation(
    model: SceneModel,
    scene: xr.DataArray | Scene,
    labels: xr.DataArray,
    whole: Array | None = None,
    **options: Unpack[EvaluationOptions],
) -> ClassEvaluation:
    """Map the test pixels and compare; see `evaluation_of`, and for ``whole`` see `map_pixels`."""
    viewed, labels = model.view(scene), Labels.of(labels).array
    model = adapt_model(model, viewed, options.get("adapt"))
    viewed = model.view(viewed)
    coverage, split = options.get("coverage"), options.get("split")
    rule = None if coverage is None else set_rule(model, coverage, viewed)
    check_labels(viewed, labels)
    split = held_out(model, viewed, labels) if split is None else split
    known, split, matched_by, left_out = known_pixels(model, labels, split)
    true = known.values[tuple(split.test.T)]
    predicted, proba, done = _map_test_pixels(
        model, viewed, split.test, whole, options.get("progress", False)
    )
    apart = no_overlap(split, labels.shape, model.window)
    scores = score(true, predicted, proba, classes=model.classes, no_overlap=apart)
    scores = replace(scores, matched_by=matched_by, left_out=left_out)
    # Names that came without ids were numbered by their alphabet: others hardly number them so
    invented = model.training.numbered_by_name
    if scores.renumbering_gain >= (INVENTED if invented else RENUMBERED):
        warnings.warn(
            "classes were matched by id, but the labels seem to number them otherwise than the "
            "model does; give the labels class names, or train on labels with the same ids",
            PolyadWarning,
            stacklevel=3,
        )
    sets = None if rule is None else score_sets(true, proba, rule, model.classes)
    right = predicted == true
    return ClassEvaluation(scores, split, known, proba.max(axis=1), right, sets, **vars(done))


def map_pixels(
    model: SceneModel,
    scene: xr.DataArray | Scene,
    pixels: Array,
    *,
    whole: Array | None = None,
    progress: bool = False,
    tiles: Sequence[Tile] | None = None,
) -> tuple[Array, Array]:
    """Map the given pixels, ``(n, 2)``, tile by tile where they lie.

    Parameters
    ----------
    model, scene, progress
        See `polyad.scene.map_scene`.
    pixels : ndarray of int, ``(n, 2)``
    whole : ndarray of int, ``(y, x)``, optional
        Filled with the ids of all pixels: every tile is mapped then.
    tiles : sequence of Tile, optional
        To choose from; by default those that a scene is mapped by.

    Returns
    -------
    ids : ndarray, ``(n,)``
        Of the classes; 0 of a regression model.
    numbers : ndarray, ``(n, classes)`` or ``(n, 2 * targets)``
        Probabilities in float32, or predictions and then their deviations in float64.
    """
    scene, fit = model.view(scene), model.values
    ids = np.zeros(len(pixels), np.int64)
    width = len(model.classes) if fit is None else fit.bands(uncertainty=True)
    numbers = np.empty((len(pixels), width), np.float32 if fit is None else np.float64)
    place = np.full(scene.shape[:2], -1, np.int64)  # of each pixel in ids
    place[tuple(pixels.T)] = np.arange(len(pixels))
    some = scene_tiles(scene, model=model) if tiles is None else tiles
    wanted = [tile for tile in some if whole is not None or (place[tile] >= 0).any()]
    for tile, class_ids, found in Mapper(model, scene, True, progress).run(wanted):
        if whole is not None:
            whole[tile] = class_ids
        inside = place[tile] >= 0
        if fit is None:
            ids[place[tile][inside]] = class_ids[inside]
        numbers[place[tile][inside]] = found[inside] if found is not None else np.nan
    if tiles is None and len(wanted) == len(some) and scene.despiking is not None:
        scene.despiking.whole = True
    return ids, numbers


def held_out(model: SceneModel, scene: xr.DataArray | Scene, labels: xr.DataArray) -> Split:
    """Return the training pixels of ``model`` in ``scene``, and all other labeled pixels."""
    split = _unseen(model, model.view(scene), Labels.of(labels).ids > 0)
    if len(split.test):
        return split
    raise SceneError(
        "every labeled pixel was used for training, none is left to test on; "
        "train with --samples-per-class or bring more labels"
    )


def _unseen(model: SceneModel, scene: Scene, marked: npt.NDArray[np.bool_]) -> Split:
    """Return the training pixels of the scene, and all others that are marked and have data."""
    train = np.empty((0, 2), np.intp)
    if model.learned_from(scene):
        train = model.training_pixels(marked.shape)
        marked = marked.copy()
        marked[tuple(train.T)] = False
    test = np.argwhere(marked)
    return Split(train, test[has_data(scene, *test.T)])


def known_pixels(
    model: SceneModel, labels: xr.DataArray, split: Split
) -> tuple[xr.DataArray, Split, str, tuple[tuple[ClassInfo, int], ...]]:
    """Return labels and split as the model knows them, and what `Scores` say about that.

    Returns
    -------
    labels : DataArray
        In the model's ids, names and colors.
    split : Split
        Without the test pixels of classes that the model does not know.
    matched_by : str
    left_out : tuple of (ClassInfo, int)

    Raises
    ------
    SceneMismatch
        If the model knows none of the test pixels' classes.
    """
    renumbered, match = in_model_ids(labels, model.classes)
    true = labels.values[tuple(split.test.T)]
    strange = np.isin(true, [c.value for c in match.unknown])
    if len(true) and strange.all():
        theirs = ", ".join(class_key(c) for c in match.unknown if c.value in true)
        ours = ", ".join(class_key(c) for c in model.classes)
        raise SceneMismatch(
            f"none of the {len(true)} test pixels is of a class that the model knows: matched by "
            f"{match.by}, the labels hold {theirs}, the model knows {ours}; name or number the "
            "labels' classes as the model's"
        )
    left_out = tuple((c, n) for c in match.unknown if (n := int((true == c.value).sum())))
    kept = Split(split.train, split.test[~strange])
    return renumbered, kept, match.by, left_out


# Accuracy from the labels one has: whole trainings on folds of them, tested on the rest.
#
# Every fold trains the preset anew, its choice of settings included, and maps the labels that it
# did not see as a map would be made. Statistics of the scene see no labels and are shared.


FOLDS = 5
SOME_PIXELS = 2000  # of the map, to know how far it lies from the labels
TILE = 32  # side of the tiles round labels of a scene that need not be mapped whole


def cross_validate(
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    pixels: Array | None = None,
    folds: int = FOLDS,
    pixelwise: bool = True,
    random_state: int = 0,
    preset: str | None = None,
    goal: str = "this-scene",
    merge: str | Sequence[str] = (),
    estimator: Any = None,
    statistics: SceneStatistics | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
    **parameters: Any,
) -> CrossValidation:
    """Estimate the accuracy of a map from the labels that it is made of.

    Labels are held out by spatial folds: square blocks of the scene, for ``goal="this-scene"`` as
    large as to put labels held out about as far from the others as the map's pixels are, else as
    large as can be. The preset is trained as a whole on the others, its choice
    of settings included, and those held out are tested on the map it makes. Groups of the labels,
    see `polyad.scene.with_groups` and ``groups`` of `polyad.open_labels`, are held out as they are;
    polygons are never split.

    Parameters
    ----------
    scene, labels : DataArray
        As for `polyad.train`.
    pixels : ndarray of int, ``(n, 2)``, optional
        Rows and columns of the labels to use; all when not given.
    folds : int, default=5
    pixelwise : bool, default=True
        Whether the figure by folds dealt pixel by pixel is estimated too, for as much time again.
    random_state, preset, goal, merge, estimator, max_bytes, **parameters
        As for `polyad.train`.
    statistics : SceneStatistics, optional
        Of the scene, if they are known; for the best preset.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    CrossValidation

    Raises
    ------
    SceneError
        There are no labels, one class only, or one group only.

    Examples
    --------
    >>> rng, fields = np.random.default_rng(0), np.indices((24, 24)).sum(axis=0) // 6 % 2 + 1
    >>> pixels = fields[..., None] + rng.normal(0, 0.5, (24, 24, 6))
    >>> scene = xr.DataArray(pixels, dims=("y", "x", "band"))
    >>> labels = xr.DataArray(np.where(rng.random((24, 24)) < 0.1, fields, 0), dims=("y", "x"))
    >>> found = cross_validate(scene, labels, folds=2, pixelwise=False, epochs=20, hidden=4)
    >>> found.spatial.overall > 0.8, found.spatial.labels == int((labels > 0).sum())
    (True, True)
    """
    if folds < 2:
        raise InputError(f"folds must be 2 or more, got {folds}; a label is held out or trained on")
    check_preset(preset, goal, parameters.get("objective", "overall"))
    known = prepared(with_usable_bands(Scene.of(scene)))
    labels = with_legend(Labels.of(labels).array, merge)
    check_labels(known, labels)
    labels = drop_nodata(known, labels)
    pixels = np.argwhere(labels.values > 0) if pixels is None else np.asarray(pixels, np.intp)
    y = learnable(labels, labels.values[tuple(pixels.T)].astype(np.int64))
    ids, targets = np.unique(y, return_inverse=True)
    groups = Labels.of(labels).groups_at(pixels)
    distance = None
    if goal == "this-scene" and len(mapped := _some_pixels(known)):
        distance = mean_distance(mapped, pixels)
    if preset is None and estimator is None:
        if statistics is None:
            settings = TrainSettings.of(goal=goal, max_bytes=max_bytes)
            statistics = default_statistics(known, settings)
        preset = "fast" if statistics is None else "best"
    if preset == "best":
        if statistics is None:
            statistics = scene_statistics(known, goal, max_bytes)
        parameters["statistics"] = statistics
    dealt = [
        spatial_folds(pixels, targets, folds, random_state, distance, groups=groups),
        *([pixel_folds(targets, folds, random_state)] if pixelwise else []),
    ]
    parameters.pop("verbose", None)
    options = parameters | {"random_state": random_state, "preset": preset, "goal": goal}
    options["max_bytes"] = max_bytes

    def predict(train: Array, test: Array) -> Array:
        """Return the positions of the classes that a model of some labels gives to others."""
        fresh = estimator
        if estimator is not None:
            from sklearn.base import clone  # here: it takes a while to import

            fresh = clone(estimator)
        model = train_on(known, labels, pixels[train], estimator=fresh, score=False, **options)
        return np.searchsorted(ids, map_labels(model, known, pixels[test]))

    tested = []
    total = sum(len(np.unique(split.fold)) for split in dealt)
    with tqdm(total=total, desc="folds", unit="fold", disable=not progress) as bar:
        for split in dealt:
            predicted = np.full(len(targets), NOT_TESTED, np.intp)
            able, numbers = testable(split.fold, targets), np.unique(split.fold)
            for k in numbers:
                out, rest = (split.fold == k) & able, split.fold != k
                if out.any() and len(np.unique(targets[rest])) > 1:
                    predicted[out] = predict(rest, out)
                bar.update()
            tested.append(HeldOutLabels(targets, predicted, split))
    named = {c.value: c.name for c in class_table(labels)}
    names = [named[int(v)] for v in ids]
    return cross_validation(tested[0], names, *tested[1:])


def map_labels(model: SceneModel, scene: xr.DataArray | Scene, pixels: Array) -> Array:
    """Return the class ids of pixels, ``(n,)``, as a map of the scene has them.

    Only small tiles round them are mapped; a pixel's class does not depend on its tile.
    """
    shape = Scene.of(scene).shape[:2]
    return map_pixels(model, scene, pixels, tiles=plan_tiles(shape, (TILE, TILE)))[0]


def _some_pixels(scene: Scene) -> Array:
    """Return some pixels with data, ``(m, 2)``, all over the scene."""
    height, width, _ = scene.shape
    step = max(height * width // SOME_PIXELS, 1)
    index = np.arange(step // 2, height * width, step)
    rows, cols = np.unravel_index(index, (height, width))
    spectra = extract_patches(scene, rows, cols, window=1)[:, 0, 0]  # (m, bands)
    valid = valid_pixels(spectra, scene.nodata)
    return np.stack([rows, cols], axis=1)[valid]


# How well a regression model predicts what was measured at pixels that it did not learn from.


@dataclass(frozen=True, eq=False)
class RegressionEvaluation(Evaluation):
    """A model's predictions beside what was measured; see also `Evaluation`.

    Attributes
    ----------
    scores : tuple of ValueScore
    measured, predicted, deviation : ndarray, ``(n, targets)``
        What was measured, NaN where nothing was; the predictions, and their standard deviations.
    """

    scores: tuple[ValueScore, ...]
    measured: Array
    predicted: Array
    deviation: Array

    @property
    def targets(self) -> tuple[Target, ...]:
        """What is predicted."""
        return tuple(score.target for score in self.scores)

    @property
    def within(self) -> list[float]:
        """Share of what was measured that lies within 1.96 deviations, which promise 95 %."""
        missed = np.abs(self.measured - self.predicted)
        known = np.isfinite(self.measured)
        inside = (missed <= Z95 * self.deviation) & known
        return [float(i.sum() / max(k.sum(), 1)) for i, k in zip(inside.T, known.T, strict=True)]

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings."""
        rows = [
            score.to_dict() | {"within_95": round(share, 4)}
            for score, share in zip(self.scores, self.within, strict=True)
        ]
        return {"task": "regression", "targets": rows} | self._facts()

    def __str__(self) -> str:
        lines = []
        for found, share in zip(self.scores, self.within, strict=True):
            lines.append(f"{found.target.name}: {found.n:,} values in {found.groups:,} places")
            lines += [f"  {part.strip()}" for part in str(found).split(", ")]
            lines.append(f"  {100 * share:.0f} % within 1.96 standard deviations, which promise 95")
        return "\n".join([*lines, "in brackets: 95 % intervals over resampled places"])


def regression_evaluation(
    model: SceneModel,
    scene: xr.DataArray | Scene,
    values: xr.DataArray,
    **options: Unpack[EvaluationOptions],
) -> RegressionEvaluation:
    """Compare predictions with measured values; see `evaluation_of`."""
    targets, viewed = model.value_fit.targets, model.view(scene)
    model = adapt_model(model, viewed, options.get("adapt"))
    viewed = model.view(viewed)
    values = _matched(as_values(values), targets)
    check_values(viewed, values)
    pixels = _unseen(model, viewed, np.isfinite(values.values).any(axis=2)).test
    if not len(pixels):
        raise SceneError(
            "every pixel with a value was used for training or has no data, none is left to test "
            "on; bring other values, or read the scores on folds that polyad train prints"
        )
    measured = values.values[tuple(pixels.T)].astype(np.float64)
    _, numbers, done = _map_test_pixels(model, viewed, pixels, None, options.get("progress", False))
    predicted, deviation = np.split(numbers, 2, axis=1)
    group = spatial_folds(pixels, np.zeros(len(pixels), np.intp), 5).group
    scores = score_values(measured, predicted, targets, group)
    return RegressionEvaluation(scores, measured, predicted, deviation, **vars(done))


def _matched(values: xr.DataArray, targets: tuple[Target, ...]) -> xr.DataArray:
    """Return the model's targets out of values, by name."""
    own = [str(name).casefold() for name in values["target"].values]
    missing = [t.name for t in targets if t.name.casefold() not in own]
    if missing:
        listed = ", ".join(str(name) for name in values["target"].values)
        raise SceneMismatch(
            f"the model predicts {', '.join(t.name for t in targets)}, the values are of {listed}; "
            "name the fields with --field, in the order of the model's targets"
        )
    return values.isel(target=[own.index(t.name.casefold()) for t in targets])
