"""Tiles in, class ids or values out, by a fitted network or any other classifier."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace as replace_fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import softmax

from polyad.errors import InputError
from polyad.estimators.base import RankREstimator
from polyad.scene.files.option_values import check_window
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import TrainingBands
from polyad.scene.learn.networks import part_of
from polyad.scene.learn.outputs import Classes
from polyad.scene.map.separable import (
    Replace,
    Scorer,
    check_square_windows,
    separable_scorer,
    standardization,
)
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_color, class_dtype
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Block, Tile, plan_tiles
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
# Of projected pixels computed at once by each thread: few enough to stay in the processor's caches,
# and enough for the halo to weigh little.
PIECE_BYTES = 4 * 2**20
CALLS = 256  # pixels that could be computed in the time that the calls of one piece take
RUN = 4  # and in the time after which reading a row of a piece is as fast as it gets
PATCH_BYTES = 64 * 2**20
Sheet = tuple[Array, Array | None, Callable[[Tile, Array, Array | None], None]]


def class_sheet(model: SceneModel, shape: tuple[int, int], probabilities: bool) -> Sheet:
    """Return ids ``(h, w)`` and, if asked for, probabilities of a tile, and what fills them."""
    values = np.array([c.value for c in model.classes], class_dtype(model.classes))
    ids = np.empty(shape, values.dtype)
    proba = np.empty((*shape, len(values)), np.float32) if probabilities else None

    def put(piece: Tile, scores: Array, blank: Array | None) -> None:
        """Take the logits ``(classes, h, w)`` of a piece."""
        ids[piece] = values[largest(scores)]
        if proba is not None:
            proba[piece] = softmax(scores, axis=0).transpose(1, 2, 0)
        if blank is not None:
            ids[piece][blank] = UNLABELED
            if proba is not None:
                proba[piece][blank] = np.nan

    return ids, proba, put


def value_sheet(model: SceneModel, shape: tuple[int, int], uncertainty: bool) -> Sheet:
    """Return 1 where a tile has values, else 0, ``(h, w)``, the numbers, and what fills them."""
    fit = model.value_fit
    count = fit.outputs if uncertainty else len(fit.targets)
    mean, scale = (
        a[:count].astype(np.float32)
        for a in (model.estimator.target_mean_, model.estimator.target_scale_)
    )
    mapped = np.ones(shape, np.uint8)
    numbers = np.empty((*shape, fit.bands(uncertainty)), np.float32)

    def put(piece: Tile, scores: Array, blank: Array | None) -> None:
        """Take the standardized outputs ``(outputs, h, w)`` of a piece."""
        numbers[piece] = fit.decode(scores.transpose(1, 2, 0) * scale + mean, uncertainty)
        if blank is not None:
            mapped[piece][blank] = 0
            numbers[piece][blank] = np.nan

    return mapped, numbers, put


def block_classifier(
    model: SceneModel, nodata: float | None, probabilities: bool = False
) -> Callable[[Block], tuple[Array, Array | None]]:
    """Return the function that classifies one tile, read with its halo, by the network alone.

    It takes a block whose halo is half the model's window, and returns ids ``(h, w)`` and, if
    asked for, probabilities ``(h, w, classes)``. A regression model gives 1 where it has some, and
    the numbers themselves, with their standard deviations if ``probabilities`` are asked for; see
    `value_sheet`. The pieces of a tile are shared out among as many threads as torch has.
    """
    sheet: Callable[..., Any] = class_sheet
    answering = model
    if (fit := model.values) is not None:
        sheet = value_sheet
        if fit.folds and not probabilities:  # no more outputs and hidden units than a map takes
            part = part_of(model.estimator, len(fit.targets))
            answering = replace_fields(model, estimator=part)
    halo, side = model.window // 2, piece_side(answering)
    separable = _is_separable(model.estimator, model.window)
    finds_suspects = separable and model.soundness is not None
    # Of other classifiers it is not known whether several threads may score at a time
    threads = separable and model.estimator.network_.output.weight.device.type == "cpu"
    new_scorer = (
        partial(separable_scorer, answering.estimator, answering.soundness)
        if separable
        else partial(patch_scorer, model.estimator, model.window)
    )
    spare: list[Scorer] = []  # they keep buffers: one for each thread, and for the next tile
    fill = np.asarray(0.0 if model.fill is None else model.fill, np.float32)  # (bands,) or ()

    def classify(block: Block) -> tuple[Array, Array | None]:
        shape = len(block.rows) - 2 * halo, len(block.cols) - 2 * halo
        mapped, numbers, put = sheet(model, shape, probabilities)
        inner = slice(halo, -halo or None)

        def classify_piece(piece: Tile) -> None:
            try:
                scorer = spare.pop()
            except IndexError:
                scorer = new_scorer()
            rows, cols = (slice(p.start, p.stop + 2 * halo) for p in piece)
            pixels = block.cut(rows, cols) if finds_suspects else block.repaired(rows, cols)
            replace = None
            if finds_suspects and block.despiking is not None:
                replace = partial(block.replacements, rows, cols)
            missing = nodata is not None and (pixels == nodata).any()
            scores = None if missing else scorer(pixels, replace=replace)
            blank = None
            if scores is None:
                gathered = block.repaired(rows, cols)
                valid = valid_pixels(gathered, nodata)
                filled = np.where(valid[..., None], gathered, fill)
                scores = np.asarray(scorer(filled, sure=True))
                blank = ~valid[inner, inner]
            put(piece, scores, blank)
            spare.append(scorer)

        pieces = plan_tiles(shape, piece_shape(shape, side, halo))
        if threads:
            run_tasks(classify_piece, pieces)
        else:
            for piece in pieces:
                classify_piece(piece)
        return mapped, numbers

    return classify


def as_scene_model(
    model: Any, scene: Scene | xr.DataArray, window: int | None = None
) -> SceneModel:
    """Return ``model`` itself if it is a `SceneModel`, else make one of a bare classifier."""
    if isinstance(model, SceneModel):
        return model
    ids = np.asarray(model.classes_)
    if ids.dtype.kind not in "iu":
        raise InputError(
            f"a map holds whole numbers, the model has classes {ids[:3]!r}...; fit it on class ids"
        )
    classes = tuple(ClassInfo(int(v), f"class {v}", class_color(int(v))) for v in ids)
    side, bands = _window_and_bands(model, window, Scene.of(scene).shape[2])
    fill = None
    if _is_separable(model, side):
        fill = tuple(standardization(model, bands)[0].tolist())
    return SceneModel(model, side, Classes.of(classes), TrainingBands(count=bands), fill=fill)


def _is_separable(estimator: Any, window: int) -> bool:
    return isinstance(estimator, RankREstimator) and (
        window == 1 or len(estimator.sample_shape_) > 1
    )


def _window_and_bands(model: Any, window: int | None, scene_bands: int) -> tuple[int, int]:
    """Return what a bare classifier was fitted on, as far as it tells."""
    shape = tuple(getattr(model, "sample_shape_", ()))
    if len(shape) > 1:
        check_square_windows(shape)
        if window not in (None, shape[0]):
            raise InputError(f"model was fitted on windows of side {shape[0]}, got window={window}")
        return check_window(shape[0]), math.prod(shape[2:])
    side = check_window(1 if window is None else window)
    features = int(getattr(model, "n_features_in_", 0))
    if features in (0, side):  # it takes patches, or does not tell
        return side, scene_bands
    if features % side**2:
        raise InputError(
            f"expected a model of windows of {side} x {side} pixels, got one fitted on {features} "
            "values; pass the window it was fitted on"
        )
    return side, features // side**2


def piece_side(model: SceneModel) -> int:
    """Return the side of the pieces in which a thread computes a tile, at most.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> network = SimpleNamespace(hidden=75, rank=1)
    >>> piece_side(SceneModel(network, 5, Classes.of(()), TrainingBands(count=200)))
    114
    """
    if isinstance(model.estimator, RankREstimator):  # its parameters need not be its network's
        layer = model.estimator.network_.hidden
        terms = layer.out_features * layer.rank
    else:
        terms = getattr(model.estimator, "hidden", 1) * getattr(model.estimator, "rank", 1)
    padded = math.isqrt(PIECE_BYTES // (4 * max(terms, len(model.classes))))
    return min(max(padded - model.window + 1, 16 if terms < 2**16 else 1), 256)


def piece_shape(shape: tuple[int, int], side: int, halo: int) -> tuple[int, int]:
    """Return the height and width of the pieces of a tile: equal ones, with little halo.

    With its halo, a piece has no more pixels than a square of this side with its own.

    Examples
    --------
    >>> piece_shape((145, 145), side=114, halo=2)
    (73, 145)
    >>> piece_shape((1000, 1000), side=114, halo=2)
    (77, 167)
    """
    height, width = shape
    most = (side + 2 * halo) ** 2

    def widest(rows: int) -> int:
        return most // (rows + 2 * halo) - 2 * halo

    def computed(piece: tuple[int, int]) -> int:
        down, across = (-(-n // k) for n, k in zip(shape, piece, strict=True))
        rows, cols = height + 2 * halo * down, width + 2 * halo * across
        # Of an odd number, one of two threads waits while the other does the last
        idle = rows * cols // 2 // (down * across) if down * across % 2 else 0
        return rows * cols + idle + CALLS * down * across + RUN * rows * across

    heights = {equal_lengths(height, rows) for rows in range(1, min(4 * side, height) + 1)}
    pieces = [(rows, equal_lengths(width, widest(rows))) for rows in heights if widest(rows) > 0]
    return min(sorted(pieces), key=computed)


def equal_lengths(length: int, most: int) -> int:
    """Return how long the pieces are, if ``length`` is cut into equal ones of at most ``most``.

    Examples
    --------
    >>> equal_lengths(145, most=140)
    73
    """
    return -(-length // -(-length // most))


def patch_scorer(estimator: Any, window: int) -> Scorer:
    """Score a tile patch by patch: for any classifier, and the reference for the fast path.

    Scores are log-probabilities, or for a classifier that has none, one for the class predicted.
    """

    def scores(
        pixels: Array,
        sure: bool = False,
        replace: Replace | None = None,  # noqa: ARG001 - its pixels come repaired
    ) -> Array | None:
        if not sure and not valid_pixels(pixels).all():
            return None
        views = np.lib.stride_tricks.sliding_window_view(pixels, (window, window), axis=(0, 1))
        views = views.transpose(0, 1, 3, 4, 2)  # (h, w, window, window, bands)
        height, width = views.shape[:2]
        # Ours say the shape of samples. One of scikit-learn's says how long the first axis was
        flat = window * window * pixels.shape[2]
        takes_vectors = getattr(estimator, "n_features_in_", flat) == flat
        shape = tuple(getattr(estimator, "sample_shape_", ())) or (
            (flat,) if takes_vectors else (window, window, pixels.shape[2])
        )
        rows = max(1, PATCH_BYTES // max(1, width * window * window * pixels.shape[2] * 4))
        scored = []
        for start in range(0, height, rows):
            samples = views[start : start + rows].astype(np.float32).reshape(-1, *shape)
            scored.append(_class_scores(estimator, samples))
        return np.concatenate(scored).T.reshape(-1, height, width)

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


def _class_scores(estimator: Any, samples: Array) -> Array:
    if hasattr(estimator, "predict_proba"):
        with np.errstate(divide="ignore"):
            return np.log(estimator.predict_proba(samples))
    predicted = estimator.predict(samples)
    return np.where(predicted[:, None] == estimator.classes_, 0.0, -np.inf)
