"""Commands that would write over what the user has: refused, and everything left as it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attacks.cases import case
from attacks.formats import CSV, CUBE

_LABEL = ["label", "scene.npy", "--no-browser"]
_TRAIN = ["train", "scene.npy", "labels.csv", "--out"]
_NO_JOURNAL = "is no journal of polyad; it was left as it is"
for _name, _says, _arguments, _plant in (
    ("journal_that_is_labels", _NO_JOURNAL, [*_LABEL, "--journal", "labels.csv"], None),
    ("journal_of_one_line", _NO_JOURNAL, [*_LABEL, "--journal", "notes.txt"], None),
    ("journal_that_is_a_link", "cannot open the journal", _LABEL,
     lambda folder: (folder / "scene.npy.labels.jsonl").symlink_to("notes.txt")),
    ("journal_that_is_a_pipe", "cannot open the journal", [*_LABEL, "--journal", "j.jsonl"],
     lambda folder: os.mkfifo(folder / "j.jsonl")),
    ("model_over_labels", "it is the input labels.csv", [*_TRAIN, "labels.csv"], None),
    ("model_over_scene_by_a_link", "it is the input scene.npy", [*_TRAIN, "model.polyad"],
     lambda folder: (folder / "model.polyad").symlink_to("scene.npy")),
    ("model_over_scene_by_a_hard_link", "it is the input scene.npy|--force",
     [*_TRAIN, "model.polyad"],
     lambda folder: os.link(folder / "scene.npy", folder / "model.polyad")),
    ("model_over_notes", "--force", [*_TRAIN, "notes.txt"], None),
):  # fmt: skip

    @case(_says, _name)
    def _campaign(
        folder: Path,
        arguments: list[str] = _arguments,
        plant: Callable[[Path], None] | None = _plant,
    ) -> list[str]:
        np.save(folder / "scene.npy", CUBE)
        (folder / "labels.csv").write_text(CSV)
        (folder / "notes.txt").write_text("do not lose this\n")
        if plant is not None:
            plant(folder)
        return arguments
