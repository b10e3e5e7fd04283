"""A scene mapped by onnxruntime and by polyad: the same classes, and how long each takes.

python -m benchmarks.onnx_scene   # prints a table; one thread each

A model of the fast preset, ten labels per class of Indian Pines; the whole scene is one tile.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import torch

import polyad
from benchmarks.harness import interleave
from polyad.scene import export_onnx

ROUNDS = 9
SEEDS = range(5)


def main() -> None:
    torch.set_num_threads(1)
    scene, labels = polyad.open_scene("indian-pines"), polyad.open_labels("indian-pines")
    scene = scene.compute()
    print("| seed | file | another class | probability off by | another class if repaired |")
    print("|---|---:|---:|---:|---:|")
    for seed in SEEDS:
        model = polyad.train(scene, labels, samples_per_class=10, random_state=seed, preset="fast")
        halo = model.window // 2
        pads = ((halo, halo), (halo, halo), (0, 0))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            export_onnx(model, path, whole_scene=True)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(path, options)
            size = path.stat().st_size
        view = model.view(scene).array

        def by_runtime(view=view, pads=pads, session=session):  # type: ignore[no-untyped-def]
            tile = np.pad(view.values.astype(np.float32), pads, mode="reflect")
            tile = np.ascontiguousarray(tile.transpose(2, 0, 1))
            return session.run(["class_ids", "probabilities"], {"pixels": tile})

        plain = replace(model, soundness=None)  # the graph does not replace corrupt pixels
        ids, proba = polyad.map_scene(plain, scene, probabilities=True)
        found, shares = by_runtime()
        other = np.count_nonzero(found != ids.values)
        gap = np.abs(shares.transpose(1, 2, 0) - proba.values).max()
        repaired = np.count_nonzero(found != polyad.map_scene(model, scene).values)
        row = f"{size / 1000:.0f} kB | {other} of {found.size:,} | {gap:.1e} | {repaired}"
        print(f"| {seed} | {row} |", flush=True)
    ways = {
        "onnxruntime, one thread": lambda: by_runtime(),
        "polyad.map_scene, one thread": lambda: polyad.map_scene(model, scene),
        "polyad.map_scene with probabilities": lambda: polyad.map_scene(
            model, scene, probabilities=True
        ),
    }
    print("\n| way | median ms for 145 x 145 pixels, 200 bands |")
    print("|---|---:|")
    for name, times in interleave(ways, ROUNDS).items():
        print(f"| {name} | {1000 * times.median:.0f} |")


if __name__ == "__main__":
    main()
