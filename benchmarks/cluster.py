"""What a cluster gains, what it costs and what it survives; figures for docs/cluster.md.

    python -m benchmarks.cluster speed     # one process, one worker, two workers
    python -m benchmarks.cluster memory    # resident memory of each worker over a 4 GB scene
    python -m benchmarks.cluster kills     # 20 random kills of workers and driver
    python -m benchmarks.cluster parts     # reading and classifying, each alone, on one core
    python -m benchmarks.cluster best      # the best preset: what each stage costs, and where

Scenes are made up, 200 bands of int16, and removed afterwards; that of ``best`` is Indian Pines
again and again on 285 bands, see real_size.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
import xarray as xr

from benchmarks.harness import Stages, resident
from benchmarks.mirrored import BANDS as BEST_BANDS
from benchmarks.mirrored import write_mirrored
from polyad.distributed import map_files, open_cluster
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.scene_statistics import scene_statistics
from polyad.scene.learn.training import TrainSettings, fit_preset, train_on
from polyad.scene.map.classifier import block_classifier
from polyad.scene.map.mapper import Mapper, cache_propagation, scene_tiles
from polyad.scene.map.mapping import map_file
from polyad.scene.raster.windows import read_block
from polyad.scene.read.scenes import open_scene

BANDS = 200
CLASSES = 16
LABELS = 320  # of the model of `best`
MAP = [sys.executable, "-c", "from polyad.cli import main; main()", "map"]


def write_scene(path: Path, rows: int, cols: int) -> Path:
    """Write an ENVI scene, pixel after pixel, without ever holding it."""
    rng = np.random.default_rng(0)
    strip = rng.integers(0, 10000, (64, cols, BANDS), dtype=np.int16)
    with path.with_suffix(".img").open("wb") as out:
        for top in range(0, rows, 64):
            out.write(np.roll(strip, top, axis=1)[: min(64, rows - top)].tobytes())
    path.write_text(
        f"ENVI\nsamples = {cols}\nlines = {rows}\nbands = {BANDS}\nheader offset = 0\n"
        "data type = 2\ninterleave = bip\nbyte order = 0\n"
    )
    return path


def fit(folder: Path) -> tuple[SceneModel, Path]:
    """Fit the default network of 75 hidden units, window 5, on made-up labels."""
    scene = open_scene(write_scene(folder / "small.hdr", 64, 64))
    rng = np.random.default_rng(0)
    labels = scene.isel(band=0, drop=True).copy(data=rng.integers(1, CLASSES + 1, (64, 64)))
    model = train_on(
        scene, labels, rng.integers(0, 64, (320, 2)), preset="fast", epochs=2, hidden=75
    )
    model.save(folder / "model.polyad")
    return model, folder / "model.polyad"


def wait_for_quiet(patience: float) -> None:
    """Wait for two seconds in which others leave the processor alone, or until out of patience."""
    end = time.monotonic() + patience
    while time.monotonic() < end and psutil.cpu_percent(interval=2) > 20:
        pass


def map_half(model: Path, source: Path, half: int) -> None:
    """Map the upper or the lower half of a scene, in a process of its own, without a cluster."""
    torch.set_num_threads(1)
    scene = open_scene(source)
    middle = scene.sizes["y"] // 2
    rows = slice(0, middle) if half == 0 else slice(middle, None)
    map_file(SceneModel.load(model), scene.isel(y=rows), source.with_name(f"half{half}.tif"))


def speed(folder: Path, megabytes: int, repeats: int, patience: float) -> dict[str, object]:
    """Time the same map without a cluster (one thread), on one worker and on two.

    Two processes that know nothing of each other map half of it each: what the machine itself
    lets two gain over one.
    """
    torch.set_num_threads(1)
    model, saved = fit(folder)
    cols = 2048
    rows = megabytes * 10**6 // (2 * BANDS * cols)
    source = write_scene(folder / "scene.hdr", rows, cols)
    seconds: dict[str, list[float]] = {"none": [], "halves": [], "one": [], "two": []}
    spent: dict[str, list[float]] = {name: [] for name in seconds}
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
    with pool, open_cluster("local:1") as one, open_cluster("local:2") as two:
        clients = {"one": one, "two": two}
        list(pool.map(map_half, [saved] * 2, [folder / "small.hdr"] * 2, range(2)))
        for name, client in clients.items():  # the workers import torch now
            map_files(model, folder / "small.hdr", folder / f"{name}.tif", cluster=client, tile=8)
        for _ in range(repeats):
            for name, taken in seconds.items():
                wait_for_quiet(patience)
                started, used = time.perf_counter(), processor_seconds()
                if name == "none":
                    map_file(model, open_scene(source), folder / "none.tif")
                elif name == "halves":
                    list(pool.map(map_half, [saved] * 2, [source] * 2, range(2)))
                else:
                    map_files(model, source, folder / f"{name}.tif", cluster=clients[name])
                taken.append(round(time.perf_counter() - started, 3))
                spent[name].append(round(processor_seconds() - used, 2))
    contents = {name: digest(folder / f"{name}.tif") for name in ("none", "one", "two")}
    best = {name: min(taken) for name, taken in seconds.items()}
    return {
        "megabytes": source.with_suffix(".img").stat().st_size // 10**6,
        "tiles": len(scene_tiles(open_scene(source))),
        "seconds": seconds,
        "processor seconds, all processes": spent,
        "best": best,
        "speed-up of two workers over one": round(best["one"] / best["two"], 2),
        "speed-up of two workers over no cluster": round(best["none"] / best["two"], 2),
        "speed-up of two processes apart": round(best["none"] / best["halves"], 2),
        "overhead of one worker, %": round(100 * (best["one"] / best["none"] - 1), 1),
        "same bytes": len(set(contents.values())) == 1,
        "load": os.getloadavg(),
    }


def memory(folder: Path, megabytes: int) -> dict[str, object]:
    """Watch the resident memory of workers and driver over a large scene."""
    model, _ = fit(folder)
    rows = megabytes * 10**6 // (2 * BANDS * 2048)
    source = write_scene(folder / "scene.hdr", rows, 2048)
    samples: list[dict[str, float]] = []
    over = threading.Event()
    with open_cluster("local:2") as client:
        map_files(model, folder / "small.hdr", folder / "small.tif", cluster=client, tile=8)
        names = {pid: f"worker {k}" for k, pid in enumerate(client.run(os.getpid).values())}
        names[os.getpid()] = "driver with scheduler"

        def watch() -> None:
            while not over.wait(0.25):
                memory_used = {
                    n: psutil.Process(p).memory_info().rss / 1e6 for p, n in names.items()
                }
                samples.append(memory_used)

        thread = threading.Thread(target=watch)
        thread.start()
        started = time.perf_counter()
        map_files(model, source, folder / "map.tif", cluster=client)
        taken = time.perf_counter() - started
        over.set()
        thread.join()
    values = np.array([list(sample.values()) for sample in samples])  # (moments, processes)
    quarters = [q.max(axis=0).round().tolist() for q in np.array_split(values, 4)]
    return {
        "megabytes": source.with_suffix(".img").stat().st_size // 10**6,
        "seconds": round(taken, 1),
        "who": list(samples[0]),
        "largest MB in each quarter of the time": quarters,
        "load": os.getloadavg(),
    }


def best(folder: Path, megabytes: int, repeats: int, patience: float) -> dict[str, object]:
    """Time the best preset, this-scene: its stages, then its map on one worker and on two.

    Propagated labels are kept beside the model once, as by ``polyad train``; the last map on each
    cluster goes without.
    """
    write_mirrored(folder, (math.isqrt(megabytes * 10**6 // (2 * BEST_BANDS)),) * 2)
    wait_for_quiet(patience)
    stages = Stages()
    fit_best(folder, stages)
    scene, model = open_scene(folder / "scene.hdr"), SceneModel.load(folder / "model.polyad")
    sizes = cut_shares(model, scene, stages)
    stages.time("map without a cluster", lambda: map_file(model, scene, folder / "none.tif"))
    runs: list[dict[str, Any]] = []
    with open_cluster("local:1") as one, open_cluster("local:2") as two:
        clients = {"one": one, "two": two}
        corner = scene.isel(y=slice(0, 64), x=slice(0, 64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the corner is another scene
            for name, client in clients.items():  # the workers import torch now
                map_files(model, corner, folder / f"{name}.tif", cluster=client, tile=32)
        for kept in [True] * repeats + [False]:
            known = model if kept else replace(model, cache=None)
            for name, client in clients.items():
                wait_for_quiet(patience)
                about = {"workers": name, "shares kept": kept}
                runs.append(about | time_map(known, folder, client))
        peaks = [
            peak for client in clients.values() for peak in client.run(resident, "VmHWM").values()
        ]
    million = scene.sizes["y"] * scene.sizes["x"] / 1e6
    per_million = {name: t["processor seconds"] / million for name, t in stages.items()}
    return {
        "megabytes": scene.nbytes // 10**6,
        "million pixels": round(million, 3),
        **sizes,
        "stages": stages,
        "processor seconds for a million pixels": {k: round(v, 2) for k, v in per_million.items()},
        "runs": runs,
        "speed-up of two workers over one": {
            "tiles alone": speed_up(runs, "of it tiles", True),
            "shares kept": speed_up(runs, "seconds", True),
            "all": speed_up(runs, "seconds", False),
        },
        "same bytes": all(run["same bytes"] for run in runs),
        "largest memory of each worker, MB": [round(peak / 1e6) for peak in peaks],
        "largest memory of the driver, MB": round(resident("VmHWM") / 1e6),
        "threads": torch.get_num_threads(),
    }


def fit_best(folder: Path, stages: Stages) -> None:
    """Fit the best preset on a few labels, and cache what they propagate to."""
    scene = open_scene(folder / "scene.hdr")
    with np.load(folder / "labels.npz") as stored:
        truth, pixels = stored["truth"], np.argwhere(stored["train"])
    labels = scene.isel(band=0, drop=True).copy(data=truth)
    chosen = np.random.default_rng(0).permutation(pixels)[:LABELS]
    learned = stages.time("statistics", lambda: scene_statistics(scene))
    model = fit_preset(scene, labels, chosen, TrainSettings(folds=0, starts=1), statistics=learned)
    model.save(folder / "model.polyad")
    stages.time("propagation", Mapper(model, scene).propagate)
    cache_propagation(model, scene)


def cut_shares(model: SceneModel, scene: xr.DataArray, stages: Stages) -> dict[str, int]:
    """Cut the shares of every tile as they are sent; return how many there are and their size."""
    shares = stages.time("shares from the cache", Mapper(model, scene).propagate)
    tiles = scene_tiles(scene, None, model)
    tasks = stages.time("cutting all tiles", lambda: [shares.cut(tile) for tile in tiles])
    largest = max(part.nodes.nbytes + part.logs.nbytes for part in tasks)
    about = {"nodes": len(shares.logs), "classes": len(model.classes), "tiles": len(tiles)}
    return about | {"largest task, kB": round(largest / 1e3)}


def time_map(model: SceneModel, folder: Path, client: Any) -> dict[str, Any]:
    """Map the scene on a cluster, and compare with the map of no cluster."""
    with global_part() as spent:
        used, own, started = worker_seconds(client), time.process_time(), time.perf_counter()
        map_files(model, folder / "scene.hdr", folder / "map.tif", cluster=client)
        seconds = time.perf_counter() - started
        driver = time.process_time() - own - spent["processor seconds"]
    return {
        "seconds": round(seconds, 2),
        "of it whole scene": round(spent["seconds"], 2),
        "of it tiles": round(seconds - spent["seconds"], 2),
        "processor seconds of the workers": round(worker_seconds(client) - used, 2),
        "processor seconds of the driver, tiles": round(driver, 2),
        "same bytes": digest(folder / "map.tif") == digest(folder / "none.tif"),
        "load": round(os.getloadavg()[0], 1),
    }


def speed_up(runs: list[dict[str, Any]], part: str, kept: bool) -> float:
    """Return how many times faster two workers were than one, both at their best."""
    fastest = {
        name: min(r[part] for r in runs if r["workers"] == name and r["shares kept"] == kept)
        for name in ("one", "two")
    }
    return round(fastest["one"] / fastest["two"], 2)


@contextmanager
def global_part() -> Iterator[dict[str, float]]:
    """Time what the driver does with the whole scene before tiles are handed out."""
    spent = {"seconds": 0.0, "processor seconds": 0.0}

    def timed(*arguments: Any) -> Any:
        started, used = time.perf_counter(), time.process_time()
        outcome = propagate(*arguments)
        spent["seconds"] += time.perf_counter() - started
        spent["processor seconds"] += time.process_time() - used
        return outcome

    propagate, Mapper.propagate = Mapper.propagate, timed
    try:
        yield spent
    finally:
        Mapper.propagate = propagate


def worker_seconds(client: Any) -> float:
    """Return the processor time that the workers have used so far."""
    return sum(client.run(time.process_time).values())


def kills(folder: Path, count: int, seed: int) -> dict[str, object]:
    """Kill workers and the driver at random until the map is done."""
    draw = random.Random(seed)
    _, model = fit(folder)
    source = write_scene(folder / "scene.hdr", 4096, 512)
    command = [*MAP, str(model), str(source), "--tile", "32"]
    subprocess.run([*command, "--out", str(folder / "calm.tif")], check=True)
    out, done, killed = folder / "map.tif", 0, Counter[str]()
    with open_cluster("local:2") as client:
        command += ["--out", str(out), "--cluster", client.scheduler.address]
        driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while driver.poll() != 0:
            if driver.poll() is not None:
                driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            lines = len(entries(out))
            until = time.monotonic() + draw.uniform(0.1, 1.5)
            while driver.poll() is None and (
                len(entries(out)) < lines + 3 or time.monotonic() < until
            ):
                time.sleep(0.01)
            if done < count and driver.poll() is None:
                victim = draw.choice(["worker", "driver"])
                if victim == "driver":
                    driver.kill()
                    driver.wait()
                else:
                    pids = [p for p in client.run(os.getpid, on_error="return").values()
                            if isinstance(p, int)]  # fmt: skip
                    if not pids:
                        continue  # both are just starting again
                    os.kill(draw.choice(pids), signal.SIGKILL)
                killed[victim] += 1
                done += 1
                seen = Counter(entry["tile"] for entry in entries(out) if "tile" in entry)
                print(f"{victim} killed, {len(seen)} of 2,048 tiles", file=sys.stderr)
                if seen and max(seen.values()) > 1:
                    raise SystemExit(f"tile done twice: {seen.most_common(1)}")
        status = driver.wait()
    return {
        "kills": dict(killed),
        "exit code of the last driver": status,
        "same bytes": digest(out) == digest(folder / "calm.tif"),
        "left over": [p.name for p in folder.glob("*.tiles")],
    }


def parts(folder: Path, megabytes: int, repeats: int, patience: float) -> dict[str, object]:
    """Time reading (from the system's cache) and classifying, each alone, on one core."""
    torch.set_num_threads(1)
    model, _ = fit(folder)
    rows = megabytes * 10**6 // (2 * BANDS * 2048)
    scene = open_scene(write_scene(folder / "scene.hdr", rows, 2048))
    tiles, halo = scene_tiles(scene), model.window // 2
    classify = block_classifier(model, None)
    reading, thinking = [], []
    for _ in range(repeats):
        wait_for_quiet(patience)
        for tile in tiles:
            started = time.perf_counter()
            block = read_block(scene, tile, halo)
            middle = time.perf_counter()
            classify(block)
            pixels = tile.shape[0] * tile.shape[1]
            reading.append(pixels / (middle - started))
            thinking.append(pixels / (time.perf_counter() - middle))
    rates = {"read": reading, "classify": thinking}
    best = {name: float(np.quantile(values, 0.9)) for name, values in rates.items()}
    return {
        "Mpixels per second and core": {n: round(v / 1e6, 3) for n, v in best.items()},
        "MB per second and core": {n: round(v * 2 * BANDS / 1e6) for n, v in best.items()},
        "both, MB/s": round(2 * BANDS / 1e6 / sum(1 / v for v in best.values())),
        "load": os.getloadavg(),
    }


def processor_seconds() -> float:
    """Return what this process and its children have used so far."""
    me = psutil.Process()
    times = [p.cpu_times() for p in [me, *me.children(recursive=True)]]
    return sum(t.user + t.system for t in times)


def entries(out: Path) -> list[dict[str, object]]:
    """Return the whole lines of a ledger after its first, which says what it is."""
    path = out.with_name(out.name + ".tiles") / "ledger.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")[1:-1]
    except OSError:
        return []
    return [json.loads(line.rpartition(b" ")[0]) for line in lines]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["speed", "memory", "kills", "parts", "best"])
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the scene")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--patience", type=float, default=0, help="seconds to wait for a quiet machine each time"
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the scene is put, and removed again")
    asked = parser.parse_args()
    timed = asked.megabytes, asked.repeats, asked.patience
    works: dict[str, Callable[[Path], dict[str, object]]] = {
        "speed": lambda folder: speed(folder, *timed),
        "memory": lambda folder: memory(folder, asked.megabytes),
        "best": lambda folder: best(folder, *timed),
        "kills": lambda folder: kills(folder, asked.kills, asked.seed),
        "parts": lambda folder: parts(folder, *timed),
    }
    with tempfile.TemporaryDirectory(prefix="polyad-cluster-", dir=asked.folder) as name:
        print(json.dumps(works[asked.what](Path(name)), indent=1))


if __name__ == "__main__":
    main()
