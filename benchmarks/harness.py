"""What all benchmarks share: interleaved rounds, records that resume, tables within pages.

Pages are written by hand. What is measured stands between ``<!-- name -->`` and ``<!-- end -->``,
and `fill` writes it anew from the records; ``tests/benchmarks/test_pages.py`` holds both together.

Every comparison runs its ways one after the other in the same round, several rounds long, so that
a busy machine slows all of them. One-thread times are processor seconds of this process, which on
an idle machine are wall seconds and on a busy one leave out what others took.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "results"
Record = dict[str, Any]
Way = Callable[[], object]
SQUARE = 2048  # side of the matrices that say how fast sgemm is
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


# --- records -------------------------------------------------------------------------------------


def read_records(path: Path) -> list[Record]:
    """Return all whole lines of a record file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def resume(
    path: Path, cases: Iterable[Record], measure: Callable[..., Record | Iterable[Record]]
) -> list[Record]:
    """Append the outcome of every case that has no record yet; return all records.

    ``measure`` is called with the case as keywords, and returns what is added to it: one record, or
    several. They are one write, so that a killed run leaves whole cases.
    """
    for case in cases:
        if any(all(row.get(k) == v for k, v in case.items()) for row in read_records(path)):
            continue
        found = measure(**case)
        rows = [found] if isinstance(found, dict) else found
        text = "".join(json.dumps(case | row) + "\n" for row in rows)
        with path.open("a") as file:
            file.write(text)
        print(*case.values(), file=sys.stderr, flush=True)
    return read_records(path)


def chosen(records: Iterable[Record], **given: Any) -> list[Record]:
    """Return the records that have these values."""
    return [row for row in records if all(row[key] == value for key, value in given.items())]


# --- pages ---------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown; a head that ends with a colon is aligned to the right."""
    marks = ["---:" if name.endswith(":") else "---" for name in head]
    lines = [[name.removesuffix(":") for name in head], marks, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(values: Sequence[float], unit: float = 100.0, digits: int = 1) -> str:
    """Return mean and deviation (n - 1) of ``unit`` times the values, "-" where there is none."""
    if not len(values):
        return "-"
    deviation = f" ± {unit * np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{unit * np.mean(values):.{digits}f}{deviation}"


def fill(page: Path, parts: Mapping[str, str]) -> None:
    """Write the measured parts of a page anew; its words stay."""
    text = page.read_text()
    for name, part in parts.items():
        pattern = rf"(<!-- {re.escape(name)} -->\s*).*?(\s*<!-- end -->)"
        if not re.search(pattern, text, re.DOTALL):
            raise SystemExit(f"{page} has no <!-- {name} --> ... <!-- end -->")
        text = re.sub(pattern, lambda m, part=part: m[1] + part + m[2], text, flags=re.DOTALL)
    page.write_text(text)


def filled(page: Path) -> dict[str, str]:
    """Return the measured parts of a page, by name."""
    pattern = r"<!-- ([^\n]+?) -->\s*(((?!<!--).)*?)\s*<!-- end -->"
    found = re.findall(pattern, page.read_text(), re.DOTALL)
    return {name: part for name, part, _ in found}


# --- clocks --------------------------------------------------------------------------------------


class Stages(dict[str, dict[str, float]]):
    """How long each stage took, by the clock and on the processor."""

    def time(self, name: str, work: Callable[[], Any]) -> Any:
        """Do ``work`` and note its seconds."""
        started, used = time.perf_counter(), time.process_time()
        outcome = work()
        self[name] = {
            "seconds": round(time.perf_counter() - started, 2),
            "processor seconds": round(time.process_time() - used, 2),
        }
        return outcome


@dataclass(frozen=True)
class Times:
    """Seconds of one way, one entry per round."""

    seconds: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def over(self, other: Times) -> Ratio:
        """Return how many times longer this way takes, round by round."""
        return Ratio.of([a / b for a, b in zip(self.seconds, other.seconds, strict=True)])


@dataclass(frozen=True)
class Ratio:
    """Median of the rounds' ratios, and the smallest and largest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Ratio:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.low)}-{_short(self.high)})"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def interleave(
    ways: Mapping[str, Way],
    rounds: int,
    *,
    least: float = 0.0,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Times]:
    """Time each way once per round, after one call that is not counted.

    Parameters
    ----------
    ways : mapping of name to callable
    rounds : int
    least : float, default=0.0
        A way that is shorter than this is repeated within a round until it lasts as long.
    clock : callable
        Processor time of this process, or `time.perf_counter` for more than one thread.
    """
    repeats = {name: _repeats(way, least, clock) for name, way in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            started = clock()
            for _ in range(repeats[name]):
                way()
            seconds[name].append((clock() - started) / repeats[name])
    return {name: Times(tuple(values)) for name, values in seconds.items()}


def _repeats(way: Way, least: float, clock: Callable[[], float]) -> int:
    way()  # warms up
    if not least:
        return 1
    started = clock()
    way()
    return max(1, round(least / max(clock() - started, 1e-7)))


def sgemm() -> Way:
    """Return one product of large square matrices: the machine's own limit."""
    a, b = torch.rand(2, SQUARE, SQUARE).unbind()
    out = torch.empty(SQUARE, SQUARE)
    return lambda: torch.mm(a, b, out=out)


def sgemm_rate(times: Times) -> float:
    """Return floating-point operations per second from the least of the times of `sgemm`."""
    return 2 * SQUARE**3 / times.least


def operations(way: Way, calls: int = 1) -> dict[str, float]:
    """Return the processor seconds of torch's operations within ``way``, and of the rest."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        started = time.process_time()
        way()
        whole = time.process_time() - started
    by_operation = {e.key: e.self_cpu_time_total / 1e6 for e in seen.key_averages()}
    top = dict(sorted(by_operation.items(), key=lambda item: -item[1])[:6])
    top["other operations"] = sum(by_operation.values()) - sum(top.values())
    top["outside torch"] = max(whole - sum(by_operation.values()), 0.0)
    return {name: seconds / calls for name, seconds in top.items()}


def peak_bytes(way: Way) -> int | None:
    """Return by how much the resident memory rose at its highest during ``way``.

    None where the operating system does not tell.
    """
    if not CLEAR.exists():
        return None
    gc.collect()
    _trim()
    try:
        CLEAR.write_text("5")  # the high-water mark starts anew from what is resident now
    except OSError:
        return None
    before = resident("VmRSS")
    way()
    return max(resident("VmHWM") - before, 0)


def resident(name: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes (Linux)."""
    line = next(x for x in STATUS.read_text().splitlines() if x.startswith(name))
    return 1024 * int(line.split()[1])


def processor() -> str:
    """Return the name of the processor."""
    from polyad.experiments.runs import describe_machine  # imports all of polyad

    return str(describe_machine()["processor"])


def _trim() -> None:
    """Give freed memory back, so that what is used again is seen again."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except OSError:  # pragma: no cover - not glibc
        return
