"""Measure everything and write docs/benchmarks.md, docs/benchmarks.json and the pictures.

python -m benchmarks              # all of it
python -m benchmarks --only maps  # one section anew; the rest is kept from the last run
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import busy, fits, growth, layers, maps, plans, startup, throughput
from benchmarks.harness import DOCS, fill, interleave, processor, sgemm, sgemm_rate
from benchmarks.page import parts

SECTIONS: dict[str, Callable[[int], Any]] = {
    "epochs": fits.epochs,
    "fits": fits.fits,
    "control": layers.control,
    "layers": layers.layers,
    "maps": maps.maps,
    "throughput": throughput.throughput,
    "plans": plans.grid,
    "growth": growth.growth,
    "startup": startup.startup,
    "busy": busy.busy,
}
ROUNDS = {  # of "control": seeds
    "epochs": 5,
    "fits": 3,
    "control": 10,
    "layers": 9,
    "maps": 9,
    "throughput": 9,
    "plans": 5,
    "growth": 3,
    "startup": 5,
    "busy": 3,
}  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=SECTIONS, nargs="*", default=list(SECTIONS))
    arguments.add_argument("--docs", type=Path, default=DOCS)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    store = given.docs / "benchmarks.json"
    measured = json.loads(store.read_text()) if store.exists() else {"machines": {}}
    started = time.perf_counter()
    for name in given.only:
        begun = time.perf_counter()
        print(f"{begun - started:6.0f} s  {name}", flush=True)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        measured[name] = SECTIONS[name](ROUNDS[name])
        measured["machines"][name] = machine(time.perf_counter() - begun, load)
    measured["goal"] = goal(measured["fits"])
    store.write_text(json.dumps(measured, indent=1) + "\n")
    for name, points in measured["growth"].items():
        growth.picture(name, points, given.docs / "images" / f"growth-{name}.png")
    fill(given.docs / "benchmarks.md", parts(measured))
    print(f"{time.perf_counter() - started:6.0f} s  wrote {given.docs / 'benchmarks.md'}")


def goal(rows: list[dict[str, Any]]) -> float:
    """Return the accuracy that 50 epochs of Algorithm 1 reach at rank 1."""
    row = next(r for r in rows if r["name"].startswith("polyad alternating, rank 1"))
    return float(row["accuracy"])


def machine(seconds: float, load: float | None) -> dict[str, Any]:
    """Return what the numbers of a section were measured on, and the load before it."""
    rate = sgemm_rate(interleave({"sgemm": sgemm()}, 5)["sgemm"])
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "sgemm, one thread": f"{rate / 1e9:.0f} GFLOP/s",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "seconds": seconds,
        "load": "unknown" if load is None else f"{load:.1f}",
    }


if __name__ == "__main__":
    main()
