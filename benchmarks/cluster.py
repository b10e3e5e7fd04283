"""What a cluster gains, what it costs and what it survives; figures for docs/cluster.md.

    python -m benchmarks.cluster speed     # one process, one worker, two workers
    python -m benchmarks.cluster memory    # resident memory of each worker over a 4 GB scene
    python -m benchmarks.cluster kills     # 20 random kills of workers and driver

Scenes are made up, 200 bands of int16, and removed afterwards.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import torch

from polyad.distributed import map_files, open_cluster
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import map_file
from polyad.scene.map.tile_mapper import scene_tiles
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
            before = kept(out)
            until = time.monotonic() + draw.uniform(0.1, 1.5)
            while driver.poll() is None and (
                len(kept(out)) < len(before) + 3 or time.monotonic() < until
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
                seen = kept(out)
                print(f"{victim} killed, {len(seen)} of 2,048 tiles", file=sys.stderr)
                if any(seen.get(name, time) != time for name, time in before.items()):
                    raise SystemExit("a tile was done twice")
        status = driver.wait()
    return {
        "kills": dict(killed),
        "exit code of the last driver": status,
        "same bytes": digest(out) == digest(folder / "calm.tif"),
        "left over": [p.name for p in folder.glob("*.tiles")],
    }


def processor_seconds() -> float:
    """Return what this process and its children have used so far."""
    me = psutil.Process()
    times = [p.cpu_times() for p in [me, *me.children(recursive=True)]]
    return sum(t.user + t.system for t in times)


def kept(out: Path) -> dict[str, int]:
    """Return the tiles that are kept of a map, and when they were written."""
    folder = out.with_name(out.name + ".tiles")
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*/*.tile")}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["speed", "memory", "kills"])
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
        "kills": lambda folder: kills(folder, asked.kills, asked.seed),
    }
    with tempfile.TemporaryDirectory(prefix="polyad-cluster-", dir=asked.folder) as name:
        print(json.dumps(works[asked.what](Path(name)), indent=1))


if __name__ == "__main__":
    main()
