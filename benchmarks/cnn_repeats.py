"""Whether the tuned CNN repeats: same seeds, other instruction sets, single and double precision.

    python -m benchmarks.cnn_repeats

Appends to docs/results/cnn-repeats.jsonl what is not there. Other processors are emulated: torch,
oneDNN and MKL are told to use the instructions of an older one, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import product

import numpy as np

from benchmarks.harness import RESULTS, Record, resume

RECORDS = RESULTS / "cnn-repeats.jsonl"
OLDER = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
# Variant -> environment, dtype, and whether torch is asked for deterministic algorithms
VARIANTS: dict[str, tuple[dict[str, str], str, bool]] = {
    "as it is": ({}, "float32", False),
    "again": ({}, "float32", False),
    "deterministic algorithms": ({}, "float32", True),
    "torch and oneDNN of AVX2": (OLDER, "float32", False),
    "MKL of AVX2": ({"MKL_CBWR": "AVX2"}, "float32", False),
    "MKL compatible": ({"MKL_CBWR": "COMPATIBLE"}, "float32", False),
    "MKL compatible, AVX2": (OLDER | {"MKL_CBWR": "COMPATIBLE"}, "float32", False),
    "double": ({}, "float64", False),
    "double, MKL of AVX2": ({"MKL_CBWR": "AVX2"}, "float64", False),
}
NOISES, SEEDS, EPOCHS = ("none", "band-offset"), range(5), 50


def fit(noise: str, seed: int, dtype: str, deterministic: bool) -> dict[str, float]:
    """Return accuracy on the test pixels, and processor seconds of the fit."""
    import torch

    from polyad.experiments.runs import describe_machine, noisy
    from polyad.experiments.scenes import load_scene
    from polyad.experiments.settings import MODELS, RunSettings
    from polyad.scene.raster.windows import extract_patches

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(deterministic)
    run = RunSettings("indian-pines", "cnn-tuned", 10, noise, EPOCHS, seed)
    data = load_scene(run.scene)
    split, cube = run.split(data.labels), noisy(data.cube, run).astype(dtype)
    train, test = (extract_patches(cube, *p.T, run.window) for p in (split.train, split.test))
    started = time.process_time()
    model = MODELS[run.model].estimator(EPOCHS, seed)
    model.fit(train.astype(dtype), data.labels[tuple(split.train.T)])
    seconds = time.process_time() - started
    right = model.predict(test.astype(dtype)) == data.labels[tuple(split.test.T)]
    weights = np.concatenate([p.detach().numpy().ravel() for p in model.network_.parameters()])
    return {
        "oa": float(right.mean()),
        "weights": float(np.abs(weights.astype(float)).sum()),
        "seconds": round(seconds, 2),
        "machine": describe_machine(),
    }


def fit_apart(variant: str, noise: str, seed: int) -> Record:
    """Fit in a process of its own, whose environment is that of the variant."""
    environment, dtype, deterministic = VARIANTS[variant]
    call = f"from benchmarks.cnn_repeats import fit, json; print(json.dumps(fit({noise!r}, "
    call += f"{seed}, {dtype!r}, {deterministic})))"
    answer = subprocess.run(
        [sys.executable, "-c", call],
        env=os.environ | environment, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {"epochs": EPOCHS} | json.loads(answer)


def main() -> None:
    """Fit what has no record yet."""
    cases = product(SEEDS, NOISES, VARIANTS)
    resume(RECORDS, [{"variant": v, "noise": n, "seed": s} for s, n, v in cases], fit_apart)


if __name__ == "__main__":
    main()
