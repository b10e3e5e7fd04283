"""What belongs to a sample being checked: scene, points, answers, and the map unless blind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.checklist import NOTE, Checklist
from polyad.app.events import EventBus
from polyad.app.label_state import MAX_CLASSES
from polyad.app.tile_images import SceneTiles
from polyad.app.workspace import RasterSource, describe_scene, name_of, pixel_spectrum
from polyad.durable import InUse, LockFile, why
from polyad.errors import InputError, OutputError, SceneError
from polyad.scene.files.paths import DRAWN_FROM, check_apart, check_names_differ, check_output
from polyad.scene.learn.model import fingerprint
from polyad.scene.raster.classes import ClassInfo, class_color, class_table
from polyad.scene.raster.grid import grid_of
from polyad.scene.raster.labels import find_classes
from polyad.scene.raster.scene import as_labels
from polyad.scene.raster.selection import usable_bands
from polyad.scene.read.features import PLACE_NAMES
from polyad.scene.read.labels import open_labels
from polyad.scene.read.samples import REFERENCE, SampleFile, check_origin, open_sample
from polyad.scene.read.scenes import open_scene

_WRITTEN = (".gpkg", ".geojson", ".csv")


class CheckWorkspace:
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
        source = str(scene) if isinstance(scene, str | PathLike) else None
        opened = open_scene(scene) if isinstance(scene, str | PathLike) else scene
        self.scene = usable_bands(opened)
        self.name = name_of(self.scene, source)
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
        raster = None if class_map is None else _as_map(class_map, self.scene)
        if raster is not None:
            check_origin(str(points.path), points.texts(DRAWN_FROM), raster)
        self.classes = _classes(points, raster, classes)
        # Of a blind check, nothing that tells the map's class is kept at all
        self.map_ids = None if raster is None or blind else _positions(raster, self.classes)
        self.mapped = None if blind else _mapped(points, raster, self.classes)
        self.scene_tiles = SceneTiles(self.scene)
        self.events = EventBus()
        self._lock = _hold(path)
        try:
            self.checklist = Checklist(
                points,
                self.classes,
                grid,
                fingerprint(self.scene),
                path,
                name,
                earlier=_earlier(points, path, grid, name),
                journal=None if journal is None else Path(journal),
            )
        except BaseException:
            self._lock.remove()
            raise
        self.checklist.listen(lambda about: self.events.publish("answer", about))

    def start(self) -> None:
        """Write the file of the checked points whenever it changes."""
        self.checklist.start(lambda about: self.events.publish("problem", about))

    def close(self) -> None:
        """End the event streams, write the file a last time, release the journal."""
        self.events.close()
        try:
            self.checklist.close()
        finally:
            self._lock.remove()

    def state(self) -> dict[str, Any]:
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

    def spectrum(self, row: int, col: int) -> dict[str, Any]:
        """Return the spectrum of one pixel, with None where a band has no value."""
        return pixel_spectrum(self.scene, row, col)

    def map_colors(self) -> list[ClassInfo]:
        """Return the classes numbered as in ``map_ids``."""
        return [info._replace(value=k) for k, info in enumerate(self.classes, start=1)]


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


def _as_map(source: RasterSource, scene: xr.DataArray) -> xr.DataArray:
    if isinstance(source, str | PathLike):
        return open_labels(source, scene)
    return as_labels(source)


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
        raise InputError(f"wanted at most {MAX_CLASSES} classes to choose from, got {len(classes)}")
    return classes


def _mapped_classes(points: SampleFile) -> tuple[ClassInfo, ...]:
    """Return the classes that the fields ``map_class`` and ``map_name`` of a sample tell of."""
    remedy = "correct it, or name the classes with --map or --classes"
    names: dict[int, str] = {}
    told = zip(points.where, points.texts("map_class"), points.texts("map_name"), strict=True)
    for place, value, name in told:
        if not value.isdecimal():
            continue
        # A table can hold thousands of digits
        number = int(value[-5:]) if len(value.lstrip("0")) <= 5 else 2**16
        if number >= 2**16:
            raise SceneError(
                f"{points.path}, {place}: wanted a map_class up to 65535, got {value[:40]}; "
                f"{remedy}"
            )
        before = names.get(number, "")
        if name and before and name != before:
            raise SceneError(
                f"{points.path}, {place}: map_class {number} is called {name[:80]!r} here and "
                f"{before[:80]!r} before, wanted one name; {remedy}"
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
    said = [find_classes(classes, text) for text in points.texts("map_class")]
    found = [one[0].value if len(one) == 1 else 0 for one in said]
    return found if any(found) else None
