"""How well a model of values predicts what was measured at pixels that it did not learn from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import SceneError, SceneMismatch
from polyad.scene.assess.documents import Document, Reports, check_reports, write_document
from polyad.scene.assess.model_facts import model_content, model_facts
from polyad.scene.assess.pages import PageFigure, Themed, page_image, render
from polyad.scene.assess.provenance import RunRecord, record_run
from polyad.scene.draw.charts import DARK, LIGHT
from polyad.scene.draw.values import scatter_figure
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.folds import spatial_folds
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.outputs import ValueScore, score_values
from polyad.scene.learn.radiometry import corrupt_pixels
from polyad.scene.learn.values import check_values
from polyad.scene.map.mapping import iter_map, scene_tiles
from polyad.scene.raster.inside import note_read_whole
from polyad.scene.raster.targets import Target, as_values
from polyad.scene.read.labels import drop_nodata

Array = npt.NDArray[Any]
REACH = 1.959964  # standard deviations that hold 95 % of a normal distribution
_CAPTION = "Predicted against measured {}"


@dataclass(frozen=True, eq=False)
class ValueExamination:
    """A model's predictions beside what was measured.

    Attributes
    ----------
    scores : tuple of ValueScore
    pixels : ndarray of int, ``(n, 2)``
    measured, predicted, deviation : ndarray, ``(n, targets)``
        What was measured, NaN where nothing was; the predictions, and their standard deviations.
    n_train : int
    fit_seconds, map_seconds : float
    adapted : str or None
        How the model was adapted to the scene's light, in words.
    replaced : int or None
        See `Examination`.
    """

    scores: tuple[ValueScore, ...]
    pixels: Array
    measured: Array
    predicted: Array
    deviation: Array
    n_train: int
    fit_seconds: float | None
    map_seconds: float
    adapted: str | None = None
    replaced: int | None = None

    @property
    def targets(self) -> tuple[Target, ...]:
        """What is predicted."""
        return tuple(score.target for score in self.scores)

    @property
    def within(self) -> list[float]:
        """Share of what was measured that lies within 1.96 deviations, which promise 95 %."""
        missed = np.abs(self.measured - self.predicted)
        known = np.isfinite(self.measured)
        inside = (missed <= REACH * self.deviation) & known
        return [float(i.sum() / max(k.sum(), 1)) for i, k in zip(inside.T, known.T, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings."""
        rows = [
            score.to_dict() | {"within_95": round(share, 4)}
            for score, share in zip(self.scores, self.within, strict=True)
        ]
        return {
            "task": "regression",
            "targets": rows,
            "n_train": self.n_train,
            "n_test": len(self.pixels),
            "fit_seconds": None if self.fit_seconds is None else round(self.fit_seconds, 4),
            "map_seconds": round(self.map_seconds, 4),
            "pixels_replaced": self.replaced,
        } | ({} if self.adapted is None else {"adapted": self.adapted})

    def __str__(self) -> str:
        lines = []
        for score, share in zip(self.scores, self.within, strict=True):
            lines.append(f"{score.target.name}: {score.n:,} values in {score.groups:,} places")
            lines += [f"  {part.strip()}" for part in str(score).split(", ")]
            lines.append(f"  {100 * share:.0f} % within 1.96 standard deviations, which promise 95")
        return "\n".join([*lines, "in brackets: 95 % intervals over resampled places"])


def examine_values(
    model: SceneModel,
    scene: xr.DataArray,
    values: xr.DataArray,
    *,
    adapt: bool | None = None,
    progress: bool = False,
) -> ValueExamination:
    """Compare predictions with what was measured at pixels that the model did not learn from.

    Only the tiles that hold such pixels are mapped.

    Parameters
    ----------
    model : SceneModel
        Of `polyad.scene.train_values`.
    scene : DataArray, dims ``(y, x, band)``
    values : DataArray of float, dims ``(y, x, target)``
        See `polyad.scene.open_values`; its targets have the names of the model's.
    adapt, progress
        See `polyad.evaluate`.
    """
    fit = model.value_fit
    model = adapt_model(model, scene, adapt)
    scene = model.view(scene)
    values = _matched(as_values(values), fit.targets)
    check_values(scene, values)
    pixels = _test_pixels(model, scene, values)
    measured = values.values[tuple(pixels.T)].astype(np.float64)
    started = time.perf_counter()
    predicted, deviation = np.split(predict_pixels(model, scene, pixels, progress), 2, axis=1)
    seconds = time.perf_counter() - started
    group = spatial_folds(pixels, np.zeros(len(pixels), np.intp), 5).group
    return ValueExamination(
        score_values(measured, predicted, fit.targets, group),
        pixels,
        measured,
        predicted,
        deviation,
        len(model.training.get("pixels", [])),
        model.fit_seconds,
        seconds,
        model.adapted,
        corrupt_pixels(scene),
    )


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


def _test_pixels(model: SceneModel, scene: xr.DataArray, values: xr.DataArray) -> Array:
    known = np.isfinite(values.values).any(axis=2)
    marks = values.isel(target=0, drop=True).copy(data=known.astype(np.uint8))
    marks.attrs = {}
    test = drop_nodata(scene, marks).values > 0
    if model.learned_from(scene):
        test[tuple(model.training_pixels(test.shape).T)] = False
    pixels = np.argwhere(test)
    if not len(pixels):
        raise SceneError(
            "every pixel with a value was used for training or has no data, none is left to test "
            "on; bring other values, or read the scores on folds that polyad train prints"
        )
    return pixels


def predict_pixels(model: SceneModel, scene: xr.DataArray, pixels: Array, progress: bool) -> Array:
    """Return predictions and deviations of pixels, ``(n, 2 * targets)``."""
    numbers = np.empty((len(pixels), model.value_fit.bands(uncertainty=True)))
    place = np.full((scene.sizes["y"], scene.sizes["x"]), -1, np.int64)
    place[tuple(pixels.T)] = np.arange(len(pixels))
    tiles = scene_tiles(scene, model=model)
    wanted = [tile for tile in tiles if (place[tile] >= 0).any()]
    for tile, _, found in iter_map(model, scene, True, progress=progress, tiles=wanted):
        inside = place[tile] >= 0
        if found is not None:
            numbers[place[tile][inside]] = found[inside]
    if len(wanted) == len(tiles):
        note_read_whole(scene)
    return numbers


def write_value_report(
    path: Reports,
    examination: ValueExamination,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    model: SceneModel | None = None,
) -> None:
    """Write a report with the scores and a scatter picture of each target.

    Parameters
    ----------
    path : path-like or sequence of path-like
        A name ending in ``.json`` gets the content as JSON, any other the page.
    examination : ValueExamination
    title : str
        Name of the scene.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files, instead of ``command`` alone.
    model : SceneModel, optional
        The one examined, to say how it was made.
    """
    check_reports(path)
    record = record_run(command) if record is None else record
    write_document(path, value_document(examination, title, record, model))


def value_document(
    examination: ValueExamination, title: str, record: RunRecord, model: SceneModel | None = None
) -> Document:
    """Return the report; see `write_value_report`."""
    summary = f"{len(examination.pixels):,} measured pixels that were not trained on; "
    summary += f"{examination.n_train:,} were trained on. "
    summary += "" if examination.adapted is None else f"{examination.adapted}. "
    content = {
        "title": title,
        "summary": summary + "Intervals of 95 % are those of resampled places.",
        "scores": examination.to_dict(),
        "points": {
            "pixels": examination.pixels,
            "measured": examination.measured,
            "predicted": examination.predicted,
        },
        "facts": _facts(examination, model),
        "model": None if model is None else model_content(model),
        "record": record.to_dict(),
    }
    return Document("evaluation of values", content, lambda: _page(content, examination))


def _facts(examination: ValueExamination, model: SceneModel | None) -> dict[str, str]:
    """Return what was done, in words."""
    facts = {
        "Training pixels": f"{examination.n_train:,}",
        "Test pixels": f"{len(examination.pixels):,}, all others with a value",
    }
    if model is None:
        return facts
    told = {f"{s.target.name} by its own values": line for s, line in _own(model)}
    return facts | model_facts(model) | told


def _own(model: SceneModel) -> list[tuple[ValueScore, str]]:
    fit = model.value_fit
    lines = (line.partition(": ")[2] for line in fit.score_lines)
    return list(zip(fit.scores, lines, strict=True))


def _page(content: dict[str, Any], examination: ValueExamination) -> str:
    names = ", ".join(target.name for target in examination.targets)
    figures = [
        PageFigure(t.title, "", page_image(_scatter(examination, k), _CAPTION.format(t.name)), True)
        for k, t in enumerate(examination.targets)
    ]
    return render(
        "value_report.html",
        heading=f"{content['title']}: {names}",
        summary=content["summary"],
        rows=[
            {"name": s.target.title, "n": s.n, "measures": s.parts(), "within": share}
            for s, share in zip(examination.scores, examination.within, strict=True)
        ],
        figures=figures,
        facts=content["facts"],
        record=content["record"],
    )


def scatter_of(examination: ValueExamination, k: int, theme: Any = LIGHT) -> Any:
    """Return the scatter figure of one target."""
    score = examination.scores[k]
    known = np.isfinite(examination.measured[:, k])
    note = f"R2 {score.r2:.2f}\nn = {score.n:,}" if np.isfinite(score.r2) else f"n = {score.n:,}"
    return scatter_figure(
        examination.measured[known, k],
        examination.predicted[known, k],
        score.target,
        note=note,
        theme=theme,
    )


def _scatter(examination: ValueExamination, k: int) -> Themed:
    return Themed(*(scatter_of(examination, k, theme) for theme in (LIGHT, DARK)))
