"""`SceneModel`: a fitted network with what it must know to map a scene."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.codec import Fault
from polyad.errors import InputError, ModelFileError, PolyadWarning, SceneMismatch
from polyad.scene.learn.accuracy import (
    CrossValidation,
    HeldOutLabels,
    HeldOutScores,
    cross_validation,
)
from polyad.scene.learn.model_file import SceneRecord, TrainingBands, TrainingRecord, packed
from polyad.scene.learn.outputs import Classes, Output, Targets
from polyad.scene.learn.radiometry import Radiometry, corrupt_pixels, radiometry_of
from polyad.scene.learn.recipe import Choice, Recipe
from polyad.scene.raster.bands import band_widths
from polyad.scene.raster.classes import ClassInfo, unique_names
from polyad.scene.raster.despiking import NoiseModel, check_real
from polyad.scene.raster.labels import Labels, Merging, plan_merge
from polyad.scene.raster.scene import Scene, describe
from polyad.scene.raster.selection import SAME, match_bands, scene_in_bands, span
from polyad.scene.read.classes import Colors, with_colors

Array = npt.NDArray[Any]
NEAR = ", which lie next to each other: expect less elsewhere"


@dataclass(frozen=True)
class SceneModel:
    """A network on windows (or spectra), what it predicts, and the scene it was trained on.

    Attributes
    ----------
    estimator : classifier or regressor
        Predicts from patches ``(n, window, window, bands)``, or from spectra ``(n, bands)`` when
        ``window`` is 1 and it was fitted on vectors.
    window : int
    output : Classes or Targets
        What it predicts.
    spectral : TrainingBands
        Of the scene it learned from.
    training : TrainingRecord
    recipe : Recipe or None
        The preset it was made by and the steps done to its maps; None for the network alone.
    fill : tuple of float or None
        Spectrum that stands for pixels without data inside a window: the mean of the training
        pixels, in training and in mapping alike. None is zero.
    radiometry : Radiometry or None
        The light of the scene it learned from: quantiles of every band at the training pixels and
        over the scene, and some spectra.
    soundness : NoiseModel or None
        How rough the spectra of a scene are, by which corrupt pixels are found. None for few bands.
    statistics : SceneStatistics or None
        Of the scene it learned from, so that a map of that scene need not compute them again. They
        are kept in memory, not in the model file.
    merging : Merging or None
        How the estimator's classes are merged into ``classes``, see `merged`.
    adapted : str or None
        How the model was adapted to a scene's light, in words; see `polyad.scene.adapt_model`.
    """

    estimator: Any
    window: int
    output: Output
    spectral: TrainingBands
    training: TrainingRecord = field(default_factory=TrainingRecord)
    recipe: Recipe | None = None
    fill: tuple[float, ...] | None = None
    radiometry: Radiometry | None = field(default=None, repr=False, compare=False)
    soundness: NoiseModel | None = field(default=None, repr=False, compare=False)
    # SceneStatistics or None, not imported: a model is described without torch
    statistics: Any = field(default=None, repr=False, compare=False)
    merging: Merging | None = None
    adapted: str | None = None

    # -- what it predicts -------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[ClassInfo, ...]:
        """The classes that it predicts; none of a regression model."""
        return self.output.classes if isinstance(self.output, Classes) else ()

    @property
    def values(self) -> Targets | None:
        """What a regression model predicts; None of a model of classes."""
        return self.output if isinstance(self.output, Targets) else None

    @property
    def value_fit(self) -> Targets:
        """Its ``values``; `InputError` of a model of classes."""
        if not isinstance(self.output, Targets):
            raise InputError(
                "the model predicts classes, expected one of values; train one with "
                "--task regression (in Python, polyad.scene.train_regression)"
            )
        return self.output

    def check_classes(self, remedy: str) -> None:
        """Raise `InputError` if the model predicts values and no classes."""
        if not isinstance(self.output, Classes):
            raise InputError(f"the model predicts values, expected one of classes; {remedy}")

    def merged(self, merge: str | Sequence[str]) -> SceneModel:
        """Return a model whose maps have some classes merged; their probabilities are summed.

        Parameters
        ----------
        merge : str or sequence of str
            Rules such as ``corn+soy=crops``: classes by name or id, and the name of the new one.
        """
        self.check_classes("leave out --merge (merge)")
        merging = plan_merge(self.classes, merge)
        whole = merging if self.merging is None else self.merging.followed_by(merging)
        return replace(self, output=Classes.of(merging.after), merging=whole)

    def colored(self, colors: Colors) -> SceneModel:
        """Return a model whose maps have other colors, from a file or a mapping.

        Parameters
        ----------
        colors : path-like or mapping
            See `polyad.scene.read_colors`; or from class, by name or id, to ``#rrggbb``.
        """
        self.check_classes("leave out --colors (colors)")
        return replace(self, output=Classes.of(with_colors(self.classes, colors)))

    def renamed(self, classes: Sequence[ClassInfo]) -> SceneModel:
        """Return the model with other names and colors of its classes, also in its accuracy.

        Parameters
        ----------
        classes : sequence of ClassInfo
            As many as the model has, in its order.
        """
        new = {old.name: now.name for old, now in zip(self.classes, classes, strict=True)}
        accuracy = None if self.accuracy is None else self.accuracy.renamed(new)
        model = replace(self, output=Classes.of(tuple(classes)))
        return model.with_training(accuracy=accuracy)

    @property
    def unmerged(self) -> SceneModel:
        """The model with the classes of its estimator."""
        if self.merging is None:
            return self
        return replace(self, output=Classes.of(self.merging.before), merging=None)

    @property
    def working_bytes(self) -> int:
        """About how many bytes a pixel takes while its outputs are computed."""
        outputs = self.unmerged.output.outputs
        guided = None if self.recipe is None else self.recipe.guided
        return 4 * outputs + (0 if guided is None else guided.working_bytes(outputs))

    # -- its bands --------------------------------------------------------------------------------

    @property
    def bands(self) -> int:
        """How many bands it takes."""
        return self.spectral.count

    @property
    def wavelength(self) -> tuple[float, ...] | None:
        """Band centers in nm of the scene it learned from."""
        return self.spectral.wavelength

    def view(self, scene: xr.DataArray | Scene) -> Scene:
        """Return ``scene`` with the bands this model was fitted on; nothing is read.

        Of what is returned, corrupt pixels are read as their neighbors. TrainingBands are found by
        wavelength where model and scene tell it, whatever their number and order; see
        `polyad.scene.raster.selection`. Else by their number in the file.

        Raises
        ------
        SceneMismatch
            The scene does not have these bands.
        """
        known = Scene.of(scene)
        if known.nodata is None and self.spectral.nodata is not None:
            known = Scene(describe(known.array, nodata=self.spectral.nodata))
        viewed = self._in_bands(known).despiked(self.soundness)
        if known.source is not None:  # the file that no output may replace
            viewed.array.encoding.setdefault("source", known.source)
        return viewed

    def _in_bands(self, scene: Scene) -> Scene:
        """Return ``scene`` with the model's bands."""
        check_real(scene.dtype)
        centers, numbered = scene.bands.wavelength, self._numbered(scene)
        if not (_known(self.wavelength) and _known(centers)):
            if numbered is None and scene.bands.count != self.bands:
                raise SceneMismatch(
                    f"model wants {self.bands} bands{span(self.wavelength)}, scene has "
                    f"{scene.bands.count}{span(centers)}; give the scene the bands the model was "
                    "trained on, as with gdal_translate -b, or train a model on this scene's bands"
                )
            return scene if numbered is None else numbered
        expected = np.asarray(self.wavelength)
        fwhm = None if self.spectral.fwhm is None else np.asarray(self.spectral.fwhm)
        widths = band_widths(expected, fwhm)
        for same in (scene, numbered):  # by number, since some bands have one center
            if same is None or same.bands.count != self.bands:
                continue
            if (np.abs(expected - same.bands.wavelength) <= SAME * widths).all():
                return same
        match = match_bands(expected, widths, np.asarray(centers, float))
        if match.interpolated:
            warnings.warn(
                f"{match.interpolated} of {self.bands} bands are interpolated to the model's "
                f"wavelengths, which are up to {match.shift:.1f} nm from the scene's",
                PolyadWarning,
                stacklevel=1,  # however it is reached, it is told once
            )
        return scene_in_bands(scene, match, expected)

    def _numbered(self, scene: Scene) -> Scene | None:
        """Return the bands by number if the file has as many as the model's had, else None."""
        numbers, in_file = self.spectral.kept, self.spectral.in_file
        if numbers is None or scene.bands.in_file != in_file:
            return None
        place = {int(n): k for k, n in enumerate(scene.bands.number)}
        if not all(n in place for n in numbers):
            return None
        chosen = [place[n] for n in numbers]
        return scene if chosen == list(range(scene.bands.count)) else scene.select(chosen)

    def with_nodata(self, nodata: float | None) -> SceneModel:
        """Return the model with a nodata value for scenes that declare none."""
        return replace(self, spectral=self.spectral.model_copy(update={"nodata": nodata}))

    # -- its training -----------------------------------------------------------------------------

    def with_training(self, **changes: Any) -> SceneModel:
        """Return the model with other entries of its training record."""
        return replace(self, training=self.training.model_copy(update=changes))

    @property
    def label_counts(self) -> dict[str, int] | None:
        """Training pixels of each class, see `unique_names`; None if the model does not say."""
        if self.training.counts is None:
            return None
        names = unique_names(self.classes)
        counts = dict.fromkeys(names, 0)
        trained = range(len(self.classes)) if self.merging is None else self.merging.positions
        for k, count in zip(trained, self.training.counts, strict=True):
            counts[names[k]] += count
        return counts

    @property
    def accuracy(self) -> CrossValidation | None:
        """Accuracy from its own labels, held out in turn; None if the model does not say."""
        return self.training.accuracy

    @property
    def score_line(self) -> str | None:
        """How well it does on its own labels, in words; None if the model does not say."""
        found = self.accuracy
        return None if found is None else found.line + (NEAR if found.overlaps(self.window) else "")

    def with_accuracy(self, accuracy: CrossValidation) -> SceneModel:
        """Return the model with what `polyad.cross_validate` found, to be kept in its file."""
        return self.with_training(accuracy=accuracy)

    @property
    def untested_line(self) -> str | None:
        """Which labels the folds could not test, in words; None where there are none."""
        untested = {} if self.accuracy is None else self.accuracy.not_tested
        if not untested:
            return None
        each = ", ".join(f"{name} {count:,}" for name, count in untested.items())
        count = sum(untested.values())
        labels = "1 label" if count == 1 else f"{count:,} labels"
        return f"{labels} ({each}), as none of their class was left to train on"

    def learned_from(self, scene: xr.DataArray | Scene) -> bool:
        """Whether ``scene`` is the one that the training pixels came from."""
        return self.training.scene == self.view(scene).fingerprint

    def training_pixels(self, shape: tuple[int, ...]) -> Array:
        """Return rows and columns ``(n, 2)`` of the training pixels in the scene they are of.

        A model file can name any pixel: one outside the scene, of ``shape``, is refused.
        """
        pixels = self.training.pixels
        if (pixels >= shape).any():
            raise ModelFileError(
                f"the model says it was trained on pixels up to {pixels.max(axis=0).tolist()}, the "
                f"scene has {shape[0]} x {shape[1]}; train it again"
            )
        return pixels

    # -- its file ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one ``.polyad`` file."""
        if self.adapted is not None:
            what = "a model that was adapted to a scene's light is for mapping that scene"
            raise InputError(f"{what}; save it before it is adapted")
        if self.merging is not None:
            raise InputError(
                "a model with merged classes is for mapping and cannot be kept in a file; save it "
                "before merging, or merge the labels that it is trained on"
            )
        stored = {name: getattr(self, name) for name in SceneRecord.model_fields}
        record = SceneRecord.model_construct(**stored)
        about = record.model_dump(mode="json", by_alias=True, warnings=False)
        try:
            SceneRecord.from_data(about, "scene")
        except Fault as fault:
            raise InputError(f"the model cannot be kept in a file: {fault}") from fault
        from polyad.estimators.persistence import save  # here: a model is described without torch

        save(self.estimator, path, {"scene": about})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SceneModel:
        """Read a model back.

        Raises
        ------
        ModelFileError
            The file is missing, damaged or inconsistent.
        SceneMismatch
            The model in it was not trained on a scene.
        """
        from polyad.estimators.persistence import load_with_about

        estimator, about = load_with_about(path)
        return model_from_about(path, about, estimator)


def model_from_about(
    path: str | os.PathLike[str], about: Mapping[str, Any], estimator: Any = None
) -> SceneModel:
    """Return the model that a file's header is ``about``.

    Without its estimator it can say what it was trained on, and maps nothing.
    """
    if "scene" not in about:
        raise SceneMismatch(
            f"{os.fspath(path)} was not trained on a scene; make one with polyad train"
        )
    try:
        scene = SceneRecord.from_data(about["scene"], "scene")
        if estimator is not None:
            scene.check_network(estimator)
    except Fault as fault:
        raise ModelFileError(
            f"{os.fspath(path)} does not describe its scene as polyad does: {fault}; train it again"
        ) from fault
    return SceneModel(estimator, **dict(scene))


def _known(centers: Any) -> bool:
    """Whether the center of every band is known; headers also have zeros for unknown."""
    values = np.asarray(() if centers is None else centers, float)
    return len(values) > 0 and bool(np.isfinite(values).all() and (values > 0).all())


def trained_model(
    scene: Scene,
    labels: xr.DataArray,
    estimator: Any,
    window: int,
    pixels: Array,
    choice: Choice | None = None,
    tested: HeldOutLabels | None = None,
    held_out: HeldOutScores | None = None,
    **more: Any,
) -> SceneModel:
    """Return the model of an estimator that was fitted on ``pixels``, ``(n, 2)``, of a scene.

    ``tested`` says what became of the labels that folds held out; ``more`` are further attributes
    of `SceneModel`.
    """
    truth = Labels.of(labels)
    known = {c.value: c for c in truth.classes}
    y = truth.ids[tuple(pixels.T)]
    output = Classes.of(known[int(v)] for v in estimator.classes_)
    accuracy = None if tested is None else cross_validation(tested, output.names, method="choice")
    return scene_model(scene, estimator, window, output, pixels, **more).with_training(
        counts=tuple(int((y == v).sum()) for v in estimator.classes_),
        numbered_by_name=truth.numbered_by_name,
        choice=choice,
        accuracy=accuracy,
        held_out=held_out,
    )


def scene_model(
    scene: Scene, estimator: Any, window: int, output: Output, pixels: Array, **more: Any
) -> SceneModel:
    """Return a model with what is kept of its scene and the training pixels, ``(n, 2)``."""
    bands = scene.bands
    some = bands.left_out is not None
    spectral = TrainingBands.model_construct(  # what a file cannot hold is told when it is saved
        count=bands.count,
        wavelength=_finite_or_nan(bands.wavelength),
        fwhm=_finite_or_nan(bands.width),
        kept=tuple(bands.number.tolist()) if some else None,
        in_file=bands.in_file if some else None,
        left_out=bands.note,
    )
    training = TrainingRecord(
        scene=scene.fingerprint, packed_pixels=packed(pixels), replaced=corrupt_pixels(scene)
    )
    return SceneModel(
        estimator,
        window,
        output,
        spectral,
        training,
        radiometry=radiometry_of(scene, pixels),
        soundness=None if scene.despiking is None else scene.despiking.noise,
        **more,
    )


def _finite_or_nan(values: Array | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(np.where(np.isfinite(values), values, np.nan).tolist())
