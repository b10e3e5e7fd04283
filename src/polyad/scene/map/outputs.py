"""Which files a model's map goes to: classes and values are written in different ways."""

from __future__ import annotations

import os
from typing import Any

import xarray as xr

from polyad.errors import InputError
from polyad.scene.files.paths import check_ending
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.georeference import georeference
from polyad.scene.raster.mask import without_mask
from polyad.scene.raster.prediction_sets import SetRule
from polyad.scene.write.map_writer import MapWriter
from polyad.scene.write.value_writer import ValueWriter

AnyPath = str | os.PathLike[str]


def check_map_kind(
    model: SceneModel,
    path: AnyPath,
    probabilities: AnyPath | None = None,
    probability_dtype: str = "float32",
) -> None:
    """Raise an error if a map of values cannot be what is asked for."""
    if model.values is None:
        return
    if probabilities is not None or probability_dtype != "float32":
        raise InputError(
            "the model predicts values, which have no probabilities; leave out --probabilities and "
            "--probability-type, and ask for --uncertainty to have their standard deviation"
        )
    check_ending(path, "map of values")


def map_writer(
    model: SceneModel,
    scene: xr.DataArray,
    path: AnyPath,
    *,
    probabilities: AnyPath | None = None,
    probability_dtype: str = "float32",
    uncertainty: AnyPath | None = None,
    sets: SetRule | None = None,
) -> MapWriter | ValueWriter:
    """Return the writer of the map that ``model`` makes of ``scene``; see `polyad.map_file`."""
    crs, transform = georeference(scene)
    place: dict[str, Any] = {"crs": crs, "transform": transform}
    place["coords"] = without_mask(scene.coords)
    shape = scene.sizes["y"], scene.sizes["x"]
    if model.values is not None:
        return ValueWriter(path, shape, model.values.targets, uncertainty=uncertainty, **place)
    return MapWriter(
        path,
        shape,
        model.classes,
        probabilities=probabilities,
        probability_dtype=probability_dtype,
        uncertainty=uncertainty,
        sets=sets,
        **place,
    )
