"""How near a map of a scene larger than the caches comes to sgemm, by kind of pixels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray as xr

from benchmarks.data import PAVIA, PAVIA_CLASSES, made_classifier, made_scene
from benchmarks.harness import interleave, sgemm, sgemm_rate
from benchmarks.maps import two_threads, useful_flops
from polyad.scene.learn.radiometry import prepared
from polyad.scene.map.classifier import as_scene_model
from polyad.scene.map.mapping import map_scene

BANDS = (PAVIA[2], 200)
DTYPES = ("float32", "uint16")
ORDERS = {"BIP": (0, 1, 2), "BIL": (0, 2, 1)}  # how rows, columns and bands lie in memory


def throughput(rounds: int, size: tuple[int, int] = PAVIA[:2]) -> dict[str, Any]:
    """Time maps of every kind of pixels against sgemm, in the same rounds; one thread."""
    rows = [
        kind(rounds, (*size, bands), dtype, order)
        for bands in BANDS
        for dtype in DTYPES
        for order in ORDERS
    ]
    model, scene = made_classifier(BANDS[0], PAVIA_CLASSES), pixels((*size, BANDS[0]), "uint16")
    return {
        "size": list(size),
        "rows": rows,
        "two threads": two_threads(model, scene, rounds),
    }


def kind(rounds: int, shape: tuple[int, int, int], dtype: str, order: str) -> dict[str, Any]:
    """Return the share of sgemm of one kind, and what the search for corrupt pixels costs."""
    scene = pixels(shape, dtype, order)
    model = as_scene_model(made_classifier(shape[2], PAVIA_CLASSES), scene)
    searching = replace(model, soundness=prepared(scene).despiking.noise)
    ways: dict[str, Callable[[], object]] = {
        "map": lambda: map_scene(model, scene),
        "searching": lambda: map_scene(searching, scene),
        "sgemm": sgemm(),
    }
    times = interleave(ways, rounds, clock=time.process_time)
    flops, rate = useful_flops(shape, rank=1), sgemm_rate(times["sgemm"])
    return {
        "bands": shape[2],
        "dtype": dtype,
        "order": order,
        "bytes": scene.nbytes,
        "least": times["map"].least,
        "share of sgemm": flops / times["map"].least / rate,
        "sgemm": rate,
        "searching": times["searching"].least / times["map"].least,
    }


def pixels(shape: tuple[int, int, int], dtype: str, order: str = "BIP") -> xr.DataArray:
    """Return random counts of one type, which lie in memory as a file of this order has them."""
    axes = ORDERS[order]
    values = made_scene(*shape).values.clip(0).astype(dtype)
    values = np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))
    return xr.DataArray(values, dims=("y", "x", "band"))


if __name__ == "__main__":
    import json

    torch.set_num_threads(1)
    print(json.dumps(throughput(rounds=9), indent=1))
