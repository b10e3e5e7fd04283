"""From a store of finished tiles to the output: one pass, in order, so always the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from polyad.distributed.finished import FinishedTiles
from polyad.distributed.plans import ScenePlan
from polyad.scene.files.paths import check_distinct, check_output, set_paths
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.outputs import map_writer
from polyad.scene.map.sets import LabelDistance
from polyad.scene.raster.classes import with_classes
from polyad.scene.raster.mask import without_mask


def check_outputs(plan: ScenePlan) -> None:
    """Raise `OutputError` before any work, if its result could not be written."""
    beside = {} if plan.sets is None else set_paths(plan.out)
    check_distinct(plan.out, plan.probabilities, plan.uncertainty, *beside.values())
    check_output(plan.out, "map")
    if plan.probabilities is not None:
        check_output(plan.probabilities, "file of probabilities")
    if plan.uncertainty is not None:
        check_output(plan.uncertainty, "file of uncertainty")
    for what, path in beside.items():
        check_output(path, what)


def write_output(
    model: SceneModel, finished: FinishedTiles, probability_dtype: str = "float32"
) -> int:
    """Write the map of one scene, and if they are wanted its probabilities, uncertainty, sets.

    The files are, byte for byte, those that `polyad.map_file` writes. Returns how many pixels have
    a class, as it does.
    """
    plan, ids, proba = finished.plan, finished.ids, finished.probabilities
    options: dict[str, Any] = {"probabilities": plan.probabilities, "sets": plan.sets}
    options |= {"uncertainty": plan.uncertainty, "probability_dtype": probability_dtype}
    reach = None if plan.sets is None else LabelDistance(model, plan.scene)
    with map_writer(model, plan.scene, plan.out, **options) as writer:
        mapped = 0
        for number, tile in enumerate(plan.tiles):
            shares = None if proba is None else proba.get(number)
            class_ids = ids.get(number)
            writer.write((tile.rows, tile.cols), class_ids, shares)
            mapped += int(np.count_nonzero(class_ids))
            if reach is not None:
                reach.add(tile, class_ids)
    if reach is not None:
        reach.warn()
    return mapped


def class_map(model: SceneModel, scene: xr.DataArray, ids: Any) -> xr.DataArray:
    """Return ids ``(y, x)``, as numpy or Dask array, with the scene's georeference and classes."""
    frame = xr.DataArray(ids, dims=("y", "x"), coords=without_mask(scene.coords))
    frame = frame.rename(None)  # Dask brings a name
    return with_classes(frame, model.classes)
