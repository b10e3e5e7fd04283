"""From a scene and a model of values to the values of every pixel, in memory."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.mapping import iter_map
from polyad.scene.raster.mask import without_mask
from polyad.scene.raster.targets import VALUE_DIMS, Target

Array = npt.NDArray[Any]


@overload
def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: Literal[False] = False,
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> xr.DataArray: ...


@overload
def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: Literal[True],
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> tuple[xr.DataArray, xr.DataArray]: ...


def map_values(
    model: SceneModel,
    scene: xr.DataArray,
    *,
    uncertainty: bool = False,
    tile: int | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> xr.DataArray | tuple[xr.DataArray, xr.DataArray]:
    """Predict the values of every pixel of a scene.

    Parameters
    ----------
    model : SceneModel
        Of `polyad.scene.train_values`.
    scene, tile, adapt, progress
        See `polyad.map_scene`.
    uncertainty : bool, default=False
        Return the standard deviations too.

    Returns
    -------
    values : DataArray of float32, dims ``(y, x, target)``
        NaN where the scene has no data.
    deviation : DataArray of float32, dims ``(y, x, target)``
        If asked for; see `polyad.scene.learn.outputs`.
    """
    fit = model.value_fit
    model = adapt_model(model, scene, adapt)
    scene, targets = model.view(scene), fit.targets
    size = (scene.sizes["y"], scene.sizes["x"], fit.bands(uncertainty))
    numbers = np.empty(size, np.float32)
    for where, _, of_tile in iter_map(model, scene, uncertainty, tile, progress):
        numbers[where] = of_tile
    values = _frame(scene, numbers[..., : len(targets)], targets)
    if not uncertainty:
        return values
    return values, _frame(scene, numbers[..., len(targets) :], targets)


def _frame(scene: xr.DataArray, numbers: Array, targets: tuple[Target, ...]) -> xr.DataArray:
    names, units = [t.name for t in targets], [t.units for t in targets]
    out = xr.DataArray(numbers, dims=VALUE_DIMS, coords=without_mask(scene.coords))
    out = out.assign_coords(target=names, units=("target", units))
    return out.assign_attrs(_FillValue=np.float32(np.nan))
