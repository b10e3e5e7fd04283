"""The points of a sample being checked: answers, their journal, and the file they go into.

Every answer is a line of the journal, on the disk, before it is confirmed. The file with the filled
in field is written from it, whole, a moment later and at the end.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from polyad.app.journal import Journal
from polyad.errors import InputError, PolyadError, SceneError, SceneMismatch
from polyad.scene.raster.classes import ClassInfo, class_key, has_own_name
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.labels import find_classes, known_classes
from polyad.scene.read.samples import SampleFile
from polyad.scene.write.tables import points_content, write_points

NOTE = "note"
CANNOT_TELL = "cannot tell"  # how the note of such a point begins
MAX_NOTE = 500
_PAUSE = 0.5  # seconds between two writings of the file

Listener = Callable[[dict[str, Any]], None]


class Answer(NamedTuple):
    """What somebody said of a point: a class, or that it cannot be told, or nothing yet."""

    value: int = 0
    unsure: bool = False
    note: str = ""

    @property
    def given(self) -> bool:
        """Whether the point has been dealt with."""
        return self.value != 0 or self.unsure


class Checklist:
    """The points of a sample and the answers to them; safe to use from several threads.

    Parameters
    ----------
    sample : SampleFile
    classes : sequence of ClassInfo
        That may be seen at a point.
    grid : Grid
        Of the scene.
    mark : str
        Fingerprint of the scene.
    out : Path
        The file of the checked points. One that is there is resumed.
    field : str
        Name of the field of the true class.
    journal : Path, optional
        By default beside ``out``.

    Attributes
    ----------
    answers : list of Answer
        One for each point.
    revision : int
        Counts the changes.
    resumed : int
        How many points had an answer at the start.
    """

    def __init__(
        self,
        sample: SampleFile,
        classes: Sequence[ClassInfo],
        grid: Grid,
        mark: str,
        out: Path,
        field: str,
        *,
        earlier: SampleFile | None = None,
        journal: Path | None = None,
    ) -> None:
        self.sample, self.classes, self.grid, self.out = sample, tuple(classes), grid, out
        self.field = sample.named(field)
        self._by_id = {info.value: info for info in self.classes}
        self._texts = {info.value: written(info, self.classes) for info in self.classes}
        found = answers_of(sample, field, self.classes)
        self.answers = [answer for answer, _ in found]
        taken = None if earlier is None else _matched(earlier, sample, field, self.classes)
        self._open_notes = {k: note for k, (answer, note) in enumerate(found) if not answer.given}
        # By point and by what the page shows of it: the whole note, which may be longer
        both = [*enumerate(found), *enumerate(taken or [])]
        self._notes = {(k, answer.note): note for k, (answer, note) in both}
        self.revision = 0
        self._lock = threading.RLock()
        self._file_lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._changed, self._closing = threading.Event(), threading.Event()
        self._writer: threading.Thread | None = None
        path = journal or out.with_name(out.name + ".checks.jsonl")
        newer, made = taken is not None and _is_newer(out, path), not path.exists()
        points_content(out, grid, sample.pixels, self.fields())  # refused before anything is made
        digest = hashlib.sha256(sample.pixels.astype("<i8").tobytes()).hexdigest()[:32]
        self.journal = Journal(path, {"shape": list(grid.shape), "scene": mark, "sample": digest})
        try:
            begun = bool(self.journal.commands)
            self._replay()
            if taken is not None and (newer or not begun):
                self._take([answer for answer, _ in taken])
            self.write()  # what cannot be written is told before anybody has looked
        except BaseException:
            self.journal.close()
            if made:
                path.unlink(missing_ok=True)
            raise
        self.resumed = self.done

    # -- answers --------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """How many points have an answer."""
        return sum(answer.given for answer in self.answers)

    @property
    def unsure(self) -> int:
        """How many points nobody can tell the class of."""
        return sum(answer.unsure for answer in self.answers)

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Take an answer: ``point`` from 0, ``class`` (0 for none), ``unsure`` and ``note``."""
        with self._lock:
            point, answer = self._checked(command)
            if answer != self.answers[point]:
                self.journal.append({"do": "answer", "answers": [self._entry(point, answer)]})
                self._put([(point, answer)])
            return self._describe([point])

    def state(self) -> dict[str, Any]:
        """Return the answers as JSON types."""
        with self._lock:
            given = [k for k, answer in enumerate(self.answers) if answer != Answer()]
            return self._describe(given)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every change."""
        self._listeners.append(listener)

    def _put(self, changes: Iterable[tuple[int, Answer]]) -> None:
        points = []
        for point, answer in changes:
            self.answers[point] = answer
            points.append(point)
        self.revision += 1
        self._changed.set()
        about = self._describe(points)
        for listener in self._listeners:
            listener(about)

    def _describe(self, points: Iterable[int]) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "answers": [[k, *self.answers[k]] for k in points],
        }

    def _checked(self, command: dict[str, Any]) -> tuple[int, Answer]:
        point, value = command.get("point"), command.get("class", 0)
        unsure = command.get("unsure", False)
        if type(point) is not int or not 0 <= point < len(self.answers):
            raise InputError(
                f"there is no point {repr(point)[:40]}; wanted 0 to {len(self.answers) - 1}"
            )
        note = command.get("note", self.answers[point].note)
        if type(value) is not int or (value != 0 and value not in self._by_id):
            raise InputError(f"there is no class {repr(value)[:40]}; {known_classes(self.classes)}")
        if type(unsure) is not bool or not isinstance(note, str):
            raise InputError("unsure must be true or false, and a note must be text")
        if value and unsure:
            raise InputError("a point has a class or cannot be told, wanted one of the two")
        return point, Answer(value, unsure, _clean(note))

    # -- the journal ----------------------------------------------------------------------------

    def _entry(self, point: int, answer: Answer) -> list[Any]:
        name = self._by_id[answer.value].name if answer.value else ""
        return [point, answer.value, name, answer.unsure, answer.note]

    def _replay(self) -> None:
        for line, command in enumerate(self.journal.commands, start=2):
            try:
                for point, value, name, unsure, note in command["answers"]:
                    known = self._known(value, name)
                    told = {"point": point, "class": known, "unsure": unsure, "note": note}
                    k, answer = self._checked(told)
                    self.answers[k] = answer
            except (PolyadError, LookupError, TypeError, ValueError) as error:
                said = str(error)[:200] if isinstance(error, PolyadError) else "malformed"
                raise SceneError(
                    f"{self.journal.path}, line {line}: the journal holds an answer that cannot be "
                    f"taken ({said}) and was left as it is; start with the map and the classes of "
                    "before, or move the file away to start anew"
                ) from error
        self.journal.commands.clear()

    def _known(self, value: int, name: str) -> int:
        """Return the id of a class of the journal among those of today."""
        info = self._by_id.get(value)
        if not value or (info is not None and info.name == name):
            return value
        alike = [c.value for c in self.classes if c.name == name]
        if len(alike) != 1:
            raise InputError(f"no class is called {str(name)[:80]!r}")
        return alike[0]

    def _take(self, answers: Sequence[Answer]) -> None:
        """Take over answers that somebody wrote into the file; what it leaves open stays."""
        fresh = [
            (k, new)
            for k, (new, old) in enumerate(zip(answers, self.answers, strict=True))
            if new != old and (new.given or (new.note and not old.given))
        ]
        if fresh:
            entries = [self._entry(k, answer) for k, answer in fresh]
            self.journal.append({"do": "answer", "answers": entries})
            self._put(fresh)

    # -- the file -------------------------------------------------------------------------------

    def fields(self) -> dict[str, list[Any]]:
        """Return the fields of the sample with the answers filled in."""
        with self._lock:
            answers = list(self.answers)
        notes = [self._note(k, answer) or None for k, answer in enumerate(answers)]
        seen = [self._texts[a.value] if a.value else None for a in answers]
        return {**self.sample.fields, self.field: seen, self.sample.named(NOTE): notes}

    def _note(self, k: int, answer: Answer) -> str:
        """Return what the file says beside the class of a point."""
        if not answer.given and not answer.note:
            return self._open_notes.get(k, "")
        note = self._notes.get((k, answer.note), answer.note)
        if answer.unsure:
            return f"{CANNOT_TELL}: {note}" if note else CANNOT_TELL
        return note

    def write(self) -> None:
        """Write the file of the checked points, whole."""
        with self._file_lock:
            self._changed.clear()
            try:
                write_points(self.out, self.grid, self.sample.pixels, self.fields())
            except BaseException:
                self._changed.set()
                raise

    def start(self, problem: Listener) -> None:
        """Write the file soon after each answer; ``problem`` is told what fails."""
        self._writer = threading.Thread(
            target=self._keep_writing, args=(problem,), name="polyad-checked", daemon=True
        )
        self._writer.start()

    def _keep_writing(self, problem: Listener) -> None:
        said = ""
        while not self._closing.is_set():
            if self._changed.wait(_PAUSE):
                try:
                    self.write()
                    said = ""
                except (PolyadError, OSError) as error:
                    text = f"{error}; the answers are safe in {self.journal.path.name}"
                    if text != said:
                        problem({"message": text})
                    said = text
            self._closing.wait(_PAUSE)

    def close(self) -> None:
        """Write the file a last time and release the journal."""
        self._closing.set()
        if self._writer is not None:
            self._writer.join(timeout=15)
        try:
            if self._changed.is_set():
                self.write()
        finally:
            self.journal.close()


def answers_of(
    sample: SampleFile, field: str, classes: Sequence[ClassInfo]
) -> list[tuple[Answer, str]]:
    """Return the answers that a file holds already, each with the whole note of the point.

    Raises
    ------
    SceneError
        The field names something that is none of the classes.
    """
    answers = []
    for place, text, note in zip(
        sample.where, sample.texts(field), sample.texts(NOTE), strict=True
    ):
        found = find_classes(classes, text) if text else []
        if text and len(found) != 1:
            raise SceneError(
                f"{sample.path}, {place}: {field[:80]} {text[:80]!r} is none of the classes to "
                f"choose from; {known_classes(classes)}"
            )
        unsure = not text and note.startswith(CANNOT_TELL)
        if unsure:
            note = note.removeprefix(CANNOT_TELL).removeprefix(":").strip()
        answers.append((Answer(found[0].value if found else 0, unsure, _shown(note)), note))
    return answers


def written(info: ClassInfo, classes: Sequence[ClassInfo]) -> str:
    """Return how a class is written so that it is found again: by its name, or else by its id."""
    ways = [info.name, str(info.value)] if has_own_name(info) else [str(info.value)]
    for text in ways:
        if find_classes(classes, text) == [info]:
            return text
    raise InputError(
        f"class {class_key(info)} cannot be told from another by name or id; rename it"
    )


def _matched(
    earlier: SampleFile, sample: SampleFile, field: str, classes: Sequence[ClassInfo]
) -> list[tuple[Answer, str]]:
    """Return the answers of an earlier output in the order of the sample."""
    order = {pixel: k for k, pixel in enumerate(map(tuple, earlier.pixels.tolist()))}
    ours = list(map(tuple, sample.pixels.tolist()))
    if set(order) != set(ours):
        raise SceneMismatch(
            f"{earlier.path}: holds {len(order):,} points, and not those of {sample.path}, so it "
            "is not resumed; name another file with --out, or move it away"
        )
    told = answers_of(earlier, field, classes)
    return [told[order[pixel]] for pixel in ours]


def _is_newer(out: Path, journal: Path) -> bool:
    """Whether somebody may have edited the file after the last answer."""
    try:
        return out.stat().st_mtime_ns > journal.stat().st_mtime_ns
    except OSError:
        return False


def _shown(note: str) -> str:
    """Return as much of a file's note as `_clean` takes."""
    visible = "".join(c if c.isprintable() else " " for c in note)
    return " ".join(visible.split())[:MAX_NOTE].strip()


def _clean(note: str) -> str:
    text = " ".join(note.split())
    if len(text) > MAX_NOTE or not (text.isprintable() or not text):
        raise InputError(f"a note has at most {MAX_NOTE} visible characters")
    return text
