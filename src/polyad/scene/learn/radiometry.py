"""The light in which a scene was taken, from a bounded sample of its pixels; no label is used.

A model keeps quantiles of every band, at its training pixels and over its scene, and some spectra
of that scene. `polyad.scene.learn.adaptation` compares another scene to them.
"""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import xarray as xr
from pydantic import (
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from polyad.codec import Record, shown
from polyad.scene.files.option_values import SINGLE
from polyad.scene.raster.despiking import SUMS, NoiseModel, picked, valid_pixels
from polyad.scene.raster.scene import KEPT, SAMPLE, SHARES, SMALL, Scene, evenly
from polyad.scene.raster.windows import extract_patches

Array = npt.NDArray[Any]


def as_numbers(value: Any, shape: tuple[int | None, ...], least: float = -SINGLE) -> Array:
    """Return stored numbers as an array; raise ValueError unless they have the shape and range.

    A length of None may be any.
    """
    try:
        found = np.asarray(value)
    except ValueError:  # rows of several lengths
        found = np.empty(0, object)
    known = found.dtype.kind in "iuf" and found.ndim == len(shape)
    if not known or any(n not in (None, m) for n, m in zip(shape, found.shape, strict=True)):
        raise ValueError(f"must be numbers of shape {shape}, got {shown(value)}")
    if not (np.isfinite(found).all() and (found >= least).all() and (found <= SINGLE).all()):
        raise ValueError(f"must be finite numbers from {least:g} to {SINGLE:g}")
    return found.astype(np.float64)


def _quantiles(value: Any) -> Array:
    found = as_numbers(value, (len(SHARES), None))
    if (np.diff(found, axis=0) < 0).any():
        raise ValueError("must be quantiles, which ascend")
    return found


Quantiles = Annotated[
    Array, PlainValidator(_quantiles), PlainSerializer(lambda values: values.tolist())
]


class Radiometry(Record):
    """What a model keeps of the light in which it was trained.

    Attributes
    ----------
    training : ndarray of float64, ``(7, bands)``
        Quantiles at the training pixels, for the shares in `SHARES`.
    scene : ndarray of float64, ``(7, bands)``
        Of the whole scene.
    spectra : ndarray of float32, ``(n, bands)``
        Some pixels of the scene; 32-bit numbers in base64 in a file.
    """

    training: Quantiles
    scene: Quantiles
    spectra: Array

    @field_validator("spectra", mode="plain")
    @classmethod
    def _read_spectra(cls, value: Any, info: ValidationInfo) -> Array:
        if isinstance(value, np.ndarray):
            return value
        bands = np.shape(info.data.get("training", [[]]))[1]
        try:
            if not isinstance(value, str) or len(value) > 6 * KEPT * bands:
                raise ValueError
            spectra = np.frombuffer(base64.b64decode(value, validate=True), "<f4")
            spectra = spectra.reshape(-1, bands)
        except ValueError:
            raise ValueError(
                f"must be at most {KEPT} times {bands} 32-bit numbers, in base64"
            ) from None
        if not len(spectra) or not np.isfinite(spectra).all():
            raise ValueError(f"must be 1 to {KEPT} and finite, got {len(spectra)}")
        return spectra.astype(np.float32)

    @field_serializer("spectra")
    def _write_spectra(self, value: Array) -> str:
        return base64.b64encode(value.astype("<f4").tobytes()).decode()

    @model_validator(mode="after")
    def _check_bands(self) -> Self:
        if self.scene.shape != self.training.shape:
            raise ValueError(f"scene must have {self.training.shape[1]} bands")
        return self


def _noise(value: Any) -> NoiseModel:
    if isinstance(value, NoiseModel):
        return value
    names = [field.name for field in fields(NoiseModel)]
    got = sorted(value.keys() ^ {*names}) if isinstance(value, dict) else value
    if not isinstance(value, dict) or got:
        raise ValueError(f"must have the keys {', '.join(names)}; unknown or missing: {shown(got)}")
    found = {}
    for name in names:
        length, least = SUMS if "sum" in name else None, -SINGLE if "center" in name else 1e-30
        try:
            found[name] = as_numbers(value[name], (length,), least)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    if len({len(found[name]) for name in ("center", "scale", "tail")}) > 1:
        raise ValueError("center, scale and tail must have one length")
    return NoiseModel(**found)


StoredNoise = Annotated[
    NoiseModel,
    PlainValidator(_noise),
    PlainSerializer(lambda s: {name: value.tolist() for name, value in vars(s).items()}),
]


def prepared(scene: xr.DataArray | Scene) -> Scene:
    """Return a scene to train on: corrupt pixels are read repaired, and its light is known.

    Doing it once saves the sample where many models are trained on one scene.
    """
    known = Scene.of(scene)
    return known if known.radiometry is None else known.despiked(known.radiometry.noise)


def radiometry_of(scene: Scene, pixels: Array) -> Radiometry | None:
    """Return what a model that is trained on ``pixels``, ``(n, 2)``, keeps of its scene's light."""
    light = scene.radiometry
    some = evenly(np.asarray(pixels, np.intp).reshape(-1, 2), SAMPLE)
    if light is None or not len(some):
        return None
    spectra = extract_patches(scene, some[:, 0], some[:, 1], window=1)[:, 0, 0]
    spectra = spectra[valid_pixels(spectra, scene.nodata)].astype(np.float64)
    if not len(spectra):
        return None
    training = picked(spectra, SHARES)
    return Radiometry(training=training, scene=light.quantiles, spectra=light.spectra)


def replaced_pixels(scene: Scene) -> int:
    """Return how many corrupt pixels of a scene were replaced by their neighbors so far.

    Parameters
    ----------
    scene : Scene
        From `SceneModel.view`, and since then mapped or trained on.
    """
    return 0 if scene.despiking is None else scene.despiking.count()


def corrupt_pixels(scene: Scene) -> int | None:
    """Return how many pixels of a scene are corrupt, whatever part of it was needed so far.

    None of a large scene that was not read whole: a part would give another number in every
    command. A small one is read for it.
    """
    despiking = scene.despiking
    if despiking is None:
        return 0
    if not despiking.whole:
        if scene.shape[0] * scene.shape[1] > SMALL:
            return None
        scene.read(slice(None), slice(None))
        despiking.whole = True
    return despiking.count()
