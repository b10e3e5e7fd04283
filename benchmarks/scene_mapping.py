"""Whole-scene mapping: against patch GEMM in the same run, its memory, and a scene of 2 GB.

    python -m benchmarks.scene_mapping                  # Indian Pines: speed and memory
    python -m benchmarks.scene_mapping --large FOLDER   # 200 MB and 2 GB on disk, removed after

Times are medians of rounds in which each way runs once, so that a busy machine slows both. Each run
prints what it measured, and writes its rows of docs/mapping.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import WINDOW, made_classifier
from benchmarks.harness import DOCS, fill, interleave, peak_bytes, resident
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.scenes import open_scene

CLASSES = 16
WIDTH, BANDS = 2000, 200
ROWS = {"200 MB": 250, "2 GB": 2500}  # of 2000 pixels of 200 bands of uint16
CUT, WHOLE = "patch GEMM, patches already cut", "whole scene"


def indian_pines(rounds: int, rank: int) -> dict[str, float]:
    """Time the map against one matrix product over patches that were cut beforehand."""
    scene = open_scene("indian-pines").load()
    model = made_classifier(scene.sizes["band"], CLASSES, rank)
    rows, cols = np.indices(scene.shape[:2]).reshape(2, -1)
    patches = extract_patches(scene, rows, cols, WINDOW).astype(np.float32)
    X = torch.from_numpy(model.scaler_.transform(patches)).flatten(1)  # (pixels, 5000)
    dense = model.network_.hidden.to_dense().weight.detach()  # (75, 5000)
    layer, output = model.network_.hidden, model.network_.output

    @torch.no_grad()
    def patch_gemm() -> np.ndarray:
        hidden = torch.tanh(torch.addmm(layer.bias, X, dense.T))
        return output(hidden).argmax(dim=1).numpy()

    def whole_scene() -> np.ndarray:
        return map_scene(model, scene).values.ravel() - 1

    ways = {CUT: patch_gemm, WHOLE: whole_scene}
    by_clock = interleave(ways, rounds, clock=time.perf_counter)
    by_processor = interleave(ways, rounds, clock=time.process_time)
    return {name: times.median for name, times in by_clock.items()} | {
        "threads": torch.get_num_threads(),
        "times faster": by_clock[CUT].over(by_clock[WHOLE]).median,
        "times less processor time": by_processor[CUT].over(by_processor[WHOLE]).median,
        "pixels equal": float(np.mean(patch_gemm() == whole_scene())),
    }


def memory() -> dict[str, float]:
    """Return the most that mapping Indian Pines takes, in multiples of the scene, the scene in it.

    To be run in a process of its own. A small map first brings the libraries in.
    """
    scene = open_scene("indian-pines").load()
    model = made_classifier(scene.sizes["band"], CLASSES)
    map_scene(model, scene.isel(y=slice(0, 12), x=slice(0, 12)))
    grown = peak_bytes(lambda: map_scene(model, scene)) or 0
    return {"scene bytes": scene.nbytes, "times the scene": 1 + grown / scene.nbytes}


def write_scene(folder: Path, rows: int) -> Path:
    """Write a BIL scene of ``rows`` lines; each line is noise about one spectrum."""
    rng = np.random.default_rng(0)
    spectrum = rng.integers(500, 4000, (BANDS, 1), dtype=np.uint16)
    noise = rng.integers(0, 500, (BANDS, 2 * WIDTH), dtype=np.uint16)
    with (folder / "scene.img").open("wb") as out:
        for row in range(rows):
            start = row * 7 % WIDTH
            out.write((spectrum + noise[:, start : start + WIDTH]).tobytes())
    (folder / "scene.hdr").write_text(
        f"ENVI\nsamples = {WIDTH}\nlines = {rows}\nbands = {BANDS}\ndata type = 12\n"
        "interleave = bil\nbyte order = 0\nheader offset = 0\n"
        "map info = {UTM, 1, 1, 500000, 4000000, 10, 10, 33, North, WGS-84}\n"
    )
    return folder / "scene.hdr"


def map_large(path: str) -> dict[str, float]:
    """Map a scene on disk to a GeoTIFF; to be run in a process of its own."""
    from polyad.scene.map.mapping import map_file

    scene, model = open_scene(path), made_classifier(BANDS, CLASSES)
    map_file(model, scene.isel(y=slice(0, 200)), Path(path).with_name("map.tif"))  # warms up
    begun, worked = time.perf_counter(), time.process_time()
    map_file(model, scene, Path(path).with_name("map.tif"))
    pixels = scene.sizes["y"] * scene.sizes["x"]
    return {
        "scene bytes": scene.nbytes,
        "microseconds per pixel": 1e6 * (time.perf_counter() - begun) / pixels,
        "processor microseconds per pixel": 1e6 * (time.process_time() - worked) / pixels,
        "peak resident MB": resident("VmHWM") / 1e6,
    }


def large(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Map both scenes by turns and return the medians; the files are removed."""
    scenes = {name: folder / name.replace(" ", "") for name in ROWS}
    runs_of: dict[str, list[dict[str, float]]] = {name: [] for name in ROWS}
    try:
        for name, place in scenes.items():
            place.mkdir(parents=True)
            write_scene(place, ROWS[name])
        for _ in range(rounds):
            for name, place in scenes.items():
                runs_of[name].append(in_own_process("--map", str(place / "scene.hdr")))
    finally:
        for place in scenes.values():
            for file in place.glob("*"):
                file.unlink()
            place.rmdir()
    return {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in runs_of.items()
    }


def in_own_process(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, f"--threads={torch.get_num_threads()}", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def speed_part(speed: dict[str, float]) -> str:
    whole, cut = (1000 * speed[name] for name in (WHOLE, CUT))
    return f"{speed['times faster']:.1f} times faster ({whole:.0f} against {cut:.0f} ms)"


def large_parts(found: dict[str, dict[str, float]]) -> dict[str, str]:
    one, other = (found[name]["microseconds per pixel"] for name in ("2 GB", "200 MB"))
    change = f"{abs(100 * (one / other - 1)):.0f} % {'less' if one < other else 'more'}"
    return {
        "2 GB, memory": f"{found['2 GB']['peak resident MB']:.0f} MB",
        "2 GB, time": f"{one:.2f} against {other:.2f} µs: {change}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rank", type=int, choices=(1, 4), default=1)
    # More threads add synchronization overhead, and measure the other jobs of a busy machine.
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("--large", type=Path, metavar="FOLDER")
    parser.add_argument("--map", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.map or options.memory:  # in a process of its own
        print(json.dumps(map_large(options.map) if options.map else memory()))
        return
    found: dict[str, Any]
    if options.large:
        found = large(options.large, min(options.rounds, 3))
        parts = large_parts(found)
    else:
        speed, memory_used = indian_pines(options.rounds, options.rank), in_own_process("--memory")
        found = {"speed": speed, "memory": memory_used}
        parts = {f"rank {options.rank}": speed_part(speed)}
        if options.rank == 1:
            parts["memory"] = f"{memory_used['times the scene']:.1f} times the scene"
    print(json.dumps(found, indent=2))
    fill(DOCS / "mapping.md", parts)


if __name__ == "__main__":
    main()
