"""Labels and classes of one scene in memory, with undo and redo.

Nothing here touches disk or network. A command is a plain mapping, as written in the journal. A
`Change` holds what a command changed, before and after, so that it can be inverted.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyad.errors import InputError
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_color, palette

Pixel = tuple[int, int]
Command = Mapping[str, Any]

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
        return Change(_joined(self.labels, later.labels), _joined(self.classes, later.classes),
                      self.stroke)  # fmt: skip


def _joined(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    joined = dict(first)
    for key, (old, new) in second.items():
        joined[key] = (joined[key][0] if key in joined else old, new)
    return joined


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

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo."""
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to redo."""
        return bool(self._undone)

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
            raise InputError(f"no such command: {repr(do)[:40]}; wanted one of {', '.join(_PLANS)}")
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
        for value, (_, info) in change.classes.items():
            if info is None:
                self.classes.pop(value, None)
            else:
                self.classes[value] = info
        self.classes = dict(sorted(self.classes.items()))
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
        pixels = self._pixels(command.get("pixels"))
        stroke = str(command.get("stroke", ""))[:40]
        changed = {p: (self.labels.get(p, UNLABELED), value) for p in pixels}
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

    def _known(self, value: Any, erase: bool = False) -> int:
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

    def _name(self, raw: Any, value: int) -> str:
        name = _clean_name(raw if raw is not None else f"class {value}")
        if any(c.name == name for v, c in self.classes.items() if v != value):
            raise InputError(f"there is a class {name!r} already; choose another name")
        return name

    def _pixels(self, raw: Any) -> list[Pixel]:
        if not isinstance(raw, Sequence) or isinstance(raw, str):
            raise InputError("pixels must be a list of [row, column]")
        if len(raw) > MAX_PIXELS:
            raise InputError(
                f"{len(raw):,} pixels at once are too many, wanted at most {MAX_PIXELS:,}; send "
                "them in parts"
            )
        return [self._pixel(pixel) for pixel in raw]

    def _pixel(self, raw: Any) -> Pixel:
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


def _clean_name(raw: Any) -> str:
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


def _color(raw: Any) -> str:
    if not isinstance(raw, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", raw):
        raise InputError(f"a color is written #rrggbb, got {str(raw)[:20]!r}")
    return raw
