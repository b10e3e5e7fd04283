"""The page of other_places.py and shifted.py: tables from their records and nothing else.

    python -m benchmarks.other_places_page

What the tables mean is in docs/results/other-places-notes.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import other_places, shifted

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/results/other-places.md"
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
INTRO = """# Other places, another light

Maps of places that nobody labeled, beside plain models on single spectra; what becomes of a map
when light or sensor change; and what corrupt pixels do.
[What the tables say](other-places-notes.md) is written by hand. Made by

<!-- not run: hours -->
```sh
python -m benchmarks.other_places --potsdam enmap_potsdam
python -m benchmarks.shifted --pavia UPavia_Subset.mat --potsdam enmap_potsdam
python -m benchmarks.other_places_page
```

from [records](other-places.jsonl) and [records](shifted.jsonl). Mean and deviation over seeds from
0 on; settings were chosen on seeds 100 and up. No fit sees a test label, but the pixels tested here
were test pixels of development seeds too. *best, this-scene* propagates labels over superpixels, as
it does from 10,000 pixels on; *pixels as nodes* is the exact way that smaller scenes have.

The tables on light and corrupt pixels were measured with the presets before they chose settings by
folds (5 x 5 windows; `best` on whitened spectra): what they show is what a change of light or a
defect costs, and what adapting or repairing brings back.

**What is seen of the test pixels.** Whitening, label propagation, the guided filter and adaptation
use the spectra of the whole scene, those of the test pixels among them, never their labels: they
are transductive. The development seeds drew from the same tiles and scenes, so they have seen these
pixels too.
"""
TILES = """## Tiles of a city that nobody labeled

An EnMAP scene of Potsdam (30 m, 218 bands, mixed pixels; 3,806 labels of six classes in 14 tiles of
32 x 32 pixels, 41 of them soil). Tiles are dealt to seven folds; each fold is mapped by a model
trained on labels of the other tiles. OA and AA are over the test pixels of all folds. The SVM's C
and gamma and the regression's C are chosen by folds of tiles; the forest has 300 trees.
"""


def table(records: Records, labels: str) -> str:
    """Return the table of one number of labels."""
    rows = [r for r in records if r["labels"] == labels]
    methods = {r["method"] for r in rows if "objective" not in r["method"]}
    every = [{r["seed"] for r in rows if r["method"] == m} for m in methods]
    whole = set.intersection(*every) if every else set()  # seeds that every method has
    rows = [r for r in rows if r["seed"] in whole]
    seeds = len(whole)
    title = "all labels" if labels == "all" else f"{labels} labels per class"
    lines = [
        f"**{title}** ({seeds} seed{'s' * (seeds != 1)})\n",
        "| | OA | AA | s to train |",
        "|---|---|---|---|",
    ]
    for method in (*OURS, *OTHERS):
        own = [r for r in rows if r["method"] == method]
        if own:
            cells = [spread([100 * r[key] for r in own]) for key in ("oa", "aa")]
            seconds = np.median([r["cpu_seconds"] for r in own])
            method += "" if len(own) == seeds else f" ({len(own)} seed{'s' * (len(own) != 1)})"
            lines.append(f"| {method} | {cells[0]} | {cells[1]} | {seconds:.1f} |")
    return "\n".join([*lines, ""])


def spread(values: Sequence[float]) -> str:
    """Return mean and deviation."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):.1f} ± {deviation:.1f}"


def chosen(records: Records) -> str:
    """Return which experts were chosen how often."""
    lines = ["### What was chosen\n", "In how many of the models each expert was kept.\n"]
    lines += ["| labels | preset | " + " | ".join(KINDS) + " |", "|---" * (2 + len(KINDS)) + "|"]
    for labels in ("10", "30", "all"):
        for method in ("best, this-scene", "best, other-scenes", "fast"):
            own = [r for r in records if (r["labels"], r["method"]) == (labels, method)]
            counts = Counter(k for r in own for line in r["chosen"] for k in KINDS if k in line)
            total = sum(len(r["chosen"]) for r in own)
            if total:
                cells = " | ".join(f"{100 * counts[k] / total:.0f} %" for k in KINDS)
                lines.append(f"| {labels} | {method} | {cells} |")
    return "\n".join([*lines, ""])


KINDS = (
    "plain spectra, single pixels",
    "plain spectra, 3 x 3",
    "plain spectra, 5 x 5",
    "whitened spectra, single pixels",
    "whitened spectra, 5 x 5",
    "propagated",
    "guided filter",
)


def page() -> str:
    """Return the page."""
    places = other_places.read_records()
    sections = [INTRO, TILES, *(table(places, labels) for labels in ("10", "30", "all"))]
    sections += [chosen(places), shifted.tables(shifted.read_records())]
    return "\n".join(sections).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
