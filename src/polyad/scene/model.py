"""`SceneModel`: a fitted classifier with what it must know to map a scene."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import SceneMismatch
from polyad.estimators.persistence import load_with_about, save
from polyad.scene.classes import ClassInfo

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SceneModel:
    """A classifier of patches (or spectra), its window, its classes and where it learned.

    Attributes
    ----------
    estimator : classifier
        Predicts class ids from patches ``(n, window, window, bands)``, or from spectra
        ``(n, bands)`` when ``window`` is 1 and it was fitted on vectors.
    window : int
    classes : tuple of ClassInfo
    bands : int
    wavelength : tuple of float or None
        Band centres in nm of the scene it learned from.
    training : dict
        ``scene`` (fingerprint) and ``pixels`` (row, column of every training pixel), so that an
        evaluation on the same scene can leave them out.
    """

    estimator: Any
    window: int
    classes: tuple[ClassInfo, ...]
    bands: int
    wavelength: tuple[float, ...] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def check(self, scene: xr.DataArray) -> None:
        """Raise `SceneMismatch` unless the scene has the bands this model was fitted on."""
        bands = scene.sizes["band"]
        if bands != self.bands:
            raise SceneMismatch(
                f"model wants {self.bands} bands, scene has {bands}; select the bands it was "
                "fitted on with scene.isel(band=...)"
            )
        if self.wavelength is None or "wavelength" not in scene.coords:
            return
        shift = float(np.abs(np.asarray(self.wavelength) - scene["wavelength"].values).max())
        step = float(np.median(np.abs(np.diff(self.wavelength)))) if bands > 1 else np.inf
        if shift > step:
            raise SceneMismatch(
                f"model was fitted on other wavelengths: bands differ by up to {shift:.0f} nm "
                f"where they lie {step:.0f} nm apart; resample the scene to the model's bands"
            )

    def learned_from(self, scene: xr.DataArray) -> bool:
        """Whether ``scene`` is the one that the training pixels came from."""
        return self.training.get("scene") == fingerprint(scene)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one ``.polyad`` file."""
        about = {
            "window": self.window,
            "classes": [list(c) for c in self.classes],
            "bands": self.bands,
            "wavelength": None if self.wavelength is None else list(self.wavelength),
            "training": dict(self.training),
        }
        save(self.estimator, path, {"scene": about})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SceneModel:
        """Read a model back."""
        estimator, about = load_with_about(path)
        if "scene" not in about:
            raise SceneMismatch(
                f"{os.fspath(path)} was not trained on a scene; make one with polyad train"
            )
        found = about["scene"]
        wavelength = found["wavelength"]
        return cls(
            estimator,
            int(found["window"]),
            tuple(ClassInfo(int(v), str(n), str(c)) for v, n, c in found["classes"]),
            int(found["bands"]),
            None if wavelength is None else tuple(float(w) for w in wavelength),
            found["training"],
        )


def fingerprint(scene: xr.DataArray) -> str:
    """Return a digest of a scene's size and of a few of its pixels."""
    height, width, _ = scene.shape
    middle = scene.isel(y=slice(height // 2, height // 2 + 1), x=slice(0, min(width, 64)))
    digest = hashlib.sha256(str(scene.shape).encode())
    digest.update(np.ascontiguousarray(middle.values, dtype=np.float32).tobytes())
    return digest.hexdigest()[:32]
