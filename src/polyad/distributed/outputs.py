"""From a store of finished tiles to the output: one pass, in order, so always the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.atomic import Outputs, replacing_together
from polyad.distributed.finished import FinishedTiles, TileStore
from polyad.distributed.plans import ScenePlan
from polyad.errors import OutputError
from polyad.scene.files.paths import check_output
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import UNLABELED, with_classes
from polyad.scene.raster.georeference import georeference
from polyad.scene.raster.inside import without_mask
from polyad.scene.write.geotiff import MapWriter, encode_probabilities, open_probabilities
from polyad.scene.write.writers import add_map

Array = npt.NDArray[Any]


def check_outputs(plan: ScenePlan) -> None:
    """Raise `OutputError` before any work, if its result could not be written."""
    if plan.out.suffix.lower() != ".zarr":
        check_output(plan.out, "map")
    elif plan.out.is_file() or not plan.out.parent.is_dir():
        raise OutputError(
            f"cannot write {plan.out}: wanted a new folder in {plan.out.parent}, got a file of "
            "that name or no such folder; create it or choose another output"
        )
    if plan.probabilities is not None:
        check_output(plan.probabilities, "file of probabilities")


def write_output(
    model: SceneModel, finished: FinishedTiles, probability_dtype: str = "float32"
) -> None:
    """Write the map of one scene, and if there are any its probabilities.

    A GeoTIFF or Zarr store is written tile by tile; the other kinds are made from the whole map.
    The GeoTIFF is, byte for byte, the one that `polyad.map_file` writes.
    """
    plan, ids, proba = finished.plan, finished.ids, finished.probabilities
    ending = plan.out.suffix.lower()
    crs, transform = georeference(plan.scene)
    shape = plan.scene.sizes["y"], plan.scene.sizes["x"]
    if ending in (".tif", ".tiff"):
        with MapWriter(
            plan.out,
            shape,
            model.classes,
            crs=crs,
            transform=transform,
            probabilities=plan.probabilities,
            probability_dtype=probability_dtype,
        ) as writer:
            for number, tile in enumerate(plan.tiles):
                shares = None if proba is None else proba.get(number)
                writer.write((tile.rows, tile.cols), ids.get(number), shares)
        return
    with replacing_together() as outputs:
        if ending == ".zarr":
            _add_zarr(outputs, model, plan, ids)
        else:
            whole = np.zeros(shape, ids.dtype)
            for number, tile in enumerate(plan.tiles):
                whole[tile] = ids.get(number)
            add_map(outputs, plan.out, class_map(model, plan.scene, whole))
        if proba is None or plan.probabilities is None:
            return
        with open_probabilities(
            outputs,
            plan.probabilities,
            shape,
            [c.name for c in model.classes],
            dtype=probability_dtype,
            crs=crs,
            transform=transform,
        ) as out:
            for number, tile in enumerate(plan.tiles):
                bands = encode_probabilities(proba.get(number), probability_dtype)
                out.write((tile.rows, tile.cols), np.moveaxis(bands, -1, 0))


def class_map(model: SceneModel, scene: xr.DataArray, ids: Any) -> xr.DataArray:
    """Return ids ``(y, x)``, as numpy or Dask array, with the scene's georeference and classes."""
    frame = scene.isel(band=0, drop=True)
    coords = without_mask(frame.coords)
    frame = xr.DataArray(ids, dims=("y", "x"), coords=coords).rename(None)  # Dask brings a name
    return with_classes(frame, model.classes)


def _add_zarr(outputs: Outputs, model: SceneModel, plan: ScenePlan, ids: TileStore) -> None:
    """Write a Zarr store whose chunks are the tiles; it appears when whole."""
    try:
        import dask.array
        import zarr
    except ImportError as error:
        raise OutputError(
            f"cannot write {plan.out}: a Zarr store needs the packages zarr and dask; run "
            "pip install 'polyad[zarr,dask]'"
        ) from error
    shape = plan.scene.sizes["y"], plan.scene.sizes["x"]
    blank = dask.array.zeros(shape, dtype=ids.dtype, chunks=plan.tiles[0].shape)
    empty = class_map(model, plan.scene, blank).rename("class_map")
    empty.attrs["nodata"] = UNLABELED
    temporary = outputs.temporary(plan.out, folder=True)
    empty.to_dataset().to_zarr(temporary, compute=False, consolidated=False)
    array: Any = zarr.open_group(str(temporary), mode="r+")["class_map"]
    for number, tile in enumerate(plan.tiles):
        array[tile] = ids.get(number)
