"""Start-up: the processor time of a process until it answers, against that of ``import torch``."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from typing import Any, NamedTuple

from benchmarks.timing import Times, interleave

BASE = "import torch"


class Start(NamedTuple):
    """Arguments of Python, and how many times ``import torch`` they may take at most."""

    arguments: tuple[str, ...]
    wanted: float | None = None


def _code(text: str, wanted: float | None = None) -> tuple[str, Start]:
    return text, Start(("-c", text), wanted)


def _command(words: str, wanted: float | None = None) -> tuple[str, Start]:
    return f"polyad {words}", Start(("-m", "polyad", *words.split()), wanted)


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
        _code("from polyad import RankRClassifier"),
        _code("from polyad.scene.map.mapping import map_file"),
    ]
)


def children_seconds() -> float:
    """Return the processor time, of user and system, that ended child processes took so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(names: list[str], rounds: int) -> dict[str, Times]:
    """Time the named starts in turn, each in a new process."""
    ways = {name: partial(_run, STARTS[name].arguments) for name in names}
    return interleave(ways, rounds, clock=children_seconds)


def startup(rounds: int) -> dict[str, Any]:
    """Return seconds, and the ratio to ``import torch``, of every start."""
    times = measure(list(STARTS), rounds)
    return {
        name: {
            "seconds": taken.median,
            "over torch": vars(taken.over(times[BASE])),
            "wanted": STARTS[name].wanted,
        }
        for name, taken in times.items()
    }


def _run(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 2):  # 2 is a refusal; anything else did not answer
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr}")
