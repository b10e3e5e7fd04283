"""Maps on a cluster, or on one machine, that go on where they were after any kill."""

from __future__ import annotations

import errno
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import xarray as xr
from tqdm import tqdm

from polyad.distributed.cluster import open_cluster
from polyad.distributed.ledger import Ledger
from polyad.distributed.outputs import check_outputs
from polyad.distributed.plans import (
    AnySource,
    Mapped,
    ScenePlan,
    find_scenes,
    outputs_for,
    plan_scene,
)
from polyad.distributed.progress import SceneProgress
from polyad.distributed.stream import stream
from polyad.distributed.work import Part, TileWork, do_here, do_on_worker
from polyad.errors import ClusterError, InputError, OutputError, PolyadError, SceneError
from polyad.scene.mapping import blank_map
from polyad.scene.model import SceneModel
from polyad.scene.paths import check_apart, check_ending, check_kind, make_folder

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TILES = ".tiles"  # what the folder of finished tiles is called, after the output


def map_cluster(
    model: Any,
    source: AnySource,
    out: str | os.PathLike[str],
    *,
    client: Any = None,
    probabilities: str | os.PathLike[str] | None = None,
    probability_dtype: str = "float32",
    tile: int | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
) -> Mapped:
    """Map a scene into a file with the workers of a Dask cluster.

    The model goes to every worker once. A worker opens the scene by its path and reads the windows
    it is given, so the scene must lie where all workers see it. Finished tiles are kept in
    ``<out>.tiles`` beside the output until that is whole: after a crash of the worker, of the
    scheduler or of this process, or a full disk, the same call goes on from there, and the output
    has the same bytes as without the crash.

    Parameters
    ----------
    model : SceneModel or classifier
        See `polyad.scene.mapping.map_scene`.
    source : path-like or DataArray
        A file (``file:key`` for one array of it), a known name, or a scene opened lazily with
        `polyad.scene.readers.open_scene` and perhaps cut with ``isel``.
    out : path-like
        The class map: ``.tif`` or ``.zarr``, written tile by tile, or ``.hdr``, ``.png``, ``.nc``,
        ``.npy``, made from the whole map.
    client : distributed.Client, optional
        Without one, the tiles are done here one after the other, and can be gone on with as well.
    probabilities : path-like, optional
        A GeoTIFF with one band for each class.
    probability_dtype : {"float32", "uint8"}, default="float32"
    tile : int, optional
        Side of a tile in pixels; chosen by memory when not given.
    max_bytes : int, optional
        See `polyad.scene.readers.open_scene`.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    Mapped
        The map's path and number of pixels.

    Raises
    ------
    ClusterError
        The scheduler or all workers are gone, or they cannot do the work.
    OutputError
        The output cannot be written, for example because the disk is full.
    """
    out = Path(out)
    shares = None if probabilities is None else Path(probabilities)
    options: dict[str, Any] = {"tile": tile, "max_bytes": max_bytes, "probabilities": shares}
    options["on_workers"] = client is not None
    fitted, plan = plan_scene(model, source, out, **options)
    folder = out.with_name(out.name + TILES)
    job = _Job(fitted, [plan], folder, probability_dtype, max_bytes)
    failures = job.run(client, progress)
    if failures:
        raise SceneError(failures[plan.label])
    return plan.mapped


def map_scene(
    model: Any,
    source: AnySource,
    *,
    client: Any = None,
    tile: int | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
) -> xr.DataArray:
    """Return the map that `polyad.scene.mapping.map_scene` does, made by a cluster's workers.

    The map is held in memory, one byte for each pixel, and nothing is kept on the way; for a map
    in a file that survives a crash take `map_cluster`.

    Parameters
    ----------
    model, source, client, tile, max_bytes, progress
        See `map_cluster`.

    Returns
    -------
    DataArray, dims ``(y, x)``
    """
    options: dict[str, Any] = {"tile": tile, "max_bytes": max_bytes}
    fitted, plan = plan_scene(model, source, Path(), **options, on_workers=client is not None)
    work = TileWork(fitted, (plan.source,), False, max_bytes)
    parts = (Part(0, k, tile) for k, tile in enumerate(plan.tiles))
    found = blank_map(fitted, plan.scene)
    done = stream(client, do_here if client is None else do_on_worker, parts, shared=work)
    bar = tqdm(done, "mapping", len(plan.tiles), unit="tile", disable=not progress)
    for part, outcome in bar:
        if isinstance(outcome, Exception):
            raise _told(outcome, part, plan.label)
        found.values[part.tile] = outcome[0]
    return found


def map_many(
    model: SceneModel,
    sources: Sequence[str],
    out_dir: str | os.PathLike[str],
    *,
    client: Any = None,
    ending: str = ".tif",
    tile: int | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
) -> list[Mapped]:
    """Map many scenes into a folder, with one ledger and one progress display.

    A scene that cannot be read does not stop the others; it is reported at the end.

    Parameters
    ----------
    model : SceneModel
    sources : sequence of str
        Files, known names, and patterns such as ``scenes/*.hdr``.
    out_dir : path-like
        Folder of the maps, each named after its scene; made if it is not there.
    client, tile, max_bytes, progress
        See `map_cluster`.
    ending : str, default=".tif"
        Kind of the maps.

    Returns
    -------
    list of Mapped
        The maps, in the order of the scenes.
    """
    found, folder = find_scenes(sources), Path(out_dir)
    if ending.lower() != ".zarr":  # written here alone, see `check_outputs`
        check_ending(f"map{ending}", "map")
    outs = outputs_for(found, folder, ending)
    options: dict[str, Any] = {"tile": tile, "max_bytes": max_bytes}
    plans, failures = [], {}
    for source, out in zip(found, outs, strict=True):
        try:
            plan = plan_scene(model, source, out, **options, on_workers=client is not None)[1]
            plans.append(plan)
        except SceneError as error:
            failures[source] = str(error)
    if plans:
        make_folder(folder)
        job = _Job(model, plans, folder / f"polyad{TILES}", "float32", max_bytes)
        failures |= job.run(client, progress)
    if failures and len(found) == 1:
        raise SceneError(failures[found[0]])
    if failures:
        listed = "".join(f"\n  {why}" for why in failures.values())
        raise SceneError(
            f"{len(failures)} of {len(found)} scenes could not be mapped, the others are done:"
            f"{listed}"
        )
    return [plan.mapped for plan in plans]


def map_on(
    where: str | os.PathLike[str] | None,
    model: SceneModel,
    sources: Sequence[str],
    *,
    out: str | os.PathLike[str],
    out_dir: str | os.PathLike[str] | None = None,
    ending: str = ".tif",
    probabilities: str | os.PathLike[str] | None = None,
    probability_dtype: str = "float32",
    tile: int | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
    force: bool = True,
    inputs: Sequence[str] = (),
) -> dict[str, Any]:
    """Do what ``polyad map --cluster WHERE`` asks for.

    Parameters
    ----------
    where
        See `polyad.distributed.cluster.open_cluster`.
    out_dir : path-like, optional
        If given, ``out`` is not used and each map is named after its scene.
    ending : str, default=".tif"
        Kind of the maps in ``out_dir``.
    model, sources, out, probabilities, probability_dtype, tile, max_bytes, progress
        See `map_cluster` and `map_many`.
    force : bool, default=True
        Replace also what is no map of polyad.
    inputs : sequence of str
        Files, such as the model's, that must not be written over; ``sources`` are known.

    Returns
    -------
    dict
        ``maps``, ``pixels`` and ``map_seconds``, the start of a local cluster not counted.
    """
    options: dict[str, Any] = {"tile": tile, "max_bytes": max_bytes, "progress": progress}
    if out_dir is None and len(sources) > 1:
        raise InputError(f"{len(sources)} scenes need a folder for their maps; add --out-dir maps")
    if out_dir is not None and probabilities is not None:
        raise InputError("--probabilities names one file; map the scenes one by one to have them")
    found = find_scenes(sources)
    outs = [Path(out)] if out_dir is None else outputs_for(found, Path(out_dir), ending)
    outputs = [(path, "map") for path in outs]
    if probabilities is not None:
        outputs.append((Path(probabilities), "file of probabilities"))
    for path, what in outputs:
        check_apart(path, [*found, *inputs])
        if not force:
            check_kind(path, what)
    if where is not None:
        _check_tilewise(model, sources, max_bytes)
    with open_cluster(where) as client:
        started = time.perf_counter()
        if out_dir is None:
            options |= {"probabilities": probabilities, "probability_dtype": probability_dtype}
            maps = [map_cluster(model, sources[0], out, client=client, **options)]
        else:
            maps = map_many(model, sources, out_dir, client=client, ending=ending, **options)
        seconds = time.perf_counter() - started
    return {
        "maps": [str(found.path) for found in maps],
        "pixels": sum(found.pixels for found in maps),
        "map_seconds": round(seconds, 4),
    }


def _check_tilewise(model: SceneModel, sources: Sequence[str], max_bytes: int | None) -> None:
    """Refuse a map that workers cannot make tile by tile, before a cluster is started."""
    if model.recipe is None or not model.recipe.steps:
        return
    for source in find_scenes(sources):
        with suppress(SceneError):  # told when the scene is planned, with those of other scenes
            plan_scene(model, source, Path(), max_bytes=max_bytes, on_workers=True)


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
        for plan in plans:
            check_outputs(plan)
        self.plans, self.folder = plans, folder
        sources = tuple(plan.source for plan in plans)
        self.work = TileWork(model, sources, plans[0].probabilities is not None, max_bytes)
        self.model, self.probability_dtype = model, probability_dtype
        self.total = sum(len(p.tiles) for p in plans)
        self.done = 0
        self.failures: dict[str, str] = {}
        self.scenes: dict[int, SceneProgress] = {}  # those begun and not yet written

    def run(self, client: Any, progress: bool) -> dict[str, str]:
        """Do what is left to do; return the scenes that cannot be read, and why."""
        if getattr(client, "asynchronous", False):
            raise InputError("wanted a synchronous distributed.Client, got an asynchronous one")
        with (
            self._telling(),
            Ledger(self.folder) as ledger,
            tqdm(total=self.total, desc="mapping", unit="tile", disable=not progress) as bar,
        ):
            self.ledger, self.bar = ledger, bar
            function = do_here if client is None else do_on_worker
            try:
                for part, outcome in stream(client, function, self._parts(), shared=self.work):
                    self._take(part, outcome)
            finally:
                for scene in self.scenes.values():
                    if not self.done:  # nothing to resume: nothing is left behind
                        scene.discard()
                    scene.close()
                if not self.done:
                    ledger.remove()
            ledger.remove()
        return self.failures

    def _parts(self) -> Iterator[Part]:
        """Yield the tiles that are not done, scene after scene."""
        known: dict[str, dict[int, int]] = defaultdict(dict)
        written = set()
        for entry in self.ledger.entries:
            if entry.get("written"):
                written.add(entry["map"])
            else:
                known[entry["map"]][entry["tile"]] = entry["crc"]
        for number, plan in enumerate(self.plans):
            if plan.digest in written and plan.out.exists():
                self._count(len(plan.tiles))
                continue
            scene = SceneProgress(self.folder, plan, self.model, known[plan.digest])
            self.scenes[number] = scene
            self._count(len(plan.tiles) - len(scene.left))
            if not scene.left:
                self._finish(number)
            for tile in sorted(scene.left):
                if plan.label in self.failures:
                    break
                yield Part(number, tile, plan.tiles[tile])

    def _take(self, part: Part, outcome: Any) -> None:
        plan = self.plans[part.scene]
        if part.scene not in self.scenes:
            return  # its scene has failed meanwhile
        if isinstance(outcome, SceneError):
            self.failures[plan.label] = str(outcome)
            self.scenes.pop(part.scene).close()
            return
        if isinstance(outcome, Exception):
            raise _told(outcome, part, plan.out.name)
        scene = self.scenes[part.scene]
        self.ledger.append(scene.put(part.number, *outcome))
        self._count(1)
        if not scene.left:
            self._finish(part.scene)

    def _finish(self, number: int) -> None:
        scene = self.scenes.pop(number)
        try:
            scene.write(self.probability_dtype)
            self.ledger.append({"map": scene.plan.digest, "written": True})
            scene.discard()
        finally:
            scene.close()

    def _count(self, tiles: int) -> None:
        self.done += tiles
        self.bar.update(tiles)
        if len(self.plans) > 1:
            open_ones = len(self.scenes)
            self.bar.set_postfix_str(f"{len(self.plans)} scenes, {open_ones} in work", False)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Add to an error what is kept and how to go on."""
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

    def _kept(self) -> str:
        return (
            f"{self.done} of {self.total} tiles are kept in {self.folder}: the same command goes "
            "on from there"
        )


def _told(error: Exception, part: Part, name: str) -> Exception:
    """Return the error that says which tile failed; our own errors say enough."""
    if isinstance(error, PolyadError):
        return error
    told = ClusterError(f"tile {part.number} of {name} failed: {type(error).__name__}: {error}")
    told.__cause__ = error
    return told
