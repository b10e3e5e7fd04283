"""The page of few_labels.py: tables from its records, and nothing that is not in them.

What the tables mean, and what was timed by hand, is in docs/results/few-labels-notes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.few_labels_choice import CANDIDATES, RULES, fixed, without_propagation

Records = Sequence[dict[str, Any]]
HEADLINES = (
    "SVM on spectra",
    "paper",
    "fast",
    "best, other-scenes",
    "best, this-scene, pixels as nodes",
    "best, this-scene",
)
RANDOM = "random-10"
PROTOCOL_NAMES = {
    "random-5": "random, 5 per class",
    "random-10": "random, 10 per class",
    "random-30": "random, 30 per class",
    "other-fields-10": "other fields, 10 per class",
    "blocks-10": "blocks with dead zone, 10 per class",
}
INTRO = """# Maps from a few labels

What the presets reach, what each step adds, and controls without our network;
[what the tables say](few-labels-notes.md) is written by hand. Made by

<!-- not run: hours -->
```sh
python -m benchmarks.few_labels --pavia UPavia_Subset.mat
```

from [records](few-labels.jsonl), one line per scene, protocol, seed and method. Mean and
deviation over seeds 0 to {last}; settings were chosen on seeds 100 and up. No fit sees
a test label; all pixels tested here were test pixels of development seeds too, so that the
choice of methods and settings, though made on other draws, is not blind to them. All test pixels
count, borders included.

**One choice saw the reported seeds.** Superpixels were made for large scenes and settled on
development seeds. That scenes of this size have them too was decided after their row had been seen
on seeds 0 to 9, where no overall accuracy was lower. So take *pixels as nodes* as the row that no
reported seed had a part in.

Protocols (`polyad.scene.PROTOCOLS`): *random* draws the training pixels of each class at random and
tests on all others; *no overlap* tests only on the pixels whose 5 x 5 window shares none with a
training window; *other fields* trains on ten pixels of one connected field of each class and tests
on the class's other fields (classes with one field are left out); *blocks* trains and tests in
different 20 x 20 blocks with a dead zone between.

Goals: *this-scene* may recognize the field a pixel lies in, since the user labels the scene to map
that same scene: labels are propagated over a graph of its superpixels, or of its pixels where there
are at most 10,000; the row *pixels as nodes* has a graph of pixels here too. *other-scenes* must
not: the network works on spectra alone and only its probabilities are smoothed.

**What is seen of the test pixels.** Whitening, label propagation and the guided filter are learned
from the spectra of the whole scene, those of the test pixels among them (never their labels): such
figures are called transductive, and a map of another scene does without. The development seeds draw
other training pixels of the same two scenes, so they have seen these pixels too. A city of mixed
pixels, other tiles, another light and corrupt pixels are on [a page of their own](other-places.md).

The presets choose views of the spectra, windows and weights by spatial folds of the labels; the
steps and controls below have fixed settings (5 x 5 windows, weight decay 0.1), and were measured
before the presets chose.
"""

CHOICE = """## Settings chosen by cross-validation

{count} candidates (rank 1, 2 or 4; window 1 to 9; weight decay 0.01 to 3), each scored on three
folds of the training labels; the rule picks one, and its map is scored on the test pixels. Overall
accuracy, one start each, development seeds 100 to 109 ([records](few-labels-choice.jsonl), made by
`python -m benchmarks.few_labels_choice --pavia UPavia_Subset.mat`). The folds take {seconds:.1f} s
of one core with ten labels per class on Indian Pines.
"""


def write_page(records: Records, choices: Records, path: Path) -> None:
    """Write the page."""
    seeds = {r["seed"] for r in records if r["scene"] == "indian-pines"}
    sections = [INTRO.format(last=max(seeds, default=0))]
    for scene, title in (("indian-pines", "Indian Pines"), ("pavia-crop", "Pavia University crop")):
        of_scene = [r for r in records if r["scene"] == scene]
        if of_scene:
            sections += [f"## {title}\n", headlines(of_scene)]
            sections += [f"### {title}: steps and controls\n", steps(of_scene)]
    first = [r for r in records if r["scene"] == "indian-pines"]
    sections += ["## Calibration and uncertainty\n", calibration(first), choice(choices)]
    path.write_text("\n".join(sections))


def shown(method: str) -> str:
    """Return a method's name in the tables; the records are older than the word for it.

    Examples
    --------
    >>> shown("walk x network, every walk believed")
    'propagation x network, no smoothing'
    """
    return method.replace("every walk believed", "no smoothing").replace("walk", "propagation")


def headlines(records: Records) -> str:
    """Return one table per protocol: presets, OA, AA, kappa."""
    out = []
    for protocol, title in PROTOCOL_NAMES.items():
        drawn = [r for r in records if r["protocol"] == protocol]
        if not drawn:
            continue
        apart = protocol.startswith("random")
        out.append(f"**{title}** ({len({r['seed'] for r in drawn})} seeds)\n")
        out.append(f"| preset | OA | {'OA, no overlap | ' if apart else ''}AA | kappa |")
        out.append(f"|---|---|{'---|' if apart else ''}---|---|")
        for method in HEADLINES:
            rows = [r for r in drawn if r["method"] == method]
            cells = [spread(rows, "oa"), *([spread(rows, "oa_no_overlap")] if apart else [])]
            cells += [spread(rows, "aa"), spread(rows, "kappa")]
            out.append(f"| {method} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)


def steps(records: Records) -> str:
    """Return the ablation: a row per variant, a column per protocol."""
    protocols = [p for p in PROTOCOL_NAMES if any(r["protocol"] == p for r in records)]
    columns = [(p, "oa") for p in protocols]
    if RANDOM in protocols:
        columns.insert(protocols.index(RANDOM) + 1, (RANDOM, "oa_no_overlap"))
    names = [p if key == "oa" else f"{p}, no overlap" for p, key in columns]
    out = ["| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    methods = dict.fromkeys(r["method"] for r in records)
    for method in methods:
        if method in HEADLINES:
            continue
        cells = []
        for protocol, key in columns:
            rows = [r for r in records if (r["method"], r["protocol"]) == (method, protocol)]
            cells.append(spread(rows, key))
        out.append(f"| {shown(method)} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def calibration(records: Records) -> str:
    """Return calibration error and AUROC of the uncertainty, random and other fields."""
    out = [
        "Expected calibration error (15 bins) and area under the curve of *1 - largest probability*"
        " as a warning of errors (0.5 is chance).\n",
        "| method | ECE, random-10 | AUROC, random-10 | ECE, other fields | AUROC, other fields |",
        "|---|---|---|---|---|",
    ]
    wanted = ("+ 3 starts", "+ 3 starts, calibrated", "best, other-scenes")
    wanted += ("walk x network, prior weights", "best, this-scene", "paper", "fast")
    for method in wanted:
        cells = []
        for protocol in (RANDOM, "other-fields-10"):
            rows = [r for r in records if (r["method"], r["protocol"]) == (method, protocol)]
            cells += [spread(rows, "ece", 1.0, 3), spread(rows, "auroc", 1.0, 3)]
        out.append(f"| {shown(method)} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def choice(records: Records) -> str:
    """Return what each rule of choosing settings on folds would reach, by goal."""
    cells = list(dict.fromkeys((r["scene"], r["protocol"]) for r in records))
    goals = ("other-scenes", "this-scene")
    names = {"indian-pines": "IP", "pavia-crop": "Pavia"}
    heads = [f"{names[scene]}, {protocol}" for scene, protocol in cells]
    out = [CHOICE.format(count=len(CANDIDATES), seconds=_choice_seconds(records))]
    out += ["| goal and rule | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    picked: dict[str, list[list[dict[str, Any]]]] = {}
    for scene, protocol in cells:
        splits = [r["rows"] for r in records if (r["scene"], r["protocol"]) == (scene, protocol)]
        flat = {goal: [[row | row[goal] for row in rows] for rows in splits] for goal in goals}
        for goal in goals:
            for rule, pick in RULES.items():
                chosen = [pick(rows) for rows in flat[goal]]
                picked.setdefault(f"{goal}: {rule}", []).append(chosen)
        pairs = [tuple(map(fixed, both)) for both in zip(*flat.values(), strict=True)]
        kept = [alone if without_propagation(alone, both) else both for alone, both in pairs]
        picked.setdefault("this-scene: propagation left out where folds say so", []).append(kept)
    for name, columns in sorted(picked.items(), key=lambda item: item[0].split(":")[0]):
        out.append(f"| {name} | " + " | ".join(spread(rows, "oa") for rows in columns) + " |")
    return "\n".join(out) + "\n"


def _choice_seconds(records: Records) -> float:
    """Return the processor seconds that the folds of all candidates take on Indian Pines."""
    splits = [r for r in records if (r["scene"], r["protocol"]) == ("indian-pines", RANDOM)]
    return median([sum(row["fold_seconds"] for row in r["rows"]) for r in splits] or [0.0])


def spread(rows: Records, key: str, unit: float = 100.0, digits: int = 1) -> str:
    """Return mean and deviation of one figure, "-" where there is none."""
    values = [r[key] for r in rows if r[key] is not None]
    if not values:
        return "-"
    unit = 1.0 if key == "kappa" else unit
    digits = 3 if key == "kappa" else digits
    deviation = f" ± {unit * np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{unit * np.mean(values):.{digits}f}{deviation}"
