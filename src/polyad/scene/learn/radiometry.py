"""The light in which a scene was taken, from a bounded sample of its pixels; no label is used.

A model keeps quantiles of every band, at its training pixels and over its scene, and some spectra
of that scene. `polyad.scene.learn.adaptation` compares another scene to them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.codec import Fault
from polyad.scene.raster.despiking import REPAIRS, NoiseModel, picked, valid_pixels
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


@dataclass(frozen=True)
class Radiometry:
    """What a model keeps of the light in which it was trained.

    Attributes
    ----------
    training : ndarray of float64, ``(7, bands)``
        Quantiles at the training pixels, for the shares in `SHARES`.
    scene : ndarray of float64, ``(7, bands)``
        Of the whole scene.
    spectra : ndarray of float32, ``(n, bands)``
        Some pixels of the scene.
    """

    training: Array
    scene: Array
    spectra: Array

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        spectra = base64.b64encode(self.spectra.astype("<f4").tobytes()).decode()
        training, scene = self.training.tolist(), self.scene.tolist()
        return {"training": training, "scene": scene, "spectra": spectra}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], bands: int) -> Radiometry:
        """Return what `to_dict` wrote; raise `Fault` unless the spectra have these bands."""
        try:
            content = base64.b64decode(stored["spectra"], validate=True)
            spectra = np.frombuffer(content, "<f4").reshape(-1, bands)
        except (binascii.Error, ValueError) as error:
            raise Fault(
                f"scene.radiometry.spectra must be {bands} 32-bit numbers each, in base64"
            ) from error
        if not 1 <= len(spectra) <= KEPT or not np.isfinite(spectra).all():
            raise Fault(
                f"scene.radiometry.spectra must be 1 to {KEPT} and finite, got {len(spectra)}"
            )
        training, scene = (np.asarray(stored[k], np.float64) for k in ("training", "scene"))
        return cls(training, scene, spectra.astype(np.float32))


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
    return Radiometry(training, light.quantiles, light.spectra)


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


def soundness_to_dict(soundness: NoiseModel | None) -> dict[str, list[float]] | None:
    """Return plain values, ready for JSON."""
    if soundness is None:
        return None
    return {name: value.tolist() for name, value in vars(soundness).items()}


def soundness_from_dict(stored: Mapping[str, Any] | None) -> NoiseModel | None:
    """Return what `soundness_to_dict` wrote."""
    if stored is None:
        return None
    return NoiseModel(**{name: np.asarray(value, np.float64) for name, value in stored.items()})
