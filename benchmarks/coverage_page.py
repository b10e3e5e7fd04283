"""The page of coverage.py: tables from its records, and nothing that is not in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyad.scene.map.mapping import NEAR

Records = Sequence[dict[str, Any]]
DEVELOPMENT = 100
CHOSEN = "probability"
PRESETS = ("fast", "best, this-scene", "best, other-scenes")
PROTOCOLS = {
    "random-10": "random pixels",
    "blocks-10": "other blocks",
    "other-fields-10": "other fields",
}
INTRO = """# Do prediction sets hold what they promise?

`polyad map --coverage 0.9` writes beside the map, for every pixel, a set of classes that is to
hold the true one in 90 of 100 pixels ([how](../mapping.md#sets-with-a-promise)). Here the truth is
known: Indian Pines, ten labels per class, sets at three levels, counted on all labeled pixels that
were not trained on. Made by

<!-- not run: a quarter of an hour -->
```sh
python -m benchmarks.coverage
```

from [records](coverage.jsonl), one line per protocol, seed, preset and level. Mean and deviation
over seeds 0 to {last}, which were run once; the method was chosen on seeds 100 to {developed}.

Protocols (as in [Maps from a few labels](few-labels.md)): *random pixels* draws the training pixels
of each class at random and tests on all others, so labels and map are alike; *other blocks* trains
and tests in different blocks of 20 x 20 pixels with a dead zone between; *other fields* trains on
ten pixels of one field of each class and tests on the class's other fields.

## Coverage

Share of the sets that hold the true class, in percent, and classes in a set on average (of 16; of 9
on other fields, where classes of one field are left out).
"""
FINDINGS = """## What the tables say

- **On random pixels the promise is kept**, and mostly exceeded: folds hold out whole blocks of
  labels, which is harder than the map, and have a third of the labels less to learn from. Sets are
  never empty, so a level below the accuracy of the map gives the map itself, sets of one class.
  That holds on average over draws of the labels: one draw of 160 labels lies a few points above or
  below, as the deviations show.
- **In other blocks it is missed, on other fields it fails.** The labels say nothing of fields in
  which none lies: blocks of the folds hold labels of the same few places. The accuracy by folds, on
  the right of the next table, is as far off, and for the same reason. `polyad map` warns where the
  map lies much farther from the labels than the labels that were held out lay from the others.
  Whoever needs sets for such places labels some of them.
- **It is kept on average over the pixels, not class by class.** The column *worst class* has the
  class whose sets hold it least often.
"""
CHOICE = """## How the score was chosen

On seeds 100 to {developed}, at 90 %. *Probability* takes every class that is likely enough
(Sadinle et al. 2019). *Mass of likelier classes* takes classes in order until enough probability
is gathered (adaptive sets, Romano et al. 2020, not randomized): as often right, in sets of about
the same size. *Probability, by class* has a threshold for each class from its own labels, which
holds class by class where there are enough of them; ten are few, and its sets are larger (at 95 %
it would want 19 labels of each class). So it is the first, which is also the simplest.
"""
REACH = """## Where a warning says so

How far the pixels of the map lie from the next label, how far labels that were held out lay from
the others, both in pixels on average, and in how many of the seeds `polyad map --coverage` warns,
as the second is below {near:g} times the first. That share was chosen on seeds 100 and up.
"""
CALIBRATION = """## Calibration of the probabilities

Expected calibration error (15 bins) of the map's probabilities in percent, beside the overall
accuracy of the map and the one that the folds saw.
"""


def write_page(records: Records, path: Path) -> None:
    """Write the page."""
    path.write_text(page(records))


def page(records: Records) -> str:
    """Return the page as Markdown."""
    reported = [r for r in records if r["seed"] < DEVELOPMENT]
    tried = [r for r in records if r["seed"] >= DEVELOPMENT]
    last, developed = (max((r["seed"] for r in rs), default=0) for rs in (reported, tried))
    sections = [INTRO.format(last=last, developed=developed)]
    sections += [coverage(reported, protocol) for protocol in PROTOCOLS]
    sections += [FINDINGS, CALIBRATION, calibration(reported)]
    if all("distance_map" in r for r in reported):
        sections += [REACH.format(near=NEAR), reach(reported)]
    return "\n".join([*sections, CHOICE.format(developed=developed), choice(tried)])


def coverage(records: Records, protocol: str) -> str:
    """Return promised and measured coverage of every preset and level under a protocol."""
    out = [
        f"### {PROTOCOLS[protocol].capitalize()}\n",
        "| preset | promised % | measured % | worst class % | classes in a set |",
        "|---|---|---|---|---|",
    ]
    for preset in PRESETS:
        for level in sorted({r["level"] for r in records}):
            rows = _rows(records, protocol=protocol, preset=preset, level=level)
            cells = [spread(rows, "coverage"), spread(rows, "least_class")]
            size = spread(rows, "size", 1, 2)
            out.append(f"| {preset} | {100 * level:g} | {cells[0]} | {cells[1]} | {size} |")
    return "\n".join(out) + "\n"


def calibration(records: Records) -> str:
    """Return the calibration error and both accuracies."""
    out = [
        "| preset | protocol | calibration error | accuracy | accuracy by folds |",
        "|---|---|---|---|---|",
    ]
    for preset in PRESETS:
        for protocol, name in PROTOCOLS.items():
            rows = _rows(records, protocol=protocol, preset=preset, level=0.9)
            cells = [spread(rows, key) for key in ("ece", "oa", "oa_held_out")]
            out.append(f"| {preset} | {name} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def reach(records: Records) -> str:
    """Return how far map and held-out labels lie from labels, and how often that is warned of."""
    out = [
        "| preset | protocol | map to label | held-out to other label | warned |",
        "|---|---|---|---|---|",
    ]
    for preset in PRESETS:
        for protocol, name in PROTOCOLS.items():
            rows = _rows(records, protocol=protocol, preset=preset, level=0.9)
            warned = sum(r["distance_held_out"] < NEAR * r["distance_map"] for r in rows)
            far = [spread(rows, key, 1) for key in ("distance_map", "distance_held_out")]
            out.append(f"| {preset} | {name} | {far[0]} | {far[1]} | {warned} of {len(rows)} |")
    return "\n".join(out) + "\n"


def choice(records: Records) -> str:
    """Return coverage and size of each score on the development seeds."""
    heads = [f"{name}: % held, classes" for name in PROTOCOLS.values()]
    out = [f"| preset | score | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for preset in PRESETS:
        for score in dict.fromkeys(r["score"] for r in records):
            cells = []
            for protocol in PROTOCOLS:
                given = {"protocol": protocol, "preset": preset, "level": 0.9, "score": score}
                rows = _rows(records, **given)
                cells.append(f"{spread(rows, 'coverage')}, {spread(rows, 'size', 1, 2)}")
            out.append(f"| {preset} | {score} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def spread(rows: Records, key: str, times: float = 100, digits: int = 1) -> str:
    """Return mean and deviation over the seeds."""
    values = times * np.array([r[key] for r in rows if r[key] is not None])
    if not len(values):
        return "-"
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    return f"{values.mean():.{digits}f} ± {deviation:.{digits}f}"


def _rows(records: Records, **given: Any) -> Records:
    wanted = {"score": CHOSEN} | given
    return [r for r in records if all(r[key] == value for key, value in wanted.items())]
