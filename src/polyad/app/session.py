"""One scene being labelled: its board, its journal, and who wants to hear of changes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.app.board import Board, Change, Command, Pixel
from polyad.app.journal import Journal, journal_path
from polyad.errors import PolyadError, SceneError
from polyad.regular import open_regular
from polyad.scene.classes import ClassInfo, class_table, with_classes
from polyad.scene.model import fingerprint

Listener = Callable[[Change, dict[str, Any]], None]


@dataclass(frozen=True)
class Snapshot:
    """Labels and classes as they were at one moment.

    Attributes
    ----------
    revision : int
        Of the labels.
    labels : dict
        Pixel (row, column) to class id.
    classes : tuple of ClassInfo
    """

    revision: int
    labels: dict[Pixel, int]
    classes: tuple[ClassInfo, ...]

    def raster(self, scene: xr.DataArray) -> xr.DataArray:
        """Return the labels on the scene's grid, 0 where unlabelled, with the classes."""
        values = np.zeros((scene.sizes["y"], scene.sizes["x"]), np.uint16)
        for pixel, value in self.labels.items():
            values[pixel] = value
        # Coordinates keep their attributes: those of the grid mapping are the georeference.
        coords = {k: v for k, v in scene.coords.items() if set(v.dims) <= {"y", "x"}}
        labels = xr.DataArray(values, dims=("y", "x"), coords=coords, name="class")
        labels = labels.rio.write_grid_mapping(scene.rio.grid_mapping)
        return with_classes(labels, self.classes)


class Session:
    """The labels of one scene; safe to be used from several threads.

    Every command is in the journal, on the disk, before `do` returns.

    Parameters
    ----------
    scene : DataArray, dims (y, x, band)
    source : str, optional
        Where the scene was opened from; the journal lies beside it.
    journal : Path, optional
        Another place for the journal.
    """

    def __init__(
        self, scene: xr.DataArray, source: str | None = None, journal: Path | None = None
    ) -> None:
        shape = scene.sizes["y"], scene.sizes["x"]
        mark = fingerprint(scene)
        self.board = Board(shape)
        self.journal = Journal(
            journal or journal_path(source, mark), {"shape": list(shape), "scene": mark}
        )
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        try:
            self._replay()
        except BaseException:
            self.journal.close()
            raise

    def _replay(self) -> None:
        for line, command in enumerate(self.journal.commands, start=2):
            try:
                self.board.do(command)
            except PolyadError as error:
                raise SceneError(
                    f"{self.journal.path}, line {line}: the journal holds a command that cannot be "
                    f"carried out ({str(error)[:200]}) and was left as it is; take this line out "
                    "with an editor, or move the file away to start anew"
                ) from error
        self.journal.commands.clear()

    def do(self, command: Command) -> dict[str, Any]:
        """Carry out a command and return what it changed, in types that JSON knows."""
        with self._lock:
            change = self.board.plan(command)
            if change or "digest" in command:
                self.journal.append(command)
            before = self.board.revision
            self.board.commit(command, change)
            answer = self._describe(change, before)
            if change:
                for listener in self._listeners:
                    listener(change, answer)
            return answer

    def load(self, labels: xr.DataArray, digest: str = "") -> dict[str, Any]:
        """Take over a raster of labels as one step; a file seen before is not taken twice."""
        if digest and digest in self.board.loaded:
            return self.do({"do": "label", "class": 0, "pixels": []})
        values = labels.values
        rows, cols = np.nonzero(values > 0)
        given = values[rows, cols]
        used = set(np.unique(given).tolist())
        command: dict[str, Any] = {
            "do": "load",
            "classes": [list(c) for c in class_table(labels) if c.value in used],
            "labels": np.column_stack([rows, cols, given]).tolist(),
        }
        return self.do(command | ({"digest": digest} if digest else {}))

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each change, in order; it must return at once."""
        with self._lock:
            self._listeners.append(listener)

    def snapshot(self) -> Snapshot:
        """Return labels and classes as they are now."""
        with self._lock:
            board = self.board
            return Snapshot(board.label_revision, dict(board.labels), tuple(board.classes.values()))

    def state(self) -> dict[str, Any]:
        """Return everything a page must know of labels and classes."""
        with self._lock:
            board = self.board
            return {
                "revision": board.revision,
                "undo": board.can_undo,
                "redo": board.can_redo,
                "classes": [c._asdict() for c in board.classes.values()],
                "labels": [[row, col, value] for (row, col), value in board.labels.items()],
            }

    def close(self) -> None:
        """Release the journal."""
        with self._lock:
            self.journal.close()

    def _describe(self, change: Change, before: int) -> dict[str, Any]:
        return {
            "before": before,
            "revision": self.board.revision,
            "undo": self.board.can_undo,
            "redo": self.board.can_redo,
            "labels": [[row, col, new] for (row, col), (_, new) in change.labels.items()],
            "classes": [
                {"value": k, **(info._asdict() if info else {"name": None, "color": None})}
                for k, (_, info) in change.classes.items()
            ],
        }


def file_digest(path: str | Path) -> str:
    """Return a digest of a file's content, or of its name where there is no such file."""
    path = Path(path)
    if not path.is_file():
        return hashlib.sha256(str(path).encode()).hexdigest()[:32]
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
