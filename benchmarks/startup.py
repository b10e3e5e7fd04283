"""Start-up: the processor time of a process until it answers, against that of importing.

``polyad demo`` is compared with importing all that it needs, the others with ``import torch``.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import rasterio
from affine import Affine

from benchmarks.harness import Times, interleave

BASE = "import torch"
LIBRARIES = "import torch, sklearn, matplotlib"
SCENE = (500, 400, 100)  # rows, columns, bands of ``scene.tif``: 80 MB of floats


class Start(NamedTuple):
    """Arguments of Python, and how many times ``base`` they may take at most."""

    arguments: tuple[str, ...]
    expected: float | None = None
    base: str = BASE


def _code(text: str, expected: float | None = None) -> tuple[str, Start]:
    return text, Start(("-c", text), expected)


def _command(words: str, expected: float | None = None, base: str = BASE) -> tuple[str, Start]:
    return f"polyad {words}", Start(("-m", "polyad", *words.split()), expected, base)


STARTS: dict[str, Start] = dict(
    [
        _code(BASE),
        _code("import polyad", 1.3),
        _command("--version", 0.25),
        _command("--help", 0.25),
        _command("train --help", 0.25),
        _command("map missing.polyad scene.hdr", 0.5),
        _command("train missing.hdr labels.csv", 0.5),
        _command("info missing.hdr", 0.5),
        _command("train indian-pines indian-pines --out missing/model.polyad", 0.5),
        _command("scenes"),
        _command("info scene.tif", 0.75),
        _code(LIBRARIES),
        _command("demo", 2.5, LIBRARIES),
        _code("from polyad import RankRClassifier"),
        _code("from polyad.scene.map.mapping import map_file"),
    ]
)


def children_seconds() -> float:
    """Return the processor time, of user and system, that ended child processes took so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(names: list[str], rounds: int) -> dict[str, Times]:
    """Time the named starts in turn, each in a new process, in a folder with ``scene.tif``."""
    with TemporaryDirectory() as folder:
        if any("scene.tif" in name for name in names):
            _write_scene(Path(folder) / "scene.tif")
        ways = {name: partial(_run, STARTS[name].arguments, folder) for name in names}
        return interleave(ways, rounds, clock=children_seconds)


def startup(rounds: int) -> dict[str, Any]:
    """Return seconds, and the ratio to what it is compared with, of every start."""
    times = measure(list(STARTS), rounds)
    return {
        name: {
            "seconds": taken.median,
            "over": vars(taken.over(times[STARTS[name].base])),
            "base": STARTS[name].base,
            "expected": STARTS[name].expected,
        }
        for name, taken in times.items()
    }


def _write_scene(path: Path) -> None:
    """Write a georeferenced scene of floats with a nodata value, as products are."""
    rows, columns, bands = SCENE
    form = {"driver": "GTiff", "width": columns, "height": rows, "count": bands}
    grid = Affine(30, 0, 400_000, 0, -30, 5_800_000)
    values = np.random.default_rng(0).random((bands, rows, columns), np.float32)
    with rasterio.open(
        path, "w", **form, dtype="float32", crs="EPSG:32633", transform=grid, nodata=-9999
    ) as file:
        file.write(values)


def _run(arguments: tuple[str, ...], folder: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 2):  # 2 is a refusal; anything else did not answer
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr}")
