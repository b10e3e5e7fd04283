"""From a store of finished tiles to the output: one pass, in order, so always the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.atomic import Outputs, replacing_together
from polyad.distributed.ledger import TileStore
from polyad.distributed.plans import ScenePlan
from polyad.errors import OutputError
from polyad.scene.classes import UNLABELLED, with_classes
from polyad.scene.geotiff_map import MapWriter, encode_probabilities, open_probabilities
from polyad.scene.model import SceneModel
from polyad.scene.paths import check_apart
from polyad.scene.writers import add_map, check_output, georeference

Array = npt.NDArray[Any]


def check_outputs(plan: ScenePlan) -> None:
    """Raise `OutputError` before any work, if its result could not be written."""
    if isinstance(plan.source.where, str):
        for out in filter(None, (plan.out, plan.probabilities)):
            check_apart(out, [plan.source.where])
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
    model: SceneModel,
    plan: ScenePlan,
    ids: TileStore,
    proba: TileStore | None,
    probability_dtype: str = "float32",
) -> None:
    """Write the map of one scene, and if there are any its probabilities.

    A GeoTIFF or Zarr store is written tile by tile; the other kinds are made from the whole map.
    The GeoTIFF is, byte for byte, the one that `polyad.scene.mapping.map_file` writes.
    """
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
            for number, part in enumerate(plan.tiles):
                shares = None if proba is None else proba.get(number)
                writer.write((part.rows, part.cols), ids.get(number), shares)
        return
    with replacing_together() as outputs:
        if ending == ".zarr":
            _add_zarr(outputs, model, plan, ids)
        else:
            whole = np.zeros(shape, ids.dtype)
            for number, part in enumerate(plan.tiles):
                whole[part] = ids.get(number)
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
            for number, part in enumerate(plan.tiles):
                bands = encode_probabilities(proba.get(number), probability_dtype)
                out.write((part.rows, part.cols), np.moveaxis(bands, -1, 0))


def class_map(model: SceneModel, scene: xr.DataArray, ids: Any) -> xr.DataArray:
    """Return ids ``(y, x)``, as numpy or Dask array, with the scene's georeference and classes."""
    frame = scene.isel(band=0, drop=True)
    coords = {k: v for k, v in frame.coords.items() if set(v.dims) <= {"y", "x"}}
    found = xr.DataArray(ids, dims=("y", "x"), coords=coords).rename(None)  # Dask brings a name
    return with_classes(found, model.classes)


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
    empty.attrs["nodata"] = UNLABELLED
    part = outputs.part(plan.out, folder=True)
    empty.to_dataset().to_zarr(part, compute=False, consolidated=False)
    array: Any = zarr.open_group(str(part), mode="r+")["class_map"]
    for number, tile in enumerate(plan.tiles):
        array[tile] = ids.get(number)
