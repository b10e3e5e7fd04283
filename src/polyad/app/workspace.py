"""A scene on a page: its tiles and events, and the labels, models and maps of the labeling page."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from rasterio.crs import CRS

from polyad.app.journal import Json
from polyad.app.labels import Session, file_digest
from polyad.app.maps import check_pixel
from polyad.app.tiles import RAMP, TILE, SceneTiles, levels
from polyad.app.trainer import Trainer, plain_floats
from polyad.app.uploads import BESIDE, UPLOADS
from polyad.errors import InputError, PolyadWarning
from polyad.scene.draw.color import color_bands
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.learn.experts import TrainSettings
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.grid import grid_of
from polyad.scene.raster.scene import INSIDE, as_labels
from polyad.scene.raster.selection import usable_bands
from polyad.scene.read.labels import is_vector, open_labels
from polyad.scene.read.masks import restrict_scene
from polyad.scene.read.scenes import open_scene

RasterSource = str | PathLike[str] | xr.DataArray
ClassMap = tuple[npt.NDArray[np.uint8], Sequence[ClassInfo]]

QUEUE = 256  # messages a page may lag behind before it must fetch the state anew
HEARTBEAT = 15.0  # seconds; shows whether a page is gone


_COMMANDS = ("label", "add", "change", "delete", "undo", "redo")
_KEYS = ("do", "class", "pixels", "name", "color", "stroke")


class ScenePage:
    """A scene on a page, labeled or checked.

    Parameters
    ----------
    scene : path, known name, or DataArray with dims (y, x, band)
    mask, bbox
        Where the scene is learned from and mapped; see `polyad.scene.restrict_scene`.
    nodata : float, optional
        Value that stands for "no measurement", in place of the one that the file declares.
    """

    page = "index.html"

    def __init__(
        self,
        scene: RasterSource,
        mask: RasterSource | None = None,
        bbox: Sequence[float] | None = None,
        nodata: float | None = None,
    ) -> None:
        self.source = str(scene) if isinstance(scene, str | PathLike) else None
        opened = scene
        if isinstance(opened, str | PathLike):
            opened = open_scene(opened, nodata=nodata)
        self.scene = usable_bands(restrict_scene(opened, mask=mask, bbox=bbox))
        if self.source is None:
            self.name = str(self.scene.attrs.get("title") or self.scene.name or "scene")
        else:
            row = KNOWN_SCENES.get(self.source)
            self.name = Path(self.source).name if row is None else row.title
        self.scene_tiles = SceneTiles(self.scene)
        self.events = EventBus()

    def spectrum(self, row: int, col: int) -> Json:
        """Return the spectrum of one pixel, with None where a band has no value."""
        check_pixel(row, col, self.scene.shape)
        stored = np.asarray(self.scene.isel(y=row, x=col).values)
        values, nodata = stored.astype(float), self.scene.rio.nodata
        if nodata is not None:
            values = np.where(values == nodata, np.nan, values)
        inside = INSIDE not in self.scene.coords or bool(self.scene[INSIDE].values[row, col])
        has_data = inside and bool(valid_pixels(stored, nodata))
        return {"row": row, "col": col, "values": plain_floats(values), "data": has_data}


class LabelWorkspace(ScenePage):
    """A scene with its labels, models and maps.

    Parameters
    ----------
    scene : path, known name, or DataArray with dims (y, x, band)
    labels : path, known name or DataArray, optional
        Labels to start with; loaded once.
    truth : path, known name or DataArray, optional
        Labels to score against. Its classes are offered if there are none yet.
    journal : path, optional
        Where labels are kept; by default beside the scene or in the user's data folder.
    settings : TrainSettings, optional
    layer, field, all_touched
        How labels and truth are read from vector files; see `polyad.open_labels`.
    mask, bbox, nodata
        See `ScenePage`.
    threads : int, optional
        See `Trainer`.
    """

    def __init__(
        self,
        scene: RasterSource,
        labels: RasterSource | None = None,
        truth: RasterSource | None = None,
        *,
        journal: str | PathLike[str] | None = None,
        settings: TrainSettings | None = None,
        layer: str | None = None,
        field: str | None = None,
        all_touched: bool = False,
        mask: RasterSource | None = None,
        bbox: Sequence[float] | None = None,
        nodata: float | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(scene, mask, bbox, nodata)

        reading: Json = {"layer": layer, "field": field, "all_touched": all_touched}

        def read(source: RasterSource) -> xr.DataArray:
            if not isinstance(source, str | PathLike):
                return as_labels(source)
            return open_labels(source, self.scene, **(reading if is_vector(source) else {}))

        # Read whatever may be refused before a journal is made.
        initial = None if labels is None else read(labels)
        self.truth = None if truth is None else read(truth)
        self.session = Session(self.scene, self.source, None if journal is None else Path(journal))
        if initial is not None:
            digest = file_digest(str(labels)) if isinstance(labels, str | PathLike) else ""
            skipped = self.session.load(initial, digest)["skipped"]
            if skipped:
                warnings.warn(
                    f"{skipped:,} labels lie where the scene has no data and were left out",
                    PolyadWarning,
                    stacklevel=2,
                )
        if self.truth is not None and not self.session.label_state.classes:
            offered = [list(c) for c in class_table(self.truth)]
            self.session.do({"do": "load", "classes": offered, "labels": [], "given": True})
        self.trainer = Trainer(
            self.scene, self.session, self.events.publish, self.truth, settings, threads
        )
        self.session.listen(lambda _, answer: self.events.publish("change", answer))

    def start(self) -> None:
        """Start the trainer."""
        self.trainer.start()

    def close(self) -> None:
        """Stop the trainer, end the event streams, release the journal."""
        self.events.close()
        self.trainer.stop()
        if self.trainer.is_alive():
            self.trainer.join(timeout=10)
        self.session.close()

    def state(self) -> Json:
        """Return everything a page needs to start."""
        scene = describe_scene(self.scene, self.name) | {
            "truth": self.truth is not None,
            "large": self.trainer.large,
            "uncertainty_ramp": [[at, list(color)] for at, color in RAMP],
            "journal": self.session.journal.path.name,
            "uploads": [UPLOADS, BESIDE],
        }
        return {
            "scene": scene,
            **self.session.state(),
            "map": self.trainer.newest_map.describe(),
            "learned": self.trainer.learned,
            "failed": self.trainer.failed,
        }

    def do(self, body: Mapping[str, Any]) -> Json:
        """Carry out a command with the keys a command has, and no others."""
        if body.get("do") not in _COMMANDS:
            raise InputError(f"no such command: {str(body.get('do'))[:40]!r}")
        for key in ("name", "color", "stroke"):
            if not isinstance(body.get(key, ""), str | None):
                raise InputError(f"{key} must be text")
        return self.session.do({key: body[key] for key in _KEYS if key in body})

    def class_map(self) -> ClassMap:
        """Return the newest map, ``(y, x)``, and the classes."""
        return self.trainer.newest_map.ids, self.session.snapshot().classes


def describe_scene(scene: xr.DataArray, name: str) -> Json:
    """Return what every page must know of a scene, as JSON types."""
    grid, wavelength = grid_of(scene), None
    crs, unit = describe_crs(grid.crs)
    if "wavelength" in scene.coords:
        wavelength = plain_floats(np.asarray(scene["wavelength"].values, float))
    return {
        "name": name,
        "height": scene.sizes["y"],
        "width": scene.sizes["x"],
        "bands": scene.sizes["band"],
        "wavelength": wavelength,
        "false_color": list(color_bands(scene)),
        "true_color": list(color_bands(scene, true_color=True)),
        "tile": TILE,
        "levels": levels((scene.sizes["y"], scene.sizes["x"])),
        "georeferenced": grid.crs is not None and grid.transform is not None,
        "transform": None if grid.transform is None else list(grid.transform)[:6],
        "crs": crs,
        "unit": unit,
    }


def describe_crs(crs: CRS | None) -> tuple[str, str]:
    """Return name and code of a coordinate reference system, and the unit of its coordinates.

    Examples
    --------
    >>> describe_crs(CRS.from_epsg(32632))
    ('WGS 84 / UTM zone 32N (EPSG:32632)', 'm')
    >>> describe_crs(CRS.from_epsg(4326))
    ('WGS 84 (EPSG:4326)', '°')
    """
    if crs is None:
        return "", ""
    named = re.match(r'\w+\["([^"]+)"', crs.to_wkt())
    name, code = named[1] if named else "", crs.to_epsg()
    if code is not None:
        name = f"{name} (EPSG:{code})"
    if crs.is_geographic:
        return name, "°"
    unit = crs.linear_units if crs.is_projected else ""
    return name, {"metre": "m", "meter": "m"}.get(unit, unit)


class EventBus:
    """Sends each event to every listener, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.listeners: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._closed = False

    def publish(self, kind: str, about: Json) -> None:
        """Send an event to every listener without waiting."""
        text = f"event: {kind}\ndata: {json.dumps(about, separators=(',', ':'))}\n\n"
        with self._lock:
            listeners = list(self.listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._put, queue, text)

    @staticmethod
    def _put(queue: asyncio.Queue[str], text: str) -> None:
        """Queue an event; a page that lags too far behind must fetch the state anew."""
        if queue.full():
            while not queue.empty():
                queue.get_nowait()
            text = "event: lost\ndata: {}\n\n"
        queue.put_nowait(text)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self.publish("bye", {})

    async def stream(self) -> AsyncIterator[str]:
        """Yield events as text until the page is gone."""
        queue: asyncio.Queue[str] = asyncio.Queue(QUEUE)
        with self._lock:
            self.listeners[queue] = asyncio.get_running_loop()
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self._closed:
                try:
                    yield await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            with self._lock:
                del self.listeners[queue]
