"""Labels and classes of one scene: commands with undo and redo, their journal, and label files.

A command is a plain mapping, as written in the journal. A `Change` holds what a command changed,
before and after, so that it can be inverted. `LabelState` touches neither disk nor network; a
`Session` writes each command to the journal before it answers.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.app.journal import Journal, Json, journal_path
from polyad.errors import InputError, PolyadError, SceneMismatch
from polyad.safe_open import open_regular
from polyad.scene.files.paths import LABELS
from polyad.scene.raster.classes import (
    UNLABELED,
    ClassInfo,
    class_color,
    class_table,
    palette,
    with_classes,
)
from polyad.scene.raster.grid import grid_of
from polyad.scene.raster.scene import INSIDE, Scene
from polyad.scene.read.labels import has_data
from polyad.scene.write.tables import points_content
from polyad.scene.write.writers import write_map
from polyad.text import csv_text

Pixel = tuple[int, int]
Command = Mapping[str, Any]
Listener = Callable[["Change", Json], None]

MAX_CLASSES = 255  # a map's tile has a palette of 256 colors, one of them "no class"
MAX_PIXELS = 50_000  # of one command
MAX_NAME = 80
HISTORY = 1000  # steps that can be undone


@dataclass(frozen=True)
class Change:
    """What a command changed.

    Attributes
    ----------
    labels : mapping
        Pixel (row, column) to its class id before and after; 0 is unlabeled.
    classes : mapping
        Class id to the class before and after; None if there is no such class.
    stroke : str
        Changes of one stroke are undone together.
    """

    labels: Mapping[Pixel, tuple[int, int]] = field(default_factory=dict)
    classes: Mapping[int, tuple[ClassInfo | None, ClassInfo | None]] = field(default_factory=dict)
    stroke: str = ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.classes)

    def inverse(self) -> Change:
        """Return the change that undoes this one."""
        return Change(
            {p: (new, old) for p, (old, new) in self.labels.items()},
            {k: (new, old) for k, (old, new) in self.classes.items()},
            self.stroke,
        )

    def then(self, later: Change) -> Change:
        """Return this change followed by a later one as a single change."""
        both: list[dict[Any, Any]] = []
        for first, second in ((self.labels, later.labels), (self.classes, later.classes)):
            changed: dict[Any, Any] = {**first}
            for key, (old, new) in second.items():
                changed[key] = (changed.get(key, (old, new))[0], new)
            both.append(changed)
        return Change(both[0], both[1], self.stroke)


class LabelState:
    """The labels and classes of a scene of ``shape`` (height, width), with their history.

    Examples
    --------
    >>> state = LabelState((10, 10))
    >>> _ = state.do({"do": "add", "name": "Corn"})
    >>> _ = state.do({"do": "label", "class": 1, "pixels": [[2, 3]]})
    >>> state.labels
    {(2, 3): 1}
    >>> _ = state.do({"do": "undo"})
    >>> state.labels
    {}
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.classes: dict[int, ClassInfo] = {}
        self.labels: dict[Pixel, int] = {}
        self.loaded: set[str] = set()  # digests of the label files that were loaded
        self.revision = 0  # counts every change
        self.label_revision = 0  # counts the changes that a model depends on
        self._done: deque[Change] = deque(maxlen=HISTORY)
        self._undone: deque[Change] = deque(maxlen=HISTORY)

    def history(self) -> Json:
        """Return the number of changes, and whether there is a step to undo or to redo."""
        undo, redo = bool(self._done), bool(self._undone)
        return {"revision": self.revision, "undo": undo, "redo": redo}

    def do(self, command: Command) -> Change:
        """Carry out a command: `plan` it, then `commit` it."""
        change = self.plan(command)
        self.commit(command, change)
        return change

    def plan(self, command: Command) -> Change:
        """Return what ``command`` would change, without changing it.

        Raises
        ------
        InputError
            The command is malformed, or names a class or a pixel that does not exist.
        """
        do = command.get("do") if isinstance(command, Mapping) else None
        if do == "undo":
            return self._done[-1].inverse() if self._done else Change()
        if do == "redo":
            return self._undone[-1] if self._undone else Change()
        if not isinstance(do, str) or do not in _PLANS:
            raise InputError(
                f"no such command: {repr(do)[:40]}; expected one of {', '.join(_PLANS)}"
            )
        try:
            return _PLANS[do](self, command)
        except InputError:
            raise
        # A journal may hold anything in place of numbers, names and lists
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise InputError(f"the command {do!r} is malformed: {str(error)[:100]}") from error

    def commit(self, command: Command, change: Change) -> None:
        """Apply a planned change and remember it for undo."""
        if "digest" in command:
            self.loaded.add(str(command["digest"]))
        if not change:
            return
        self._apply(change)
        if command.get("given"):  # present from the start: nothing to undo
            return
        if command["do"] == "undo":
            self._undone.append(self._done.pop())
        elif command["do"] == "redo":
            self._done.append(self._undone.pop())
        else:
            self._undone.clear()
            last = self._done[-1] if self._done else None
            if last is not None and change.stroke and last.stroke == change.stroke:
                self._done[-1] = last.then(change)
            else:
                self._done.append(change)

    def _apply(self, change: Change) -> None:
        classes = self.classes | {k: info for k, (_, info) in change.classes.items()}
        self.classes = {k: info for k, info in sorted(classes.items()) if info is not None}
        for pixel, (_, value) in change.labels.items():
            if value == UNLABELED:
                self.labels.pop(pixel, None)
            else:
                self.labels[pixel] = value
        self.revision += 1
        self.label_revision += bool(change.labels)

    # -- one plan for each command --------------------------------------------------------------

    def _label(self, command: Command) -> Change:
        value = self._known(command.get("class"), erase=True)
        pixels = command.get("pixels")
        if not isinstance(pixels, Sequence) or isinstance(pixels, str):
            raise InputError("pixels must be a list of [row, column]")
        if len(pixels) > MAX_PIXELS:
            raise InputError(
                f"{len(pixels):,} pixels at once are too many, expected at most {MAX_PIXELS:,}; "
                "send them in parts"
            )
        stroke = str(command.get("stroke", ""))[:40]
        changed = {p: (self.labels.get(p, UNLABELED), value) for p in map(self._pixel, pixels)}
        return Change({p: c for p, c in changed.items() if c[0] != c[1]}, stroke=stroke)

    def _add(self, command: Command) -> Change:
        value = self._free()
        name = self._name(command.get("name"), value)
        color = _color(command.get("color") or self._unused_color(class_color(value)))
        return Change(classes={value: (None, ClassInfo(value, name, color))})

    def _change(self, command: Command) -> Change:
        value = self._known(command.get("class"))
        old = self.classes[value]
        name = old.name if command.get("name") is None else self._name(command["name"], value)
        color = old.color if command.get("color") is None else _color(command["color"])
        new = ClassInfo(value, name, color)
        return Change(classes={value: (old, new)}) if new != old else Change()

    def _delete(self, command: Command) -> Change:
        value = self._known(command.get("class"))
        labels = {p: (v, UNLABELED) for p, v in self.labels.items() if v == value}
        return Change(labels, {value: (self.classes[value], None)})

    def _load(self, command: Command) -> Change:
        """Add the classes and labels of a file.

        Classes of the same name are the same class; a color that another class has is replaced.
        """
        by_name = {c.name: v for v, c in self.classes.items()}
        new: dict[int, tuple[ClassInfo | None, ClassInfo | None]] = {}
        ids: dict[int, int] = {UNLABELED: UNLABELED}
        for file_id, raw, color in command["classes"]:
            name = _clean_name(raw)
            if name not in by_name:
                value = self._free({*new}, wish=int(file_id))
                color = self._unused_color(_color(color), [c for _, c in new.values() if c])
                new[value] = (None, ClassInfo(value, name, color))
                by_name[name] = value
            ids[int(file_id)] = by_name[name]
        labels = {}
        height, width = self.shape
        for row, col, file_id in command["labels"]:  # maybe every pixel: kept fast
            if not (type(row) is type(col) is int and 0 <= row < height and 0 <= col < width):
                self._pixel([row, col])  # raises
            before, after = self.labels.get((row, col), UNLABELED), ids[file_id]
            if before != after:
                labels[row, col] = (before, after)
        return Change(labels, new)

    # -- checks ---------------------------------------------------------------------------------

    def _known(self, value: object, erase: bool = False) -> int:
        if type(value) is int and (value in self.classes or (erase and value == UNLABELED)):
            return value
        have = ", ".join(map(str, self.classes)) or "none yet"
        raise InputError(f"there is no class {repr(value)[:40]} (classes: {have}); add it first")

    def _free(self, taken: set[int] | None = None, wish: int = 0) -> int:
        taken = {*self.classes, *(taken or ())}
        if 1 <= wish <= MAX_CLASSES and wish not in taken:
            return wish
        free = next((v for v in range(1, MAX_CLASSES + 1) if v not in taken), None)
        if free is None:
            raise InputError(f"there are {MAX_CLASSES} classes already; delete one first")
        return free

    def _unused_color(self, wish: str, others: Sequence[ClassInfo] = ()) -> str:
        """Return ``wish``, or the next color of the palette that no class has."""
        used = {c.color.lower() for c in (*self.classes.values(), *others)}
        return next(c for c in (wish, *palette(len(used) + 1)) if c.lower() not in used)

    def _name(self, raw: object, value: int) -> str:
        name = _clean_name(raw if raw is not None else f"class {value}")
        if any(c.name == name for v, c in self.classes.items() if v != value):
            raise InputError(f"there is a class {name!r} already; choose another name")
        return name

    def _pixel(self, raw: object) -> Pixel:
        if isinstance(raw, Sequence) and len(raw) == 2 and all(type(v) is int for v in raw):
            row, col = raw
            if 0 <= row < self.shape[0] and 0 <= col < self.shape[1]:
                return row, col
            raise InputError(
                f"pixel [{row}, {col}] lies outside the scene of {self.shape[0]} rows and "
                f"{self.shape[1]} columns, counted from 0"
            )
        raise InputError("a pixel is [row, column], two whole numbers")


_PLANS: dict[str, Callable[[LabelState, Command], Change]] = {
    "label": LabelState._label,
    "add": LabelState._add,
    "change": LabelState._change,
    "delete": LabelState._delete,
    "load": LabelState._load,
}


def _clean_name(raw: object) -> str:
    """Return a class name without stray blanks; any visible character may be in it.

    Examples
    --------
    >>> _clean_name("  <script>  ")
    '<script>'
    """
    name = " ".join(str(raw).split())
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise InputError(f"a class name has 1 to {MAX_NAME} visible characters, got {name[:90]!r}")
    return name


def _color(raw: object) -> str:
    if not isinstance(raw, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", raw):
        raise InputError(f"a color is written #rrggbb, got {str(raw)[:20]!r}")
    return raw


# -- a session: the state, its journal, those who listen -----------------------------------------


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

    def labeled(self) -> list[tuple[Pixel, ClassInfo]]:
        """Return the labeled pixels and their classes, row by row."""
        by_id = {info.value: info for info in self.classes}
        return [(pixel, by_id[value]) for pixel, value in sorted(self.labels.items())]

    def raster(self, scene: xr.DataArray | Scene) -> xr.DataArray:
        """Return the labels on the scene's grid with their classes, 0 where unlabeled."""
        scene = Scene.of(scene)
        values = np.zeros(scene.shape[:2], np.uint16)
        for pixel, value in self.labels.items():
            values[pixel] = value
        # Attributes of coordinates are kept: the grid mapping's are the georeference.
        labels = xr.DataArray(values, dims=("y", "x"), coords=scene.map_coords, name="class")
        labels = labels.rio.write_grid_mapping(scene.array.rio.grid_mapping)
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
        mark = Scene.of(scene).fingerprint
        self._scene = scene
        self.label_state = LabelState(shape)
        self.journal = Journal(
            journal or journal_path(source, mark), {"shape": list(shape), "scene": mark}
        )
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        try:
            self.journal.replay(
                self.label_state.do,
                "a command that cannot be carried out",
                "take this line out with an editor",
            )
        except BaseException:
            self.journal.close()
            raise

    def do(self, command: Command) -> Json:
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

    def load(self, labels: xr.DataArray, digest: str = "") -> Json:
        """Load a raster of labels as one step, unless its digest was loaded before."""
        if digest and digest in self.label_state.loaded:
            return self.do({"do": "label", "class": 0, "pixels": []})
        values = labels.values
        rows, cols = np.nonzero(values > 0)
        class_ids = values[rows, cols]
        used = set(np.unique(class_ids).tolist())
        command: Json = {
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

    def state(self) -> Json:
        """Return what a page must know of labels and classes."""
        with self._lock:
            state = self.label_state
            return state.history() | {
                "classes": [c._asdict() for c in state.classes.values()],
                "labels": [[row, col, value] for (row, col), value in state.labels.items()],
            }

    def close(self) -> None:
        """Release the journal."""
        with self._lock:
            self.journal.close()

    def _describe(self, change: Change, before: int) -> Json:
        return self.label_state.history() | {
            "before": before,
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


# -- label files -----------------------------------------------------------------------------------


def labels_csv(snapshot: Snapshot, scene: xr.DataArray) -> bytes:
    """Return labels as ``row,col,class,name,color``, rows and columns counted from 0."""
    del scene
    rows = ([*pixel, *info] for pixel, info in snapshot.labeled())
    return csv_text([["row", "col", "class", "name", "color"], *rows]).encode()


def labels_geojson(snapshot: Snapshot, scene: xr.DataArray) -> bytes:
    """Return labels as GeoJSON points: pixel centers in longitude and latitude."""
    grid, labeled = grid_of(scene), snapshot.labeled()
    if grid.transform is None or grid.crs is None:
        raise SceneMismatch(
            "GeoJSON lies on the map, but this scene has no georeference; save the labels as CSV"
        )
    pixels = np.array([pixel for pixel, _ in labeled], np.intp).reshape(-1, 2)
    fields = [(info.value, info.name, info.color) for _, info in labeled]
    named = {name: [f[k] for f in fields] for k, name in enumerate(("class", "name", "color"))}
    return points_content("labels.geojson", grid, pixels, named)


def labels_tif(snapshot: Snapshot, scene: xr.DataArray) -> bytes:
    """Return labels as a GeoTIFF of class ids with the scene's georeference and a palette."""
    raster = snapshot.raster(scene).assign_attrs(quantity=LABELS)
    return file_content("labels.tif", lambda path: write_map(path, raster))


LABEL_FILES: dict[str, tuple[str, Callable[[Snapshot, xr.DataArray], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", labels_csv),
    "geojson": ("application/geo+json", labels_geojson),
    "tif": ("image/tiff", labels_tif),
}


def file_content(name: str, write: Callable[[Path], object]) -> bytes:
    """Return what ``write`` puts into a file of this name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()
