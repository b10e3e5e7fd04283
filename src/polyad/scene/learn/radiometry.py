"""The light in which a scene was taken, from a bounded sample of its pixels; no label is used.

A model keeps quantiles of every band, at its training pixels and over its scene, and some spectra
of that scene. `polyad.scene.learn.adaptation` compares another scene to them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, fields
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
from polyad.scene.raster.corrupt import REPAIRS, SUMS, Soundness, learn_soundness, picked
from polyad.scene.raster.dims import as_scene
from polyad.scene.raster.inside import (
    INSIDE,
    cropped_to_mask,
    read_pixels,
    repairs_of,
    with_repairs,
)
from polyad.scene.raster.patches import extract_patches
from polyad.scene.raster.pixels import valid_pixels

Array = npt.NDArray[Any]

LIGHT = "light"  # attribute of a scene: its `SceneLight`
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SAMPLE = 4096  # spectra that quantiles are taken from
KEPT = 256  # spectra that a model keeps
PLACES = 2000  # with data, to know how far the map lies from the labels
LEAST = 8  # spectra without which nothing is said
SMALL = 2**16  # pixels of a scene that is read whole
WINDOWS, SIDE = 6, 24  # of a larger one: windows along each axis, and pixels along a window


@dataclass(frozen=True)
class SceneLight:
    """What a sample of a scene tells of its light.

    Attributes
    ----------
    quantiles : ndarray of float64, ``(7, bands)``
        Of every band, for the shares in `SHARES`.
    spectra : ndarray of float32, ``(n, bands)``
        At most `KEPT` pixels, spread over the scene.
    places : ndarray of int, ``(m, 2)``
        Row and column of some pixels with data, all over the scene.
    soundness : Soundness or None
    """

    quantiles: Array
    spectra: Array
    places: Array
    soundness: Soundness | None = None


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


def _soundness(value: Any) -> Soundness:
    if isinstance(value, Soundness):
        return value
    names = {field.name: SUMS if "sum" in field.name else None for field in fields(Soundness)}
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
    return Soundness(**found)


StoredSoundness = Annotated[
    Soundness,
    PlainValidator(_soundness),
    PlainSerializer(lambda s: {name: value.tolist() for name, value in vars(s).items()}),
]


def sample_pixels(scene: xr.DataArray, most: int = SAMPLE) -> tuple[Array, Array]:
    """Return spectra ``(n, bands)`` with data spread evenly over the scene, and places with data.

    A small scene is read whole, of a larger one 36 windows are; where there is a mask, inside it.
    The same places are taken of every scene of one size. There are at most ``most`` spectra, and
    about `PLACES` rows and columns ``(m, 2)``.
    """
    scene = with_repairs(as_scene(scene), None)
    corner = (0, 0)
    if INSIDE in scene.coords:
        inside = scene[INSIDE].values
        corner = int(inside.any(axis=1).argmax()), int(inside.any(axis=0).argmax())
    scene = cropped_to_mask(scene)
    height, width = scene.shape[:2]
    if height * width <= SMALL:
        windows = [(slice(0, height), slice(0, width))]
    else:
        starts = (
            np.unique(np.linspace(0, max(n - SIDE, 0), WINDOWS).astype(int)).tolist()
            for n in (height, width)
        )
        rows, cols = ([slice(s, s + SIDE) for s in along] for along in starts)
        windows = [(r, c) for r in rows for c in cols]
    parts, places = [], []
    for r, c in windows:
        pixels = read_pixels(scene, r, c)
        valid = valid_pixels(pixels, scene.rio.nodata)
        parts.append(pixels[valid])
        places.append(np.argwhere(valid) + np.add(corner, (r.start, c.start)))
    found = np.concatenate(places)
    found = found[:: max(len(found) // PLACES, 1)]
    return evenly(np.concatenate(parts), most).astype(np.float32), found


def evenly(rows: Array, most: int) -> Array:
    """Return at most so many rows, evenly spaced."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def light_of(scene: xr.DataArray) -> SceneLight | None:
    """Return what a sample of the scene tells of its light, None where too few pixels have data."""
    scene = as_scene(scene)
    known: Any = scene.attrs.get(LIGHT)
    if isinstance(known, SceneLight) and known.spectra.shape[1] == scene.sizes["band"]:
        return known
    spectra, places = sample_pixels(scene)
    if len(spectra) < LEAST:
        return None
    quantiles = picked(spectra.astype(np.float64), SHARES)
    return SceneLight(quantiles, evenly(spectra, KEPT), places, learn_soundness(spectra))


def prepared(scene: xr.DataArray) -> xr.DataArray:
    """Return a scene to train on: corrupt pixels are read repaired, and its light is known.

    Doing it once saves the sample where many models are trained on one scene.
    """
    scene = as_scene(scene)
    light = light_of(scene)
    if light is None:
        return scene
    known: Any = scene.attrs.get(LIGHT)
    if known is not light:
        scene = scene.assign_attrs({LIGHT: light})
    return with_repairs(scene, light.soundness)


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


def repairs_soundness(scene: xr.DataArray) -> Soundness | None:
    """Return the soundness by which a scene's pixels are repaired, None if they are not."""
    repairs = as_scene(scene).attrs.get(REPAIRS)
    if repairs is None or repairs.soundness.bands != as_scene(scene).sizes["band"]:
        return None
    soundness: Soundness = repairs.soundness
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
