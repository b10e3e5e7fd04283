"""The labeling session of one scene: label state, journal, listeners."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.app.journal import Journal, journal_path
from polyad.app.label_state import Change, Command, LabelState, Pixel
from polyad.errors import InputError, PolyadError, SceneError
from polyad.regular import open_regular
from polyad.scene.learn.model import fingerprint
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_table, with_classes
from polyad.scene.raster.scene import INSIDE
from polyad.scene.raster.selection import without_mask
from polyad.scene.read.labels import has_data

Listener = Callable[[Change, dict[str, Any]], None]


@dataclass(frozen=True)
class Snapshot:
    """Labels and classes at one moment.

    Attributes
    ----------
    revision : int
        Revision of the labels.
    labels : dict
        Pixel (row, column) to class id.
    classes : tuple of ClassInfo
    """

    revision: int
    labels: dict[Pixel, int]
    classes: tuple[ClassInfo, ...]

    def raster(self, scene: xr.DataArray) -> xr.DataArray:
        """Return the labels on the scene's grid with their classes, 0 where unlabeled."""
        values = np.zeros((scene.sizes["y"], scene.sizes["x"]), np.uint16)
        for pixel, value in self.labels.items():
            values[pixel] = value
        # Attributes of coordinates are kept: the grid mapping's are the georeference.
        coords = without_mask(scene.coords)
        labels = xr.DataArray(values, dims=("y", "x"), coords=coords, name="class")
        labels = labels.rio.write_grid_mapping(scene.rio.grid_mapping)
        return with_classes(labels, self.classes)


class Session:
    """The labels of one scene; safe to use from several threads.

    Every command is in the journal, on disk, before `do` returns.

    Parameters
    ----------
    scene : DataArray, dims (y, x, band)
    source : str, optional
        Path the scene was opened from; the journal lies beside it.
    journal : Path, optional
        Another path for the journal.
    """

    def __init__(
        self, scene: xr.DataArray, source: str | None = None, journal: Path | None = None
    ) -> None:
        shape = scene.sizes["y"], scene.sizes["x"]
        mark = fingerprint(scene)
        self._scene = scene
        self.label_state = LabelState(shape)
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
                self.label_state.do(command)
            except PolyadError as error:
                raise SceneError(
                    f"{self.journal.path}, line {line}: the journal holds a command that cannot be "
                    f"carried out ({str(error)[:200]}) and was left as it is; take this line out "
                    "with an editor, or move the file away to start anew"
                ) from error
        self.journal.commands.clear()

    def do(self, command: Command) -> dict[str, Any]:
        """Carry out a command and return what it changed, as JSON types.

        Pixels without data are not labeled; ``skipped`` says how many these are.

        Raises
        ------
        InputError
            The command is malformed, or every pixel that it labels lacks data.
        """
        command, skipped = self._with_data(command)
        with self._lock:
            change = self.label_state.plan(command)
            if change or "digest" in command:
                self.journal.append(command)
            before = self.label_state.revision
            self.label_state.commit(command, change)
            answer = self._describe(change, before)
            if change:
                for listener in self._listeners:
                    listener(change, answer)
            return answer | {"skipped": skipped}

    def _with_data(self, command: Command) -> tuple[Command, int]:
        """Return a command that labels no pixel without data, and how many were taken out."""
        with self._lock:
            self.label_state.plan(command)  # raises where it is malformed
        do, scene = command["do"], self._scene
        if do not in ("label", "load") or command.get("class") == UNLABELED:
            return command, 0
        if do == "load":  # another time the page may be started without the mask
            scene = scene.drop_vars(INSIDE, errors="ignore")
        name = "pixels" if do == "label" else "labels"
        pixels = command[name]
        try:
            valid = has_data(scene, [p[0] for p in pixels], [p[1] for p in pixels])
        except (PolyadError, OSError, RuntimeError):  # the file is gone: labels are kept anyway
            return command, 0
        if len(valid) and not valid.any():
            places = f"pixel [{pixels[0][0]}, {pixels[0][1]}] has"
            if len(valid) > 1:
                places = f"all {len(valid):,} pixels have"
            where = " inside the mask" if INSIDE in scene.coords else ""
            raise InputError(f"not labeled: {places} no data{where}; label where there is data")
        kept = [pixel for pixel, good in zip(pixels, valid, strict=True) if good]
        return {**command, name: kept}, len(pixels) - len(kept)

    def load(self, labels: xr.DataArray, digest: str = "") -> dict[str, Any]:
        """Load a raster of labels as one step, unless its digest was loaded before."""
        if digest and digest in self.label_state.loaded:
            return self.do({"do": "label", "class": 0, "pixels": []})
        values = labels.values
        rows, cols = np.nonzero(values > 0)
        class_ids = values[rows, cols]
        used = set(np.unique(class_ids).tolist())
        command: dict[str, Any] = {
            "do": "load",
            "classes": [list(c) for c in class_table(labels) if c.value in used],
            "labels": np.column_stack([rows, cols, class_ids]).tolist(),
        }
        return self.do(command | ({"digest": digest} if digest else {}))

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each change, in order; it must return at once."""
        with self._lock:
            self._listeners.append(listener)

    def snapshot(self) -> Snapshot:
        """Return labels and classes as they are now."""
        with self._lock:
            state = self.label_state
            return Snapshot(state.label_revision, dict(state.labels), tuple(state.classes.values()))

    def state(self) -> dict[str, Any]:
        """Return what a page must know of labels and classes."""
        with self._lock:
            state = self.label_state
            return {
                "revision": state.revision,
                "undo": state.can_undo,
                "redo": state.can_redo,
                "classes": [c._asdict() for c in state.classes.values()],
                "labels": [[row, col, value] for (row, col), value in state.labels.items()],
            }

    def close(self) -> None:
        """Release the journal."""
        with self._lock:
            self.journal.close()

    def _describe(self, change: Change, before: int) -> dict[str, Any]:
        return {
            "before": before,
            "revision": self.label_state.revision,
            "undo": self.label_state.can_undo,
            "redo": self.label_state.can_redo,
            "labels": [[row, col, new] for (row, col), (_, new) in change.labels.items()],
            "classes": [
                {"value": k, **(info._asdict() if info else {"name": None, "color": None})}
                for k, (_, info) in change.classes.items()
            ],
        }


def file_digest(path: str | Path) -> str:
    """Return a digest of a file's content, or of its name if there is no such file."""
    path = Path(path)
    if not path.is_file():
        return hashlib.sha256(str(path).encode()).hexdigest()[:32]
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
