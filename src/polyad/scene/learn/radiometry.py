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
from polyad.scene.raster.despiking import REPAIRS, SUMS, NoiseModel, picked, valid_pixels
from polyad.scene.raster.scene import (
    KEPT,
    RADIOMETRY,
    SAMPLE,
    SHARES,
    SMALL,
    RadiometricSample,
    Scene,
    as_scene,
    evenly,
)
from polyad.scene.raster.selection import read_pixels, repairs_of, with_repairs
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


def _listed(values: Array) -> list[Any]:
    return list(values.tolist())


Quantiles = Annotated[Array, PlainValidator(_quantiles), PlainSerializer(_listed)]


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
    names = {field.name: SUMS if "sum" in field.name else None for field in fields(NoiseModel)}
    if not isinstance(value, dict) or value.keys() != names.keys():
        raise ValueError(f"must have the keys {', '.join(names)}, got {shown(value)}")
    found = {}
    for name, length in names.items():
        try:
            least = -SINGLE if "center" in name else 1e-30
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


def light_of(scene: xr.DataArray) -> RadiometricSample | None:
    """Return what a sample of the scene tells of its light, None where too few pixels have data."""
    return Scene.of(scene).radiometry


def prepared(scene: xr.DataArray) -> xr.DataArray:
    """Return a scene to train on: corrupt pixels are read repaired, and its light is known.

    Doing it once saves the sample where many models are trained on one scene.
    """
    scene = as_scene(scene)
    light = light_of(scene)
    if light is None:
        return scene
    known: Any = scene.attrs.get(RADIOMETRY)
    if known is not light:
        scene = scene.assign_attrs({RADIOMETRY: light})
    return with_repairs(scene, light.noise)


def radiometry_of(scene: xr.DataArray, pixels: Array) -> Radiometry | None:
    """Return what a model that is trained on ``pixels``, ``(n, 2)``, keeps of its scene's light."""
    scene = as_scene(scene)
    light = light_of(scene)
    some = evenly(np.asarray(pixels, np.intp).reshape(-1, 2), SAMPLE)
    if light is None or not len(some):
        return None
    spectra = extract_patches(scene, some[:, 0], some[:, 1], window=1)[:, 0, 0]
    spectra = spectra[valid_pixels(spectra, scene.rio.nodata)]
    if not len(spectra):
        return None
    training = picked(spectra.astype(np.float64), SHARES)
    return Radiometry(training=training, scene=light.quantiles, spectra=light.spectra)


def repairs_soundness(scene: xr.DataArray) -> NoiseModel | None:
    """Return the soundness by which a scene's pixels are repaired, None if they are not."""
    repairs = as_scene(scene).attrs.get(REPAIRS)
    if repairs is None or repairs.noise.bands != as_scene(scene).sizes["band"]:
        return None
    soundness: NoiseModel = repairs.noise
    return soundness


def replaced_pixels(scene: xr.DataArray) -> int:
    """Return how many corrupt pixels of a scene were replaced by their neighbors so far.

    Parameters
    ----------
    scene : DataArray
        From `SceneModel.view`, and since then mapped or trained on.
    """
    repairs = as_scene(scene).attrs.get(REPAIRS)
    return 0 if repairs is None else repairs.count()


def corrupt_pixels(scene: xr.DataArray) -> int | None:
    """Return how many pixels of a scene are corrupt, whatever part of it was needed so far.

    None of a large scene that was not read whole: a part would give another number in every
    command. A small one is read for it.
    """
    scene = as_scene(scene)
    repairs = repairs_of(scene)
    if repairs is None:
        return 0
    if not repairs.whole:
        if scene.sizes["y"] * scene.sizes["x"] > SMALL:
            return None
        read_pixels(scene, slice(None), slice(None))
        repairs.whole = True
    return repairs.count()
