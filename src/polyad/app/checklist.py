"""Checking a sample: its points, the answers with their journal, and the file they go into.

Every answer is a line of the journal, on the disk, before it is confirmed. The file with the filled
in field is written from it, whole, a moment later and at the end.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.journal import Journal, Json
from polyad.app.labels import MAX_CLASSES
from polyad.app.workspace import ClassMap, RasterSource, ScenePage, describe_scene
from polyad.durable import InUse, LockFile, why
from polyad.errors import InputError, OutputError, PolyadError, SceneError, SceneMismatch
from polyad.scene.files.paths import DRAWN_FROM, check_apart, check_names_differ, check_output
from polyad.scene.raster.classes import ClassInfo, class_color, class_key, class_table, has_own_name
from polyad.scene.raster.grid import Grid, grid_of
from polyad.scene.raster.labels import find_classes, known_classes
from polyad.scene.raster.scene import Scene, as_labels
from polyad.scene.read.features import PLACE_NAMES
from polyad.scene.read.labels import open_labels
from polyad.scene.read.samples import REFERENCE, SampleFile, check_origin, open_sample
from polyad.scene.write.tables import points_content, write_points

NOTE = "note"
CANNOT_TELL = "cannot tell"  # how the note of such a point begins
MAX_NOTE = 500
_PAUSE = 0.5  # seconds between two writings of the file
_WRITTEN = (".gpkg", ".geojson", ".csv")

Publish = Callable[[str, Json], None]


class Answer(NamedTuple):
    """The answer to a point: a class, or that nobody can tell it, or nothing yet."""

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
    earlier : SampleFile, optional
        ``out`` as an earlier run left it.
    journal : Path, optional
        By default beside ``out``.
    publish : callable
        Called with ``("answer", about)`` and ``("problem", about)``.

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
        publish: Publish = lambda *_: None,
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
        self._publish = publish
        self._changed, self._closing = threading.Event(), threading.Event()
        self._writer: threading.Thread | None = None
        path = journal or out.with_name(out.name + ".checks.jsonl")
        created = not path.exists()
        # Somebody may have edited the file after the last answer
        edited = (
            not created and taken is not None and out.stat().st_mtime_ns > path.stat().st_mtime_ns
        )
        points_content(out, grid, sample.pixels, self.fields())  # refused before anything is made
        digest = hashlib.sha256(sample.pixels.astype("<i8").tobytes()).hexdigest()[:32]
        self.journal = Journal(path, {"shape": list(grid.shape), "scene": mark, "sample": digest})
        try:
            begun = bool(self.journal.commands)
            self.journal.replay(
                self._apply,
                "an answer that cannot be taken",
                "start with the map and the classes of before",
            )
            if taken is not None and (edited or not begun):
                self._take([answer for answer, _ in taken])
            self.write()  # what cannot be written is told before anybody has looked
        except BaseException:
            self.journal.close()
            if created:
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

    def do(self, command: Mapping[str, Any]) -> Json:
        """Take an answer: ``point`` from 0, ``class`` (0 for none), ``unsure`` and ``note``."""
        with self._lock:
            point, answer = self._checked(command)
            if answer != self.answers[point]:
                self.journal.append({"do": "answer", "answers": [self._entry(point, answer)]})
                self._put([(point, answer)])
            return self._describe([point])

    def state(self) -> Json:
        """Return the answers as JSON types."""
        with self._lock:
            given = [k for k, answer in enumerate(self.answers) if answer != Answer()]
            return self._describe(given)

    def _put(self, changes: Iterable[tuple[int, Answer]]) -> None:
        points = []
        for point, answer in changes:
            self.answers[point] = answer
            points.append(point)
        self.revision += 1
        self._changed.set()
        self._publish("answer", self._describe(points))

    def _describe(self, points: Iterable[int]) -> Json:
        return {"revision": self.revision, "answers": [[k, *self.answers[k]] for k in points]}

    def _checked(self, command: Mapping[str, Any]) -> tuple[int, Answer]:
        point, value = command.get("point"), command.get("class", 0)
        unsure = command.get("unsure", False)
        if type(point) is not int or not 0 <= point < len(self.answers):
            raise InputError(
                f"there is no point {repr(point)[:40]}; expected 0 to {len(self.answers) - 1}"
            )
        note = command.get("note", self.answers[point].note)
        if type(value) is not int or (value != 0 and value not in self._by_id):
            raise InputError(f"there is no class {repr(value)[:40]}; {known_classes(self.classes)}")
        if type(unsure) is not bool or not isinstance(note, str):
            raise InputError("unsure must be true or false, and a note must be text")
        if value and unsure:
            raise InputError("a point has a class or cannot be told, expected one of the two")
        return point, Answer(value, unsure, _clean(note))

    # -- the journal ----------------------------------------------------------------------------

    def _entry(self, point: int, answer: Answer) -> list[Any]:
        name = self._by_id[answer.value].name if answer.value else ""
        return [point, answer.value, name, answer.unsure, answer.note]

    def _apply(self, entry: Json) -> None:
        for point, value, name, unsure, note in entry["answers"]:
            known = self._known(value, name)
            command = {"point": point, "class": known, "unsure": unsure, "note": note}
            k, answer = self._checked(command)
            self.answers[k] = answer

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

    def start(self) -> None:
        """Write the file soon after each answer."""
        self._writer = threading.Thread(
            target=self._keep_writing, name="polyad-checked", daemon=True
        )
        self._writer.start()

    def _keep_writing(self) -> None:
        last = ""
        while not self._closing.is_set():
            if self._changed.wait(_PAUSE):
                problem = ""
                try:
                    self.write()
                except (PolyadError, OSError) as error:
                    problem = f"{error}; the answers are safe in {self.journal.path.name}"
                    if problem != last:
                        self._publish("problem", {"message": problem})
                last = problem
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
    answers = answers_of(earlier, field, classes)
    return [answers[order[pixel]] for pixel in ours]


def _shown(note: str) -> str:
    """Return as much of a file's note as `_clean` takes."""
    visible = "".join(c if c.isprintable() else " " for c in note)
    return " ".join(visible.split())[:MAX_NOTE].strip()


def _clean(note: str) -> str:
    text = " ".join(note.split())
    if len(text) > MAX_NOTE or not (text.isprintable() or not text):
        raise InputError(f"a note has at most {MAX_NOTE} visible characters")
    return text


# -- the page --------------------------------------------------------------------------------------


class CheckWorkspace(ScenePage):
    """A scene on which the points of a sample are checked. Nothing is trained.

    Parameters
    ----------
    scene : path, known name, or DataArray with dims (y, x, band)
    sample : path
        The points.
    class_map : path or DataArray, optional
        The map that is checked; its classes are offered.
    classes : sequence of str
        Names of the classes, in place of those of a map.
    blind : bool, default=True
        Keep the map and its class of each point from the page.
    out : path, optional
        Where the checked points go; by default beside the sample.
    field, layer : str, optional
        Field of the true class and layer of the sample's file.
    journal : path, optional
        By default beside ``out``.
    """

    page = "check.html"

    def __init__(
        self,
        scene: RasterSource,
        sample: str | PathLike[str],
        class_map: RasterSource | None = None,
        *,
        classes: Sequence[str] = (),
        blind: bool = True,
        out: str | PathLike[str] | None = None,
        field: str | None = None,
        layer: str | None = None,
        journal: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(scene)
        self.blind = blind
        grid, name = grid_of(self.scene), field or REFERENCE
        _check_field(name)
        points = open_sample(sample, grid, field=name, layer=layer)
        path = _output(points.path, out)
        check_output(path, "sample")
        files = [os.fspath(s) for s in (scene, class_map) if isinstance(s, str | PathLike)]
        check_apart(path, files, "sample")
        if journal is not None:
            check_names_differ([("sample", path), ("journal", journal)])
        if layer is not None and path.resolve() == points.path.resolve():
            raise InputError(
                f"{path} has several layers, and the others would be lost; name another file with "
                "--out"
            )
        raster = None
        if class_map is not None:
            is_path = isinstance(class_map, str | PathLike)
            raster = open_labels(class_map, self.scene) if is_path else as_labels(class_map)
            check_origin(str(points.path), points.texts(DRAWN_FROM), raster)
        self.classes = _classes(points, raster, classes)
        # Of a blind check, nothing that tells the map's class is kept at all
        self.map_ids = None if raster is None or blind else _positions(raster, self.classes)
        self.mapped = None if blind else _mapped(points, raster, self.classes)
        self._lock = _hold(path)
        try:
            self.checklist = Checklist(
                points,
                self.classes,
                grid,
                Scene.of(self.scene).fingerprint,
                path,
                name,
                earlier=_earlier(points, path, grid, name),
                journal=None if journal is None else Path(journal),
                publish=self.events.publish,
            )
        except BaseException:
            self._lock.remove()
            raise

    def start(self) -> None:
        """Write the file of the checked points whenever it changes."""
        self.checklist.start()

    def close(self) -> None:
        """End the event streams, write the file a last time, release the journal."""
        self.events.close()
        try:
            self.checklist.close()
        finally:
            self._lock.remove()

    def state(self) -> Json:
        """Return everything that the page needs to start."""
        checklist = self.checklist
        return {
            "scene": describe_scene(self.scene, self.name),
            "sample": checklist.sample.path.name,
            "out": checklist.out.name,
            "journal": checklist.journal.path.name,
            "blind": self.blind,
            "map": self.map_ids is not None,
            "classes": [info._asdict() for info in self.classes],
            "points": checklist.sample.pixels.tolist(),
            "mapped": self.mapped,
            **checklist.state(),
        }

    def do(self, body: Mapping[str, Any]) -> Json:
        """Take an answer, see `Checklist.do`."""
        if body.get("do") != "answer":
            raise InputError(f"no such command: {str(body.get('do'))[:40]!r}; expected 'answer'")
        return self.checklist.do(body)

    def class_map(self) -> ClassMap | None:
        """Return the map as positions of its classes from 1, and these; None if it is hidden."""
        if self.map_ids is None:
            return None
        return self.map_ids, [c._replace(value=k) for k, c in enumerate(self.classes, start=1)]


def _output(sample: Path, out: str | PathLike[str] | None) -> Path:
    if out is not None:
        return Path(out)
    ending = sample.suffix.lower()
    return sample.with_name(f"{sample.stem}-checked{ending if ending in _WRITTEN else '.gpkg'}")


def _check_field(name: str) -> None:
    if name.strip().casefold() in {*PLACE_NAMES, NOTE}:
        raise InputError(
            f"the field {name[:80]!r} says where a point is, or holds its note; name another with "
            f"--field, such as {REFERENCE!r}, for the class that is there"
        )


def _hold(out: Path) -> LockFile:
    """Keep others from the file of the checked points, by whatever name they know it."""
    real = out.resolve()
    try:
        return LockFile(real.with_name(f".{real.name}.lock"), wait=False)
    except InUse as error:
        raise OutputError(
            f"cannot write {out}: it is in use, another polyad checks points into it; open its "
            "page in a second tab, stop it, or name another file with --out"
        ) from error
    except OSError as error:
        raise OutputError(
            f"cannot write {out}: its lock {error.filename or real} cannot be made ({why(error)}); "
            "name a file in another folder with --out"
        ) from error


def _earlier(points: SampleFile, path: Path, grid: Any, field: str) -> SampleFile | None:
    """Return the output of an earlier run, None if there is none or it is the sample itself."""
    if not path.exists() or path.resolve() == points.path.resolve():
        return None
    try:
        return open_sample(path, grid, field=field)
    except SceneError as error:
        raise SceneError(
            f"{path} is there and cannot be resumed ({str(error)[:300]}); name another file with "
            "--out, or move it away"
        ) from error


def _classes(
    points: SampleFile, raster: xr.DataArray | None, names: Sequence[str]
) -> tuple[ClassInfo, ...]:
    """Return the classes to choose from: those of the map, those named, or those of the file."""
    if raster is not None:
        if names:
            raise InputError("the map names the classes; leave out --classes, or --map")
        classes = class_table(raster)
    elif names:
        cleaned = [" ".join(name.split()) for name in names if name.strip()]
        classes = tuple(
            ClassInfo(k, name, class_color(k))
            for k, name in enumerate(dict.fromkeys(cleaned), start=1)
        )
    else:
        classes = _mapped_classes(points)
    if not classes:
        raise InputError(
            f"{points.path} does not say which classes there are; name the map with --map, or the "
            "classes with --classes 'Corn, Soil, Water'"
        )
    if len(classes) > MAX_CLASSES:
        raise InputError(
            f"expected at most {MAX_CLASSES} classes to choose from, got {len(classes)}"
        )
    return classes


def _mapped_classes(points: SampleFile) -> tuple[ClassInfo, ...]:
    """Return the classes that the fields ``map_class`` and ``map_name`` of a sample tell of."""
    remedy = "correct it, or name the classes with --map or --classes"
    names: dict[int, str] = {}
    texts = points.texts("map_class"), points.texts("map_name")
    for place, value, name in zip(points.where, *texts, strict=True):
        if not value.isdecimal():
            continue
        # A table can hold thousands of digits
        number = int(value[-5:]) if len(value.lstrip("0")) <= 5 else 2**16
        if number >= 2**16:
            raise SceneError(
                f"{points.path}, {place}: expected a map_class up to 65535, got {value[:40]}; "
                f"{remedy}"
            )
        before = names.get(number, "")
        if name and before and name != before:
            raise SceneError(
                f"{points.path}, {place}: map_class {number} is called {name[:80]!r} here and "
                f"{before[:80]!r} before, expected one name; {remedy}"
            )
        names[number] = before or name
    return tuple(
        ClassInfo(k, name or f"class {k}", class_color(k)) for k, name in sorted(names.items()) if k
    )


def _positions(raster: xr.DataArray, classes: Sequence[ClassInfo]) -> npt.NDArray[np.uint8]:
    """Return the map as positions of its classes from 1, 0 where there is none."""
    values = raster.to_numpy()
    lookup = np.zeros(max(int(values.max(initial=0)), *(c.value for c in classes)) + 1, np.uint8)
    lookup[[c.value for c in classes]] = range(1, len(classes) + 1)
    return lookup[values]


def _mapped(
    points: SampleFile, raster: xr.DataArray | None, classes: Sequence[ClassInfo]
) -> list[int] | None:
    """Return the class of the map at each point, 0 where it is not known."""
    if raster is not None:
        rows, cols = points.pixels.T
        values: list[int] = raster.to_numpy()[rows, cols].tolist()
        return values
    named = [find_classes(classes, text) for text in points.texts("map_class")]
    found = [one[0].value if len(one) == 1 else 0 for one in named]
    return found if any(found) else None
