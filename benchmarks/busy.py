"""What other work on the machine costs: fits and maps beside none, one and two busy neighbors.

python -m benchmarks.busy  # prints one JSON object

A neighbor is a process that never rests. Seconds are wall clock, on as many threads as torch takes
by itself; each round does all works beside each number of neighbors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import Times

NEIGHBORS = (0, 1, 2)
WANTED = 3.0  # times the quiet seconds beside two neighbors, at most
PER_CLASS = 10


def busy(rounds: int) -> list[dict[str, Any]]:
    """Measure in a process of its own, whose threads nobody has limited."""
    free = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.busy", str(rounds)]
    done = subprocess.run(command, env=free, check=True, capture_output=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return one row for each work: its quiet seconds, and the ratio beside neighbors."""
    works = dict(_works())
    for work in works.values():
        work()  # warms up
    seconds: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for count in NEIGHBORS:
            with neighbors(count):
                for name, work in works.items():
                    started = time.perf_counter()
                    work()
                    seconds.setdefault((name, count), []).append(time.perf_counter() - started)
    rows = []
    for name in works:
        quiet, *others = (Times(tuple(seconds[name, count])) for count in NEIGHBORS)
        ratios = [vars(other.over(quiet)) for other in others]
        rows.append({"name": name, "quiet": quiet.median, "beside": ratios})
    return rows


@contextmanager
def neighbors(count: int) -> Iterator[None]:
    """Keep ``count`` processes busy while the block runs."""
    idle = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.2 * bool(count))
        yield
    finally:
        for process in idle:
            process.kill()
            process.wait()


def _works() -> Iterator[tuple[str, Callable[[], object]]]:
    from polyad.scene.learn.training import train
    from polyad.scene.map.mapping import map_file
    from polyad.scene.read.labels import open_labels
    from polyad.scene.read.scenes import open_scene

    scene, labels = open_scene("indian-pines"), open_labels("indian-pines")
    out = Path(tempfile.mkdtemp()) / "map.tif"
    for name, options in {
        "fast": {"preset": "fast"},
        "best, this-scene": {"preset": "best"},
        "best, other-scenes": {"preset": "best", "goal": "other-scenes"},
    }.items():

        def fit(options: dict[str, Any] = options) -> Any:
            return train(scene, labels, samples_per_class=PER_CLASS, **options)

        model = fit()
        yield f"train, {name}", fit
        yield f"map to a file, {name}", lambda model=model: map_file(model, scene, out)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
