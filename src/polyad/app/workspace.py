"""Everything that belongs to a scene being labeled: session, trainer, tiles, events."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rasterio.crs import CRS

from polyad.app.events import EventBus
from polyad.app.fits import Settings
from polyad.app.label_spectra import plain_floats
from polyad.app.session import Session, file_digest
from polyad.app.tile_images import RAMP, TILE, SceneTiles, levels
from polyad.app.trainer import Trainer
from polyad.app.uploads import BESIDE, UPLOADS
from polyad.errors import InputError, PolyadWarning
from polyad.scene.draw.color import color_bands
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.grid import grid_of
from polyad.scene.raster.scene import INSIDE, as_labels
from polyad.scene.raster.selection import usable_bands
from polyad.scene.read.labels import is_vector, open_labels
from polyad.scene.read.masks import restrict_scene
from polyad.scene.read.scenes import open_scene

RasterSource = str | PathLike[str] | xr.DataArray


class Workspace:
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
    settings : Settings, optional
    reading : mapping, optional
        How labels and truth are read: ``layer``, ``field`` and ``all_touched`` of
        `polyad.open_labels`.
    mask, bbox
        Where the scene is learned from and mapped; see `polyad.scene.restrict_scene`.
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
        settings: Settings | None = None,
        reading: Mapping[str, Any] | None = None,
        mask: RasterSource | None = None,
        bbox: Sequence[float] | None = None,
        threads: int | None = None,
    ) -> None:
        source = str(scene) if isinstance(scene, str | PathLike) else None
        opened = open_scene(scene) if isinstance(scene, str | PathLike) else scene
        self.scene = usable_bands(restrict_scene(opened, mask=mask, bbox=bbox))
        self.name = name_of(self.scene, source)
        # Read whatever may be refused before a journal is made.
        initial = None if labels is None else _as_labels(labels, self.scene, reading or {})
        self.truth = None if truth is None else _as_labels(truth, self.scene, reading or {})
        self.session = Session(self.scene, source, None if journal is None else Path(journal))
        if initial is not None:
            skipped = self.session.load(initial, _digest(labels))["skipped"]
            if skipped:
                warnings.warn(
                    f"{skipped:,} labels lie where the scene has no data and were left out",
                    PolyadWarning,
                    stacklevel=2,
                )
        if self.truth is not None and not self.session.label_state.classes:
            offered = [list(c) for c in class_table(self.truth)]
            self.session.do({"do": "load", "classes": offered, "labels": [], "given": True})
        self.scene_tiles = SceneTiles(self.scene)
        self.events = EventBus()
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

    def about(self) -> dict[str, Any]:
        """Return what a page must know of the scene."""
        return {
            **describe_scene(self.scene, self.name),
            "truth": self.truth is not None,
            "large": self.trainer.large,
            "uncertainty_ramp": [[at, list(color)] for at, color in RAMP],
            "journal": self.session.journal.path.name,
            "uploads": [UPLOADS, BESIDE],
        }

    def state(self) -> dict[str, Any]:
        """Return everything a page needs to start."""
        return {
            "scene": self.about(),
            **self.session.state(),
            "map": self.trainer.newest_map.describe(),
            "learned": self.trainer.learned,
            "failed": self.trainer.failed,
        }

    def spectrum(self, row: int, col: int) -> dict[str, Any]:
        """Return the spectrum of one pixel, with None where a band has no value."""
        return pixel_spectrum(self.scene, row, col)


def describe_scene(scene: xr.DataArray, name: str) -> dict[str, Any]:
    """Return what every page must know of a scene, as JSON types."""
    grid = grid_of(scene)
    crs, unit = describe_crs(grid.crs)
    nm = scene["wavelength"].values if "wavelength" in scene.coords else None
    wavelength = None if nm is None else plain_floats(np.asarray(nm, float))
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


def pixel_spectrum(scene: xr.DataArray, row: int, col: int) -> dict[str, Any]:
    """Return the spectrum of one pixel, with None where a band has no value."""
    height, width = scene.shape[:2]
    if not (0 <= row < height and 0 <= col < width):
        raise InputError(f"pixel [{row}, {col}] lies outside the scene")
    stored = np.asarray(scene.isel(y=row, x=col).values)
    values, nodata = stored.astype(float), scene.rio.nodata
    if nodata is not None:
        values = np.where(values == nodata, np.nan, values)
    inside = INSIDE not in scene.coords or bool(scene[INSIDE].values[row, col])
    has_data = inside and bool(valid_pixels(stored, nodata))
    return {"row": row, "col": col, "values": plain_floats(values), "data": has_data}


def _as_labels(
    source: RasterSource, scene: xr.DataArray, reading: Mapping[str, Any]
) -> xr.DataArray:
    if isinstance(source, str | PathLike):
        return open_labels(source, scene, **(reading if is_vector(source) else {}))
    return as_labels(source)


def _digest(source: RasterSource | None) -> str:
    return file_digest(str(source)) if isinstance(source, str | PathLike) else ""


def name_of(scene: xr.DataArray, source: str | None) -> str:
    """Return what a scene is called on its page."""
    if source is None:
        return str(scene.attrs.get("title") or scene.name or "scene")
    row = KNOWN_SCENES.get(source)
    return Path(source).name if row is None else row.title
