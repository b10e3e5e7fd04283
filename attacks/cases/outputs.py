"""Commands that would write over what the user has: refused, and everything left as it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from attacks.cases import case

LABELS = "row,col,class\n" + "".join(f"{k // 8},{k % 8},{1 + k % 2}\n" for k in range(32))


def _campaign(folder: Path) -> None:
    np.save(folder / "scene.npy", np.random.default_rng(0).random((8, 8, 3)).astype(np.float32))
    (folder / "labels.csv").write_text(LABELS)
    (folder / "notes.txt").write_text("do not lose this\n")


@case(2, says="is no journal of polyad; it was left as it is")
def journal_that_is_labels(folder: Path) -> list[str]:
    """A file of labels named as the journal."""
    _campaign(folder)
    return ["label", "scene.npy", "--journal", "labels.csv", "--no-browser"]


@case(2, says="is no journal of polyad; it was left as it is")
def journal_of_one_line(folder: Path) -> list[str]:
    """A file of one line named as the journal."""
    _campaign(folder)
    return ["label", "scene.npy", "--journal", "notes.txt", "--no-browser"]


@case(2, says="cannot open the journal")
def journal_that_is_a_link(folder: Path) -> list[str]:
    """A journal planted as a link to another file."""
    _campaign(folder)
    (folder / "scene.npy.labels.jsonl").symlink_to("notes.txt")
    return ["label", "scene.npy", "--no-browser"]


@case(2, says="cannot open the journal")
def journal_that_is_a_pipe(folder: Path) -> list[str]:
    """A named pipe as the journal."""
    _campaign(folder)
    os.mkfifo(folder / "j.jsonl")
    return ["label", "scene.npy", "--journal", "j.jsonl", "--no-browser"]


@case(3, says="it is the input labels.csv")
def model_over_labels(folder: Path) -> list[str]:
    """Training whose model would replace the labels."""
    _campaign(folder)
    return ["train", "scene.npy", "labels.csv", "--out", "labels.csv"]


@case(3, says="it is the input scene.npy")
def model_over_scene_by_a_link(folder: Path) -> list[str]:
    """Training whose model would replace the scene, through a link."""
    _campaign(folder)
    (folder / "model.polyad").symlink_to("scene.npy")
    return ["train", "scene.npy", "labels.csv", "--out", "model.polyad"]


@case(3, says="it is the input scene.npy|--force")
def model_over_scene_by_a_hard_link(folder: Path) -> list[str]:
    """Training whose model would replace a second name of the scene."""
    _campaign(folder)
    os.link(folder / "scene.npy", folder / "model.polyad")
    return ["train", "scene.npy", "labels.csv", "--out", "model.polyad"]


@case(3, says="--force")
def model_over_notes(folder: Path) -> list[str]:
    """Training whose model would replace a text."""
    _campaign(folder)
    return ["train", "scene.npy", "labels.csv", "--out", "notes.txt"]


@case(12, says="no such file")
def name_with_escape_sequences(folder: Path) -> list[str]:
    """The name of a file that moves the cursor and sets the terminal's title."""
    del folder
    return ["info", "scene\x1b[2J\x1b]0;title\x07.tif"]
