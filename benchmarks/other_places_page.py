"""The page of other_places.py and shifted.py: tables from their records and nothing else.

    python -m benchmarks.other_places_page

What the tables mean is in docs/results/other-places-notes.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks import other_places, shifted
from benchmarks.harness import RESULTS, chosen, fill, read_records, spread, table

PAGE = RESULTS / "other-places.md"
Records = Sequence[dict[str, Any]]
OURS = (
    "best, this-scene",
    other_places.EXACT,
    "best, other-scenes",
    "best, other-scenes, objective average",
    "fast",
    "fast, objective average",
    "paper",
)
OTHERS = ("SVM", "logistic regression", "forest")
KINDS = (
    "plain spectra, single pixels",
    "plain spectra, 3 x 3",
    "plain spectra, 5 x 5",
    "whitened spectra, single pixels",
    "whitened spectra, 5 x 5",
    "propagated",
    "guided filter",
)


def parts() -> dict[str, str]:
    """Return the tables of the page."""
    places = read_records(other_places.RECORDS)
    found = {f"{labels} labels": tiles(places, labels) for labels in ("10", "30", "all")}
    found["chosen"] = kept(places)
    return found | shifted.parts()


def tiles(records: Records, labels: str) -> str:
    """Return the table of one number of labels, over the seeds that every method has."""
    rows = chosen(records, labels=labels)
    methods = {r["method"] for r in rows if "objective" not in r["method"]}
    whole = set.intersection(*({r["seed"] for r in chosen(rows, method=m)} for m in methods))
    lines = []
    for method in (*OURS, *OTHERS):
        own = [r for r in chosen(rows, method=method) if r["seed"] in whole]
        if own:
            seconds = np.median([r["cpu_seconds"] for r in own])
            some = "" if len(own) == len(whole) else f" ({len(own)} seed{'s' * (len(own) != 1)})"
            cells = [_spread([r[key] for r in own]) for key in ("oa", "aa")]
            lines.append([method + some, *cells, f"{seconds:.1f}"])
    return table(["", "OA", "AA", "s to train"], lines)


def _spread(values: Sequence[float]) -> str:
    return spread(values) if len(values) > 1 else f"{spread(values)} ± 0.0"


def kept(records: Records) -> str:
    """Return in how many of the models each expert was kept."""
    lines = []
    for labels, method in product(
        ("10", "30", "all"), ("best, this-scene", "best, other-scenes", "fast")
    ):
        own = chosen(records, labels=labels, method=method)
        counts = Counter(k for r in own for line in r["chosen"] for k in KINDS if k in line)
        if total := sum(len(r["chosen"]) for r in own):
            cells = [f"{100 * counts[k] / total:.0f} %" for k in KINDS]
            lines.append([labels, method, *cells])
    return table(["labels", "preset", *KINDS], lines)


if __name__ == "__main__":
    fill(PAGE, parts())
