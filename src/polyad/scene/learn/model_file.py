"""What a model file says of its scene: every key, its type and its range.

The ranges of the steps' settings keep the work for each pixel within some thirty times that of the
settings polyad itself chooses.
"""

from __future__ import annotations

import base64
import math
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from polyad.codec import Fault, NaN, Record, Row, Text
from polyad.estimators.file_format import OUTPUTS, SPECTRUM
from polyad.scene.files.option_values import MAX_WINDOW
from polyad.scene.learn.accuracy import Count, CrossValidation, HeldOutScores
from polyad.scene.learn.outputs import Classes, Output
from polyad.scene.learn.radiometry import Radiometry, StoredNoise
from polyad.scene.learn.recipe import Choice, GuidedFilter, Recipe, Spectrum, Step

Array = npt.NDArray[Any]
PROJECTION = 2**27  # weights on spectra that a tile is multiplied by
WINDOWS = 2**26  # numbers that one pixel's window is projected to
FILTER_BYTES = 2**28  # that a guided filter may take round one pixel

# NaN where the scene did not say
Wavelengths = Annotated[
    Row[Annotated[float, Field(ge=-1e12, le=1e12)] | NaN], Field(max_length=SPECTRUM)
]
BandNumber = Annotated[int, Field(ge=1, le=SPECTRUM)]


class TrainingBands(Record):
    """The bands of the scene that a model learned from.

    Attributes
    ----------
    count : int
    wavelength : tuple of float or None
        Centers in nm.
    fwhm : tuple of float or None
        Widths in nm, or how far apart they were in their file.
    kept : tuple of int or None
        Numbers in the file of those that were not left out, where some were.
    in_file : int or None
        How many there were in the file.
    left_out : str or None
        Which were left out and why, in words.
    nodata : float or None
        Value that stands for "no measurement" in scenes that declare none; stored only if given.
    """

    count: BandNumber
    wavelength: Wavelengths | None = None
    fwhm: Wavelengths | None = None
    kept: Annotated[Row[BandNumber], Field(max_length=SPECTRUM)] | None = None
    in_file: BandNumber | None = None
    left_out: Annotated[Text, Field(max_length=2000)] | None = None
    nodata: Annotated[float, Field(ge=-1e40, le=1e40)] | None = None

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        stored: dict[str, object] = write(self)
        return {k: v for k, v in stored.items() if k != "nodata" or v is not None}

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        for name in ("wavelength", "fwhm", "kept"):
            _check_length(getattr(self, name), self.count, name)
        return self


class TrainingRecord(Record):
    """What a model keeps of its training.

    Attributes
    ----------
    scene : str or None
        Fingerprint of the scene, so that an evaluation on it can leave out the training pixels.
    packed_pixels : str
        Rows and columns of the training pixels, see `pixels`.
    counts : tuple of int or None
        How many of these are of each class.
    seconds : float or None
        That training took in all.
    without_data, incomplete : int or None
        How many labels lie where the scene has no data, or lack one of several targets.
    replaced : int or None
        How many pixels of the scene are corrupt and read as their neighbors; None where only a part
        of a large one was read.
    numbered_by_name : bool
        Whether the labels had names and no ids.
    choice : Choice or None
        What spatial folds of the labels chose.
    accuracy : CrossValidation or None
        From its own labels, held out in turn.
    held_out : HeldOutScores or None
        Of these labels, by which `polyad.scene.prediction_sets` are calibrated.
    """

    scene: Annotated[Text, Field(max_length=64)] | None = None
    packed_pixels: str = ""
    counts: Annotated[Row[Count], Field(max_length=OUTPUTS)] | None = None
    seconds: Annotated[float, Field(ge=0, le=1e12)] | None = None
    without_data: Count | None = None
    incomplete: Count | None = None
    replaced: Count | None = None
    numbered_by_name: bool = False
    choice: Choice | None = None
    accuracy: CrossValidation | None = None
    held_out: HeldOutScores | None = None

    @field_validator("packed_pixels")
    @classmethod
    def _check_pixels(cls, packed: str) -> str:
        try:
            pixels = unpacked(packed)
        except ValueError:
            raise ValueError("must be pairs of 32-bit numbers in base64") from None
        if pixels.min(initial=0) < 0:
            raise ValueError(f"must not be below 0, got {pixels.min()}")
        return packed

    @property
    def pixels(self) -> Array:
        """Rows and columns ``(n, 2)`` of the training pixels."""
        return unpacked(self.packed_pixels)


def packed(pixels: Any) -> str:
    """Return rows and columns, ``(n, 2)``, as a text that takes eleven characters a pixel.

    Examples
    --------
    >>> unpacked(packed([[0, 7], [300, 2]])).tolist()
    [[0, 7], [300, 2]]
    """
    return base64.b64encode(np.asarray(pixels, "<i4").reshape(-1, 2).tobytes()).decode()


def unpacked(pixels: str) -> Array:
    """Return rows and columns, ``(n, 2)``."""
    content = base64.b64decode(pixels, validate=True)
    return np.frombuffer(content, "<i4").reshape(-1, 2).astype(np.intp)


class SceneRecord(Record):
    """What a model file says of its scene; the fields are those of `SceneModel`."""

    window: Annotated[int, Field(ge=1, le=MAX_WINDOW)]
    output: Annotated[Output, Field(discriminator="kind")]
    spectral: TrainingBands
    training: TrainingRecord
    recipe: Recipe | None = None
    fill: Spectrum | None = None
    radiometry: Radiometry | None = None
    soundness: StoredNoise | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        bands, training = self.spectral.count, self.training
        _check_length(self.fill, bands, "fill")
        if self.radiometry is not None and self.radiometry.scene.shape[1] != bands:
            raise ValueError(f"radiometry.scene must be of {bands} bands")
        if self.soundness is not None and self.soundness.bands != bands:
            raise ValueError(f"soundness.center must have {bands - 2} entries")
        steps = () if self.recipe is None else self.recipe.steps
        if not isinstance(self.output, Classes):
            if steps:
                raise ValueError("recipe.steps must be empty of a model of targets")
            return self
        classes = self.output.outputs
        _check_length(training.counts, classes, "training.counts")
        if training.accuracy is not None:
            training.accuracy.check_names(self.output.names, "training.accuracy")
        if training.held_out is not None:
            _check_targets(training.held_out.targets, classes, "training.held_out.targets")
        for place, step in enumerate(steps):
            self._check_step(step, classes, f"recipe.steps[{place}]")
        return self

    def _check_step(self, step: Step, classes: int, key: str) -> None:
        """Raise ValueError unless a step has numbers for every band, pixel and class."""
        if isinstance(step, GuidedFilter):
            _check_length(step.mean, self.spectral.count, f"{key}.mean")
            _check_length(step.projection, self.spectral.count, f"{key}.projection")
            if step.working_bytes(classes) * (2 * step.halo + 1) ** 2 > FILTER_BYTES:
                raise ValueError(f"{key}.radius must be smaller for {classes} classes")
        else:
            _check_length(step.targets, len(self.training.pixels), f"{key}.targets")
            _check_targets(step.targets, classes, f"{key}.targets")

    def check_network(self, estimator: Any) -> None:
        """Raise `Fault` unless the network takes these windows and gives these answers."""
        self.output.check_network(estimator)
        window, bands, shape = self.window, self.spectral.count, tuple(estimator.sample_shape_)
        if len(shape) == 1:
            shape = (1, 1, *shape)
        if shape[:2] != (window, window) or window % 2 == 0 or math.prod(shape[2:]) != bands:
            raise Fault(
                "scene.window and scene.spectral must be those of the network, which takes "
                f"{shape}, got {window} and {bands} bands"
            )
        layer = estimator.network_.hidden
        terms = layer.out_features * layer.rank
        if terms * bands > PROJECTION:
            raise Fault(f"scene.spectral.count must be smaller for {terms} terms")
        if terms * window**2 > WINDOWS:
            raise Fault(f"scene.window must be smaller for {terms} terms")
        mode = None if estimator.scaler_ is None else estimator.scaler_.mode % len(layer.in_shape)
        if mode is not None and mode < len(layer.in_shape) - len(shape[2:]):
            raise Fault(
                f"header.scaler_mode must be a mode of bands, got {mode} of {layer.in_shape}"
            )


def _check_length(values: tuple[Any, ...] | None, expected: int, key: str) -> None:
    if values is not None and len(values) != expected:
        raise ValueError(f"{key} must have {expected} entries, got {len(values)}")


def _check_targets(targets: tuple[int, ...], classes: int, key: str) -> None:
    if max(targets, default=0) >= classes:
        raise ValueError(f"{key} must be below {classes}, got {max(targets)}")
