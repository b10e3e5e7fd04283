"""Checking a sample: its points, the answers with their journal, and the file they go into.

Every answer is a line of the journal, on the disk, before it is confirmed. The file with the filled
in field is written from it, whole, a moment later and at the end.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.journal import Journal, Json
from polyad.app.labels import MAX_CLASSES, Command
from polyad.app.workspace import ClassMap, RasterSource, ScenePage, describe_scene
from polyad.durable import InUse, LockFile, why
from polyad.errors import InputError, OutputError, PolyadError, SceneError, SceneMismatch
from polyad.scene.files.paths import DRAWN_FROM, check_apart, check_names_differ, check_output
from polyad.scene.raster.classes import ClassInfo, class_color, class_key, class_table, has_own_name
from polyad.scene.raster.grid import grid_of
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


class Answer(NamedTuple):
    """The answer to a point: a class, or that nobody can tell it, or nothing yet."""

    value: int = 0
    unsure: bool = False
    note: str = ""

    @property
    def given(self) -> bool:
        """Whether the point has been dealt with."""
        return self.value != 0 or self.unsure


class CheckWorkspace(ScenePage):
    """A scene, the points of a sample of its map, and the answers to them; nothing is trained.

    Safe to use from several threads.

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
        Where the checked points go; by default beside the sample. One that is there is resumed.
    field, layer : str, optional
        Field of the true class and layer of the sample's file.
    journal : path, optional
        By default beside ``out``.

    Attributes
    ----------
    answers : list of Answer
        One for each point.
    revision : int
        Counts the changes.
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
        nodata: float | None = None,
    ) -> None:
        super().__init__(scene, nodata=nodata)
        self.blind = blind
        self.grid, name = grid_of(self.scene), field or REFERENCE
        if name.strip().casefold() in {*PLACE_NAMES, NOTE}:
            raise InputError(
                f"the field {name[:80]!r} says where a point is, or holds its note; name another "
                f"with --field, such as {REFERENCE!r}, for the class that is there"
            )
        self.sample = open_sample(sample, self.grid, field=name, layer=layer)
        self.field = self.sample.named(name)
        path, ending = self.sample.path, self.sample.path.suffix.lower()
        beside = f"{path.stem}-checked{ending if ending in _WRITTEN else '.gpkg'}"
        self.out = path.with_name(beside) if out is None else Path(out)
        check_output(self.out, "sample")
        files = [os.fspath(s) for s in (scene, class_map) if isinstance(s, str | PathLike)]
        check_apart(self.out, files, "sample")
        if journal is not None:
            check_names_differ([("sample", self.out), ("journal", journal)])
        if layer is not None and self.out.resolve() == self.sample.path.resolve():
            raise InputError(
                f"{self.out} has several layers, and the others would be lost; name another file "
                "with --out"
            )
        raster = None
        if class_map is not None:
            is_path = isinstance(class_map, str | PathLike)
            raster = open_labels(class_map, self.scene) if is_path else as_labels(class_map)
            check_origin(str(self.sample.path), self.sample.texts(DRAWN_FROM), raster)
        self.classes = _classes(self.sample, raster, classes)
        self._by_id = {info.value: info for info in self.classes}
        self._texts = {info.value: written(info, self.classes) for info in self.classes}
        # Of a blind check, nothing that tells the map's class is kept at all
        self.map_ids = None if raster is None or blind else _positions(raster, self.classes)
        self.mapped = None if blind else _mapped(self.sample, raster, self.classes)
        self.revision = 0
        self._answering, self._writing = threading.RLock(), threading.Lock()
        self._changed, self._closing = threading.Event(), threading.Event()
        self._writer: threading.Thread | None = None
        self._lock = _hold(self.out)
        try:
            default = self.out.with_name(self.out.name + ".checks.jsonl")
            self._resume(name, default if journal is None else Path(journal))
        except BaseException:
            self._lock.remove()
            raise

    def _resume(self, field: str, path: Path) -> None:
        """Take the answers of the sample, of the journal, and of the output of an earlier run."""
        self.answers = answers_of(self.sample, field, self.classes)
        self._open_notes = {k: a.note for k, a in enumerate(self.answers) if not a.given}
        earlier = self._earlier(field)
        begun = path.exists()
        # Somebody may have edited the file after the last answer
        edited = begun and earlier and self.out.stat().st_mtime_ns > path.stat().st_mtime_ns
        pixels = self.sample.pixels
        points_content(
            self.out, self.grid, pixels, self.fields()
        )  # refused before a journal is made
        digest = hashlib.sha256(pixels.astype("<i8").tobytes()).hexdigest()[:32]
        about = {"shape": list(self.grid.shape), "scene": Scene.of(self.scene).fingerprint}
        self.journal = Journal(path, about | {"sample": digest})
        try:
            fresh = not self.journal.commands
            self.journal.replay(
                self._apply,
                "an answer that cannot be taken",
                "start with the map and the classes of before",
            )
            if edited or fresh:
                self._take(earlier)
            self.write()  # what cannot be written is told before anybody has looked
        except BaseException:
            self.journal.close()
            if not begun:
                path.unlink(missing_ok=True)
            raise

    # -- answers --------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """How many points have an answer."""
        return sum(answer.given for answer in self.answers)

    @property
    def unsure(self) -> int:
        """How many points nobody can tell the class of."""
        return sum(answer.unsure for answer in self.answers)

    def do(self, command: Command) -> Json:
        """Take an answer: ``point`` from 0, ``class`` (0 for none), ``unsure`` and ``note``."""
        if command.get("do", "answer") != "answer":
            raise InputError(f"no such command: {str(command.get('do'))[:40]!r}; expected 'answer'")
        with self._answering:
            point, answer = self._checked(command)
            before = self.answers[point]
            same = answer.note.split() == before.note.split()  # a file's note may be of any length
            answer = answer._replace(note=before.note if same else _clean(answer.note))
            if answer != before:
                self.journal.append({"do": "answer", "answers": [self._entry(point, answer)]})
                self._put({point: answer})
            return self._describe([point])

    def state(self) -> Json:
        """Return everything that the page needs to start."""
        with self._answering:
            answers = self._describe([k for k, a in enumerate(self.answers) if a != Answer()])
        return {
            "scene": describe_scene(self.scene, self.name),
            "sample": self.sample.path.name,
            "out": self.out.name,
            "journal": self.journal.path.name,
            "blind": self.blind,
            "map": self.map_ids is not None,
            "classes": [info._asdict() for info in self.classes],
            "points": self.sample.pixels.tolist(),
            "mapped": self.mapped,
            **answers,
        }

    def class_map(self) -> ClassMap | None:
        """Return the map as positions of its classes from 1, and these; None if it is hidden."""
        if self.map_ids is None:
            return None
        return self.map_ids, [c._replace(value=k) for k, c in enumerate(self.classes, start=1)]

    def _put(self, changes: Mapping[int, Answer]) -> None:
        for point, answer in changes.items():
            self.answers[point] = answer
        self.revision += 1
        self._changed.set()
        self.events.publish("answer", self._describe(changes))

    def _describe(self, points: Iterable[int]) -> Json:
        return {"revision": self.revision, "answers": [[k, *self.answers[k]] for k in points]}

    def _checked(self, command: Command) -> tuple[int, Answer]:
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
            raise InputError("a point has a class or is unsure, expected one of the two")
        return point, Answer(value, unsure, note)

    # -- the journal ----------------------------------------------------------------------------

    def _entry(self, point: int, answer: Answer) -> list[Any]:
        name = self._by_id[answer.value].name if answer.value else ""
        return [point, answer.value, name, answer.unsure, answer.note]

    def _apply(self, entry: Json) -> None:
        for point, value, name, unsure, note in entry["answers"]:
            known, info = value, self._by_id.get(value)
            if value and (info is None or info.name != name):  # of today's, the one of that name
                alike = [c.value for c in self.classes if c.name == name]
                if len(alike) != 1:
                    raise InputError(f"no class is called {str(name)[:80]!r}")
                known = alike[0]
            command = {"point": point, "class": known, "unsure": unsure, "note": note}
            k, answer = self._checked(command)
            self.answers[k] = answer

    # -- the file -------------------------------------------------------------------------------

    def _earlier(self, field: str) -> list[Answer]:
        """Return the answers in the output of an earlier run; none if there is no such run."""
        if not self.out.exists() or self.out.resolve() == self.sample.path.resolve():
            return []
        try:
            earlier = open_sample(self.out, self.grid, field=field)
        except SceneError as error:
            raise SceneError(
                f"{self.out} is there and cannot be resumed ({str(error)[:300]}); name another "
                "file with --out, or move it away"
            ) from error
        answers = answers_of(earlier, field, self.classes)
        by_pixel = dict(zip(map(tuple, earlier.pixels.tolist()), answers, strict=True))
        pixels = [tuple(pixel) for pixel in self.sample.pixels.tolist()]
        if set(by_pixel) != set(pixels):
            raise SceneMismatch(
                f"{self.out}: holds {len(by_pixel):,} points, and not those of {self.sample.path}, "
                "so it is not resumed; name another file with --out, or move it away"
            )
        return [by_pixel[pixel] for pixel in pixels]

    def _take(self, answers: Sequence[Answer]) -> None:
        """Take over answers that somebody wrote into the file; what it leaves open stays."""
        fresh = {
            k: new
            for k, (new, old) in enumerate(zip(answers, self.answers, strict=False))
            if new != old and (new.given or (new.note and not old.given))
        }
        if fresh:
            entries = [self._entry(k, answer) for k, answer in fresh.items()]
            self.journal.append({"do": "answer", "answers": entries})
            self._put(fresh)

    def fields(self) -> dict[str, list[Any]]:
        """Return the fields of the sample with the answers filled in."""
        with self._answering:
            answers = list(self.answers)
        notes = [self._note(k, answer) or None for k, answer in enumerate(answers)]
        seen = [self._texts[a.value] if a.value else None for a in answers]
        return {**self.sample.fields, self.field: seen, self.sample.named(NOTE): notes}

    def _note(self, k: int, answer: Answer) -> str:
        """Return what the file says beside the class of a point."""
        if answer.unsure:
            return f"{CANNOT_TELL}: {answer.note}" if answer.note else CANNOT_TELL
        return answer.note if answer.note or answer.given else self._open_notes.get(k, "")

    def write(self) -> None:
        """Write the file of the checked points, whole."""
        with self._writing:
            self._changed.clear()
            try:
                write_points(self.out, self.grid, self.sample.pixels, self.fields())
            except BaseException:
                self._changed.set()
                raise

    def start(self) -> None:
        """Write the file soon after each answer."""
        self._writer = threading.Thread(target=self._keep_writing, daemon=True)
        self._writer.start()

    def _keep_writing(self) -> None:
        problem = ""
        while not self._closing.wait(_PAUSE):
            if self._changed.is_set():
                before, problem = problem, ""
                try:
                    self.write()
                except (PolyadError, OSError) as error:
                    problem = f"{error}; the answers are safe in {self.journal.path.name}"
                if problem not in ("", before):
                    self.events.publish("problem", {"message": problem})

    def close(self) -> None:
        """End the event streams, write the file a last time, release the journal."""
        self.events.close()
        self._closing.set()
        if self._writer is not None:
            self._writer.join(timeout=15)
        try:
            if self._changed.is_set():
                self.write()
        finally:
            self.journal.close()
            self._lock.remove()


def answers_of(sample: SampleFile, field: str, classes: Sequence[ClassInfo]) -> list[Answer]:
    """Return the answers that a file holds already.

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
        answers.append(Answer(found[0].value if found else 0, unsure, note))
    return answers


def written(info: ClassInfo, classes: Sequence[ClassInfo]) -> str:
    """Return how a class is written so that it is found again: by its name, or else by its id."""
    ways = [info.name, str(info.value)] if has_own_name(info) else [str(info.value)]
    for text in ways:
        if find_classes(classes, text) == [info]:
            return text
    raise InputError(f"class {class_key(info)} has the name or id of another; rename it")


def _clean(note: str) -> str:
    text = " ".join(note.split())
    if len(text) > MAX_NOTE or not (text.isprintable() or not text):
        raise InputError(f"a note has at most {MAX_NOTE} visible characters")
    return text


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
    names: dict[int, str] = {}
    texts = points.texts("map_class"), points.texts("map_name")
    for place, value, name in zip(points.where, *texts, strict=True):
        if not value.isdecimal():
            continue
        # A table can hold thousands of digits
        number = int(value[-5:]) if len(value.lstrip("0")) <= 5 else 2**16
        before = names.get(number, "")
        if number >= 2**16 or (name and before and name != before):
            wrong = f"a map_class up to 65535, got {value[:40]}"
            if number < 2**16:
                wrong = f"one name of map_class {number}, got {before[:80]!r} and {name[:80]!r}"
            raise SceneError(
                f"{points.path}, {place}: expected {wrong}; correct it, or name the classes with "
                "--map or --classes"
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
