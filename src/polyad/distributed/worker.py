"""What a worker does: open the scene by its path, read one window, classify it."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.distributed.cluster import Client, explained, stream
from polyad.errors import ClusterError, SceneError, SceneMismatch
from polyad.scene.learn.adaptation import Adaptation
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.scene_statistics import RunOnScene, SceneTask
from polyad.scene.map.tile_mapper import Mapper, Shares
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Tile
from polyad.scene.read.scenes import open_scene
from polyad.threads import limit_threads

Array = npt.NDArray[Any]

OPEN_SCENES = 8  # kept open, headers and no pixels, by each worker


class TileTask(NamedTuple):
    """One task: which scene, which of its tiles, where that lies and what it needs of the rest."""

    scene: int
    number: int
    tile: Tile
    shares: Shares | None = None  # of this tile alone, if labels are propagated over the scene


class MappedTile(NamedTuple):
    """What is known of a tile once it is mapped."""

    ids: Array  # (h, w)
    numbers: Array | None  # (h, w, depth), if wanted
    replaced: int  # corrupt pixels that were read as their neighbors


class SceneSource(NamedTuple):
    """A scene as workers find it, and what they must find there."""

    location: str | xr.DataArray  # a path, a known name, or a scene opened lazily
    shape: tuple[int, ...]
    dtype: str
    mask: bytes | None = None  # where it is mapped, see `Scene.packed_mask`
    adaptation: Adaptation | None = None  # of the model to its light


def versions() -> dict[str, str]:
    """Return the versions that decide a pixel's last bit."""
    packages = {name: version(name) for name in ("polyad", "torch", "numpy")}
    return packages | {"python": platform.python_version()}


@dataclass
class TileWork:
    """Everything that is the same for all tiles; sent to each worker once.

    Attributes
    ----------
    model : SceneModel
    sources : tuple of SceneSource
    numbers : bool
        Whether probabilities or deviations are wanted; see `polyad.scene.map.tile_mapper.Mapper`.
    max_bytes : int or None
        See `polyad.scene.open_scene`.
    versions : dict
        Of the process that makes the map; a worker with others is refused.
    """

    model: SceneModel
    sources: tuple[SceneSource, ...]
    numbers: bool = False
    max_bytes: int | None = None
    versions: dict[str, str] = field(default_factory=versions)

    def __getstate__(self) -> Mapping[str, object]:
        kept = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        # Scene statistics serve what the driver does; a task has what its tile needs of them
        return kept | {"model": replace(self.model, statistics=None)}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        vars(self).update(state)
        self.__post_init__()

    def __post_init__(self) -> None:
        self._checked = False
        self._scenes: dict[int, Scene] = {}
        self._lock = threading.Lock()
        self._own = threading.local()  # a mapper keeps buffers: one for each thread

    def map_tile(self, task: TileTask) -> MappedTile:
        """Map one tile."""
        mapper = self.mapper(task.scene)
        if (mapper.propagation is None) != (task.shares is None):
            raise SceneMismatch(
                f"{self.sources[task.scene].location} has other pixels on {platform.node()} than "
                "where the map is made; put the same file on every machine"
            )
        ids, numbers = mapper(task.tile, task.shares)
        despiking = mapper.scene.despiking
        return MappedTile(ids, numbers, 0 if despiking is None else despiking.count(*task.tile))

    def check_versions(self) -> None:
        """Refuse to mix the results of different versions in one map."""
        if self._checked:
            return
        here = versions()
        for name, wanted in self.versions.items():
            if name != "python" and here[name] != wanted:
                raise ClusterError(
                    f"the worker on {platform.node()} has {name} {here[name]}, the map is made "
                    f"with {wanted}; install the same version on every machine"
                )
        self._checked = True

    def _scene(self, number: int) -> Scene:
        with self._lock:
            if number not in self._scenes:
                while len(self._scenes) >= OPEN_SCENES:
                    self._scenes.pop(next(iter(self._scenes)))
                self._scenes[number] = self._open(self.sources[number])
            return self._scenes[number]

    def _open(self, source: SceneSource) -> Scene:
        if isinstance(source.location, xr.DataArray):
            return Scene.of(source.location).unpack_mask(source.mask)
        os.environ.setdefault("GDAL_CACHEMAX", "64")  # MB; its default is a twentieth of all memory
        try:
            scene = open_scene(source.location, max_bytes=self.max_bytes)
        except SceneError as error:
            raise type(error)(
                f"{error} (seen from the worker on {platform.node()}: every worker reads the scene "
                "from the path that was given, so it must lie on a disk that all of them share)"
            ) from error
        if (scene.shape, scene.dtype.str) != (tuple(source.shape), source.dtype):
            raise SceneMismatch(
                f"{source.location} has {scene.shape} values of {scene.dtype} on "
                f"{platform.node()}, {tuple(source.shape)} of {np.dtype(source.dtype)} where the "
                "map is made; put the same file on every machine"
            )
        return Scene.of(scene).unpack_mask(source.mask)

    def mapper(self, number: int) -> Mapper:
        """Return the mapper of a scene in this thread."""
        kept: tuple[int, Mapper] | None = getattr(self._own, "mapper", None)
        if kept is None or kept[0] != number:  # tiles come scene after scene
            adaptation = self.sources[number].adaptation
            model = self.model if adaptation is None else adaptation.apply(self.model)
            kept = number, Mapper(model, self._scene(number), self.numbers)
            self._own.mapper = kept
        return kept[1]


def map_tile_here(work: TileWork, task: TileTask) -> MappedTile:
    """Map one tile in this process, with as many threads as torch is set to."""
    return work.map_tile(task)


def map_tile_on_worker(work: TileWork, task: TileTask) -> MappedTile:
    """Map one tile on a worker, with one torch thread for each thread of the worker."""
    work.check_versions()
    with limit_threads(1):
        return work.map_tile(task)


def run_on_cluster(client: Client, work: TileWork, scene: int) -> RunOnScene:
    """Return what does the tasks of one of the work's scenes by the workers of a cluster."""

    def run(function: SceneTask, shared: Any, tasks: Iterable[Any]) -> Generator[Any, None, None]:
        location = work.sources[scene].location
        name = location if isinstance(location, str) else "the scene"
        early: dict[int, Any] = {}  # answers whose turn it is not yet
        turn, job = 0, (work, scene, function, shared)
        with closing(stream(client, do_task, enumerate(tasks), shared=job)) as done:
            for (number, _), outcome in done:
                if isinstance(outcome, Exception):
                    raise explained(outcome, f"a worker failed to read {name}")
                early[number] = outcome
                while turn in early:
                    yield early.pop(turn)
                    turn += 1

    return run


def do_task(job: tuple[TileWork, int, SceneTask, Any], item: tuple[int, Any]) -> Any:
    """Do one task on a worker, with one torch thread for each thread of the worker."""
    work, scene, function, shared = job
    work.check_versions()
    with limit_threads(1):
        return function(work.mapper(scene).scene, shared, item[1])
