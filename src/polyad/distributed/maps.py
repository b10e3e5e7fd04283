"""Maps in files, made by a cluster or by this machine, that can be resumed after any kill."""

from __future__ import annotations

import errno
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr
from tqdm import tqdm

from polyad.distributed.cluster import open_cluster
from polyad.distributed.finished import FinishedTiles, Ledger
from polyad.distributed.outputs import check_outputs, write_output
from polyad.distributed.plans import ScenePlan, find_scenes, outputs_for, plan_scene
from polyad.distributed.scene_tasks import run_on_cluster
from polyad.distributed.stream import explained, stream
from polyad.distributed.worker import TileTask, TileWork, map_tile_here, map_tile_on_worker
from polyad.durable import Entry
from polyad.errors import (
    ClusterError,
    InputError,
    OutputError,
    PolyadWarning,
    SceneError,
)
from polyad.scene.files.paths import check_apart, check_ending, check_kind, make_folder, set_paths
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.mapping import warn_of_empty_map
from polyad.scene.map.refining import Shares, scene_shares
from polyad.scene.read.classes import Colors

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TILES = ".tiles"  # what the folder of finished tiles is called, after the output
SHARES = "shares"  # of a tile's entry in the ledger: the checksum of the scene's

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class MapSummary:
    """What `map_files` wrote.

    Attributes
    ----------
    paths : list of Path
        The maps, in the order of the scenes.
    pixels : int
        Of all maps together.
    seconds : float
        Without the time in which a local cluster starts.
    adapted : list of str or None
        How the model was adapted to the light of each scene, in words.
    replaced : int
        Corrupt pixels of all scenes that were mapped as their neighbors.
    mapped : int
        Pixels that have a class; others have no data or lie outside of a mask.
    """

    paths: list[Path]
    pixels: int
    seconds: float
    adapted: list[str | None]
    replaced: int = 0
    mapped: int = 0


def map_files(
    model: Any,
    scenes: AnyPath | xr.DataArray | Sequence[AnyPath],
    out: AnyPath | None = None,
    *,
    out_dir: AnyPath | None = None,
    ending: str = ".tif",
    cluster: Any = None,
    probabilities: AnyPath | None = None,
    probability_dtype: str = "float32",
    uncertainty: AnyPath | None = None,
    coverage: float | None = None,
    merge: str | Sequence[str] = (),
    colors: Colors | None = None,
    tile: int | None = None,
    max_bytes: int | None = None,
    mask: AnyPath | None = None,
    bbox: Sequence[float] | None = None,
    adapt: bool | None = None,
    progress: bool = False,
    force: bool = True,
    inputs: Sequence[AnyPath] = (),
) -> MapSummary:
    """Map scenes into files, on a Dask cluster or here, so that the work can be resumed.

    Finished tiles are kept in ``<out>.tiles`` beside the output (``polyad.tiles`` in ``out_dir``)
    until that is whole: after a crash of a worker, of the scheduler or of this process, or a full
    disk, the same call resumes from there, and the output has the same bytes as without the crash.

    The model goes to every worker once. A worker opens the scene by its path and reads the windows
    it is given, so the scene must lie where all workers see it.

    Parameters
    ----------
    model : SceneModel or classifier
        See `polyad.map_scene`.
    scenes : path-like, DataArray, or sequence of path-like
        Files (``file:key`` for one array of it), known names, and patterns such as
        ``scenes/*.hdr``; or one scene opened lazily with `polyad.open_scene` and perhaps cut with
        ``isel``. A scene that cannot be read does not stop the others; it is reported at the end.
    out : path-like, optional
        The class map of one scene: ``.tif`` or ``.zarr``, written tile by tile, or ``.hdr``,
        ``.png``, ``.nc``, ``.npy``, made from the whole map.
    out_dir : path-like, optional
        Folder of the maps of many scenes, each named after its scene; made if it is not there.
        If given, ``out`` is not used.
    ending : str, default=".tif"
        Kind of the maps in ``out_dir``.
    cluster : str or path-like or distributed.Client, optional
        See `open_cluster`. Without one, the tiles are mapped here, one after the other.
    probabilities : path-like, optional
        A GeoTIFF with one band for each class; for one scene.
    probability_dtype : {"float32", "uint8"}, default="float32"
    uncertainty : path-like, optional
        See `polyad.map_file`; for one scene.
    coverage, merge, colors
        See `polyad.map_file`.
    tile : int, optional
        Side of a tile in pixels; chosen by memory when not given.
    max_bytes : int, optional
        See `polyad.open_scene`.
    mask, bbox
        Where to map; see `polyad.scene.restrict_scene`. For all scenes.
    adapt : bool, optional
        Whether the model is adapted to each scene's light, see `polyad.scene.adapt_model`.
    progress : bool, default=False
        Show a bar.
    force : bool, default=True
        Replace also what is no map of polyad.
    inputs : sequence of path-like
        Other files, such as the model's, that must not be written over.

    Returns
    -------
    MapSummary

    Raises
    ------
    ClusterError
        The scheduler or all workers are gone, or they cannot do the work.
    OutputError
        The output cannot be written, for example because the disk is full.
    SceneError
        A scene cannot be read; the maps of the others are there.
    """
    sources: list[Any] = [scenes]
    if not isinstance(scenes, xr.DataArray):
        patterns = [scenes] if isinstance(scenes, str | os.PathLike) else scenes
        sources = find_scenes([os.fspath(pattern) for pattern in patterns])
    outs = _outputs(sources, out, out_dir, ending)
    proba = None if probabilities is None else Path(probabilities)
    unsure = None if uncertainty is None else Path(uncertainty)
    for option, given in (("--probabilities", proba), ("--uncertainty", unsure)):
        if out_dir is not None and given is not None:
            raise InputError(f"{option} names one file; map the scenes one by one to have it")
    read = [
        os.fspath(s)
        for s in (*sources, *inputs, mask)
        if s is not None and not isinstance(s, xr.DataArray)
    ]
    wanted = [*((path, "map") for path in outs), (proba, "file of probabilities")]
    if coverage is not None:
        wanted += [(beside, what) for path in outs for what, beside in set_paths(path).items()]
    for path, what in [*wanted, (unsure, "file of uncertainty")]:
        if path is not None:
            check_apart(path, read, what)
            if not force:
                check_kind(path, what)
    started = time.perf_counter()
    fitted, plans, failures = model, [], []
    options: dict[str, Any] = {"tile": tile, "max_bytes": max_bytes, "probabilities": proba}
    options |= {"uncertainty": unsure, "coverage": coverage, "merge": merge, "colors": colors}
    options |= {"mask": mask, "bbox": bbox, "adapt": adapt}
    for source, path in zip(sources, outs, strict=True):
        try:
            fitted, plan = plan_scene(fitted, source, path, **options)
            plans.append(plan)
            options |= {"merge": (), "colors": None}  # the model has them now
        except SceneError as error:
            failures.append(error)
    seconds, replaced, mapped = time.perf_counter() - started, 0, 0
    if plans:
        folder = outs[0].with_name(outs[0].name + TILES)
        if out_dir is not None:
            make_folder(Path(out_dir))
            folder = Path(out_dir) / f"polyad{TILES}"
        for plan in plans:
            check_outputs(plan)
        with open_cluster(cluster) as client:
            started = time.perf_counter()
            job = _Job(fitted, plans, folder, probability_dtype, max_bytes)
            failures += job.run(client, progress)
            replaced, mapped = job.replaced, sum(job.mapped.values())
            seconds += time.perf_counter() - started
            for scene, count in sorted(job.mapped.items()):
                if not count:
                    warn_of_empty_map(str(plans[scene].out))
    _raise_failures(failures, len(sources))
    found = [plan.source.adaptation for plan in plans]
    adapted = [None if adaptation is None else adaptation.note for adaptation in found]
    pixels = sum(p.pixels for p in plans)
    return MapSummary([p.out for p in plans], pixels, seconds, adapted, replaced, mapped)


def _outputs(
    sources: Sequence[Any], out: AnyPath | None, out_dir: AnyPath | None, ending: str
) -> list[Path]:
    """Return the path of each scene's map."""
    if out_dir is None:
        if len(sources) > 1:
            raise InputError(
                f"{len(sources)} scenes need a folder for their maps; add --out-dir maps"
            )
        if out is None:
            raise InputError("the map has no name; pass out='map.tif', or out_dir for many scenes")
        return [Path(out)]
    if any(isinstance(source, xr.DataArray) for source in sources):
        raise InputError("a scene that is an array has no name for its map; pass out='map.tif'")
    ending = f".{ending.lstrip('.')}"
    check_ending(f"map{ending}", "map")
    return outputs_for(sources, Path(out_dir), ending)


def _raise_failures(failures: list[SceneError], scenes: int) -> None:
    if failures and scenes == 1:
        raise failures[0]
    if failures:
        listed = "".join(f"\n  {error}" for error in failures)
        raise SceneError(
            f"{len(failures)} of {scenes} scenes could not be mapped, the others are done:{listed}"
        )


class _Job:
    """Some scenes to be mapped by one model, and how far that is."""

    def __init__(
        self,
        model: SceneModel,
        plans: list[ScenePlan],
        folder: Path,
        probability_dtype: str,
        max_bytes: int | None,
    ) -> None:
        self.plans, self.folder = plans, folder
        sources = tuple(plan.source for plan in plans)
        self.work = TileWork(model, sources, plans[0].shares, max_bytes)
        self.model, self.probability_dtype = model, probability_dtype
        self.total = sum(len(p.tiles) for p in plans)
        self.done = 0
        self.replaced = 0  # corrupt pixels
        self.mapped: dict[int, int] = {}  # by scene: pixels with a class, once its map is written
        self.failures: dict[int, SceneError] = {}  # by scene
        self.begun: dict[int, FinishedTiles] = {}  # by scene: those begun and not yet written
        self.checksums: dict[int, int] = {}  # by scene: of its shares

    def run(self, client: Any, progress: bool) -> list[SceneError]:
        """Do what is left to do; return why some scenes cannot be read."""
        if getattr(client, "asynchronous", False):
            raise InputError("wanted a synchronous distributed.Client, got an asynchronous one")
        self.client, self.progress = client, progress
        with (
            self._saying_what_is_kept(),
            Ledger(self.folder) as ledger,
            tqdm(total=self.total, desc="mapping", unit="tile", disable=not progress) as bar,
        ):
            self.ledger, self.bar = ledger, bar
            map_tile = map_tile_here if client is None else map_tile_on_worker
            completed = False
            try:
                for task, outcome in stream(client, map_tile, self._tasks(), shared=self.work):
                    self._take(task, outcome)
                completed = True
            finally:
                for tiles in self.begun.values():
                    tiles.close(remove=not self.done)
                if completed or not self.done:  # nothing to resume: nothing is left behind
                    ledger.remove()
        return list(self.failures.values())

    def _tasks(self) -> Iterator[TileTask]:
        """Yield the tiles that are not done, scene after scene.

        A tile's shares are cut when it is its turn: the scene's are held once, and no longer.
        """
        finished, written = _finished(self.ledger.entries)
        for scene, plan in enumerate(self.plans):
            entries = finished[plan.digest]
            if plan.digest in written and plan.out.exists():
                counted = written[plan.digest]  # an older polyad did not count
                self.mapped[scene] = plan.pixels if counted is None else counted
                self._count(len(plan.tiles), entries.values())
                continue
            checksums = {number: entry["crc"] for number, entry in entries.items()}
            tiles = FinishedTiles(self.folder, plan, self.model, checksums)
            self.begun[scene] = tiles
            kept = [entry for number, entry in entries.items() if number not in tiles.left]
            self._count(len(kept), kept)
            if not tiles.left:
                self._write(scene)
                continue
            shares = self._propagate(scene, kept)
            for number in sorted(tiles.left):
                if scene in self.failures:
                    break
                tile = plan.tiles[number]
                yield TileTask(scene, number, tile, None if shares is None else shares.cut(tile))
            shares = None

    def _propagate(self, scene: int, kept: list[Entry]) -> Shares | None:
        """Do what needs the whole scene; tiles that were ``kept`` of other shares do not count.

        The digest of the map says all that is asked for, but a machine with another number of
        cores may round otherwise.
        """
        model, plan = self.work.model_for(scene), self.plans[scene]
        run = None if self.client is None else run_on_cluster(self.client, self.work, scene)
        try:
            shares = scene_shares(model, plan.scene, self.progress, run)
        except SceneError as error:
            self.failures[scene] = error
            self.begun.pop(scene).close(remove=not kept)
            return None
        if shares is not None:
            self.checksums[scene] = shares.checksum()
            if kept and kept[0].get(SHARES) != self.checksums[scene]:
                self.begun[scene].forget()
                self._count(-len(kept), kept)
        return shares

    def _take(self, task: TileTask, outcome: Any) -> None:
        """Keep a mapped tile, and write the map if it was the last one."""
        if task.scene not in self.begun:
            return  # its scene has failed meanwhile
        if isinstance(outcome, SceneError):
            self.failures[task.scene] = outcome
            self.begun.pop(task.scene).close()
            return
        if isinstance(outcome, Exception):
            name = self.plans[task.scene].out.name
            raise explained(outcome, f"tile {task.number} of {name} failed")
        tiles = self.begun[task.scene]
        entry = tiles.put(task.number, outcome.ids, outcome.proba) | {"replaced": outcome.replaced}
        if task.shares is not None:
            entry |= {SHARES: self.checksums[task.scene]}
        self.ledger.append(entry)
        self._count(1, [entry])
        if not tiles.left:
            self._write(task.scene)

    def _write(self, scene: int) -> None:
        tiles = self.begun.pop(scene)
        written = False
        try:
            mapped = write_output(self.model, tiles, self.probability_dtype)
            self.ledger.append({"map": tiles.plan.digest, "written": True, "mapped": mapped})
            self.mapped[scene] = mapped
            written = True
        finally:
            tiles.close(remove=written)

    def _count(self, tiles: int, entries: Iterable[Entry]) -> None:
        """Count tiles as done, or no longer done, with their entries in the ledger."""
        self.done += tiles
        replaced = sum(entry.get("replaced", 0) for entry in entries)
        self.replaced += replaced if tiles > 0 else -replaced
        self.bar.update(tiles)
        if len(self.plans) > 1:
            counts = f"{len(self.plans)} scenes, {len(self.begun)} in work"
            self.bar.set_postfix_str(counts, False)

    @contextmanager
    def _saying_what_is_kept(self) -> Iterator[None]:
        """Add to an error what is kept and how to resume."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise OutputError(
                f"the disk of {self.folder.parent} is full ({error.strerror}): no room for the "
                f"finished tiles; make room. {self._kept()}"
            ) from error
        except (ClusterError, OutputError) as error:
            raise type(error)(f"{str(error).rstrip('.')}. {self._kept()}") from error
        except KeyboardInterrupt:
            if self.done:
                warnings.warn(f"stopped. {self._kept()}", PolyadWarning, stacklevel=4)
            raise

    def _kept(self) -> str:
        return (
            f"{self.done} of {self.total} tiles are kept in {self.folder}: the same command "
            "resumes from there"
        )


def _finished(
    entries: Iterable[Entry],
) -> tuple[dict[str, dict[int, Entry]], dict[str, int | None]]:
    """Return a ledger's finished tiles, by map and number, and the maps that are written.

    Of the latter it says how many pixels have a class, if that was counted.

    The first tile that was made of other shares than those before it stands for all: they were
    given up when it was made.
    """
    finished: dict[str, dict[int, Entry]] = defaultdict(dict)
    written: dict[str, int | None] = {}
    for entry in entries:
        tiles = finished[entry["map"]]
        if entry.get("written"):
            written[entry["map"]] = entry.get("mapped")
            continue
        if tiles and next(iter(tiles.values())).get(SHARES) != entry.get(SHARES):
            tiles.clear()
        tiles[entry["tile"]] = entry
    return finished, written
