"""Mapping a whole scene of Pavia University's size, every way giving the same classes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch.nn.functional import conv2d, pad

from benchmarks.data import HIDDEN, PAVIA, PAVIA_CLASSES, WINDOW, made_classifier, made_scene
from benchmarks.harness import Times, interleave, operations, peak_bytes, sgemm, sgemm_rate
from polyad import RankRClassifier
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.windows import extract_patches

Classes = NDArray[Any]
CUT = 4096  # patches cut at a time
PATCH_PART = 8  # the patch ways map this part of the rows; their seconds are scaled from it


def maps(rounds: int, shape: tuple[int, int, int] = PAVIA, rank: int = 1) -> dict[str, Any]:
    """Time the ways one thread wide, check that they agree, then `map_scene` on two threads."""
    scene = made_scene(*shape)
    model = made_classifier(shape[2], PAVIA_CLASSES, rank)
    ours = map_scene(model, scene).values
    ways: dict[str, Callable[[], Classes]] = {
        "polyad map_scene": lambda: map_scene(model, scene).values,
        "plain torch, projection and depthwise convolution": plain_torch(model, scene),
    }
    factorized = factorized_conv(model, scene)
    if factorized is not None:
        ways["TensorLy-Torch FactorizedConv (CP)"] = factorized
    agreement = {name: float(np.mean(way() == ours)) for name, way in ways.items()}
    times = interleave({**ways, "sgemm": sgemm()}, rounds)
    patches = patch_gemm(model, scene, shape[0] // PATCH_PART)
    strip = ours[: shape[0] // PATCH_PART]
    agreement["patch GEMM, cutting included"] = float(np.mean(patches() == strip))
    scaled = interleave({"patch": patches, "map": ways["polyad map_scene"]}, max(2, rounds // 3))
    times["patch GEMM, cutting included"] = Times(
        tuple(s * shape[0] / len(strip) for s in scaled["patch"].seconds)
    )
    flops = useful_flops(shape, rank)
    rate = sgemm_rate(times["sgemm"])  # from its least time, as the shares of it
    rows = {}
    for name, t in times.items():
        if name == "sgemm":
            continue
        base = scaled["map"] if "patch GEMM" in name else times["polyad map_scene"]
        rows[name] = {
            "seconds": t.median,
            "least": t.least,
            "over polyad": vars(t.over(base)),
            "share of sgemm": flops / t.least / rate,
            "agreement": agreement[name],
            "peak": peak_bytes(ways.get(name, patches)),
        }
    return {
        "scene": list(shape),
        "rank": rank,
        "flops": flops,
        "sgemm": rate,
        "rows": rows,
        "two threads": two_threads(model, scene, rounds),
        "profile": operations(lambda: map_scene(model, scene)),
    }


def useful_flops(shape: tuple[int, int, int], rank: int) -> int:
    """Return what the map needs: projection, correlation along both axes, output layer."""
    height, width, bands = shape
    per_pixel = 2 * HIDDEN * rank * (bands + 2 * WINDOW) + 2 * HIDDEN * PAVIA_CLASSES
    return height * width * per_pixel


def two_threads(model: RankRClassifier, scene: xr.DataArray, rounds: int) -> dict[str, Any]:
    """Time `map_scene` on one and on two threads by the wall clock."""

    def on(threads: int) -> Callable[[], object]:
        def way() -> None:
            torch.set_num_threads(threads)
            map_scene(model, scene)

        return way

    before = torch.get_num_threads()
    ways = {"one": on(1), "two": on(2)}
    times = interleave(ways, rounds, clock=time.perf_counter)
    torch.set_num_threads(before)
    least = times["one"].least / times["two"].least
    return {"speed-up": vars(times["one"].over(times["two"])), "of the least": least}


# -- the other ways -----------------------------------------------------------------------------


def _parts(model: RankRClassifier) -> tuple[Any, ...]:
    network, scaler = model.network_, model.scaler_
    factors = [f.detach() for f in network.hidden.factors]  # (Q, R, I_d)
    mean, scale = (torch.from_numpy(a).float() for a in (scaler.mean_, scaler.scale_))
    return network, factors, mean, scale


def plain_torch(model: RankRClassifier, scene: xr.DataArray) -> Callable[[], Classes]:
    """Return the map as one writes it down: whole arrays, one operation after the other."""
    network, factors, mean, scale = _parts(model)
    terms = HIDDEN * factors[0].shape[1]
    along_y, along_x, spectral = (f.flatten(0, 1) for f in factors)

    @torch.no_grad()
    def way() -> Classes:
        x = (torch.from_numpy(scene.values) - mean) / scale  # (h, w, bands)
        z = (x @ spectral.T).permute(2, 0, 1)[None]  # (1, terms, h, w)
        z = pad(z, [WINDOW // 2] * 4, mode="reflect")
        z = conv2d(z, along_y[:, None, :, None], groups=terms)
        z = conv2d(z, along_x[:, None, None, :], groups=terms)
        z = z.reshape(HIDDEN, -1, *z.shape[2:]).sum(dim=1)  # (Q, h, w)
        hidden = torch.tanh(z + network.hidden.bias[:, None, None])
        outputs = torch.einsum("cq,qhw->chw", network.output.weight, hidden)
        return (outputs + network.output.bias[:, None, None]).argmax(dim=0).numpy() + 1

    return way


def factorized_conv(model: RankRClassifier, scene: xr.DataArray) -> Callable[[], Classes] | None:
    """Return the map through TensorLy-Torch's CP convolution, given our factors."""
    try:
        from tltorch import FactorizedConv
    except ImportError:
        return None
    network, factors, mean, scale = _parts(model)
    rank = factors[0].shape[1]
    layer = FactorizedConv(
        factors[2].shape[-1],
        HIDDEN,
        WINDOW,
        order=2,
        rank=HIDDEN * rank,
        factorization="cp",
        implementation="factorized",
    )
    units = torch.eye(HIDDEN).repeat_interleave(rank, dim=1)  # term -> its unit, (Q, Q * R)
    mine = [units, *(f.flatten(0, 1).T for f in (factors[2], factors[0], factors[1]))]
    with torch.no_grad():
        layer.weight.weights.fill_(1.0)
        for slot, value in zip(layer.weight.factors, mine, strict=True):
            slot.copy_(value)

    @torch.no_grad()
    def way() -> Classes:
        x = (torch.from_numpy(scene.values) - mean) / scale
        x = pad(x.permute(2, 0, 1)[None], [WINDOW // 2] * 4, mode="reflect")
        z = layer(x)[0]  # (Q, h, w)
        hidden = torch.tanh(z + network.hidden.bias[:, None, None])
        outputs = torch.einsum("cq,qhw->chw", network.output.weight, hidden)
        return (outputs + network.output.bias[:, None, None]).argmax(dim=0).numpy() + 1

    return way


def patch_gemm(model: RankRClassifier, scene: xr.DataArray, height: int) -> Callable[[], Classes]:
    """Return the map of the first rows by batches of patches: cut, standardize, one product."""
    network, factors, mean, scale = _parts(model)
    dense = torch.einsum("qri,qrj,qrk->qijk", *factors).flatten(1)
    width = scene.sizes["x"]
    rows, cols = (a.ravel() for a in np.indices((height, width)))

    @torch.no_grad()
    def way() -> Classes:
        class_ids = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), CUT):
            batch = slice(start, start + CUT)
            patches = torch.from_numpy(
                extract_patches(scene.values, rows[batch], cols[batch], WINDOW)
            )
            x = ((patches - mean) / scale).flatten(1)
            outputs = network.output(torch.tanh(x @ dense.T + network.hidden.bias))
            class_ids[batch] = outputs.argmax(dim=1).numpy() + 1
        return class_ids.reshape(height, width)

    return way
