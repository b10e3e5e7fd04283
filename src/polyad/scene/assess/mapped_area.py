"""Areas by the map alone: pixels counted, and the ground that they cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from polyad.errors import SceneError
from polyad.scene.raster.cell_area import HECTARE, row_areas
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.counting import class_totals
from polyad.scene.raster.georeference import grid_of
from polyad.scene.raster.scene import as_labels


def mapped_areas(class_map: xr.DataArray) -> dict[str, Any]:
    """Count the pixels of each class of a map.

    Returns
    -------
    dict
        ``pixels`` and ``hectares`` of all that have a class, ``without_class`` in pixels, a
        ``note`` and ``classes``, each with ``pixels``, ``share`` of those with a class, and
        ``hectares``, None where the reference system does not tell.

    Examples
    --------
    >>> mapped_areas(xr.DataArray(np.array([[1, 1], [0, 2]]), dims=("y", "x")))["pixels"]
    3
    """
    class_map = as_labels(class_map).transpose("y", "x")
    areas, note = None, "The map does not say its reference system: areas are in pixels."
    try:
        areas = row_areas(grid_of(class_map))
    except SceneError as error:
        note = f"Areas are in pixels: {error}."
    weights = np.ones(class_map.sizes["y"]) if areas is None else areas / HECTARE
    _, _, counts, hectares, _ = class_totals(class_map, class_map, weights)
    total, known = int(counts.sum()), areas is not None
    rows = [
        {
            "id": info.value,
            "name": info.name,
            "color": info.color,
            "pixels": int(counts[info.value]),
            "share": counts[info.value] / total if total else 0.0,
            "hectares": float(hectares[info.value]) if known else None,
        }
        for info in class_table(class_map)
    ]
    return {
        "pixels": total,
        "without_class": class_map.size - total,
        "hectares": float(hectares.sum()) if known else None,
        "classes": rows,
        "note": "" if known else note,
    }
