"""Maps in files that can be resumed after any kill, made by a cluster or here; and lazy maps."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.distributed import worker
from polyad.distributed.cluster import Client, Cluster, explained, open_cluster, stream
from polyad.distributed.tile_store import FULL, TileFolder, TileStore
from polyad.distributed.worker import MappedTile, SceneSource, TileTask, TileWork
from polyad.errors import ClusterError, InputError, OutputError, PolyadWarning, SceneError
from polyad.scene.files.paths import check_apart, check_ending, check_kind, make_folder, split_key
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.classifier import as_scene_model, block_classifier
from polyad.scene.map.mapping import MapPlan, MapRequest, plan_map, warn_of_empty_map
from polyad.scene.map.tile_mapper import Mapper, Shares
from polyad.scene.raster.classes import UNLABELED, class_dtype, with_classes
from polyad.scene.raster.despiking import HALO, despike
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import masked
from polyad.scene.raster.windows import Block, halo_index
from polyad.scene.read.masks import restrict_scene
from polyad.scene.read.scenes import open_scene

BAND_COORDS = ("wavelength", "number")
AnySource = str | os.PathLike[str] | xr.DataArray


class ScenePlan(NamedTuple):
    """The map of one scene as a cluster makes it."""

    map: MapPlan
    source: SceneSource  # for the workers
    digest: str  # of all that decides the map: tiles kept under another are tiles of another map


def open_source(
    source: AnySource,
    *,
    max_bytes: int | None = None,
    mask: AnyPath | None = None,
    bbox: Sequence[float] | None = None,
) -> tuple[str | xr.DataArray, Scene]:
    """Return where workers find a scene, and the scene, restricted to where it is mapped."""
    if isinstance(source, str | os.PathLike):
        location: str | xr.DataArray = absolute(os.fspath(source))
        scene = open_scene(location, max_bytes=max_bytes)
    else:
        location = scene = Scene.of(source).array
        if scene.chunks is not None:
            raise InputError(
                "the scene is a Dask array: map it lazily with polyad.distributed.map_lazy, or "
                "pass the path of its file"
            )
        if scene.variable._in_memory:
            raise InputError(
                f"the scene lies in memory ({scene.nbytes:,} bytes): workers read their own "
                "windows, so pass the path of its file, or map it here with polyad.map_scene"
            )
    return location, Scene.of(restrict_scene(scene, mask=mask, bbox=bbox, max_bytes=max_bytes))


def plan_scene(
    model: SceneModel, location: str | xr.DataArray, scene: Scene, path: Path, request: MapRequest
) -> ScenePlan:
    """See that a model of ``request.model`` fits a scene, and cut it into tiles."""
    plan = plan_map(model, scene, path, request)
    Mapper(plan.model, plan.scene).warn_of_other_scene()
    array, status = plan.scene.array, None
    with suppress(OSError):
        status = Path(plan.scene.source).stat() if plan.scene.source else None
    about = {
        "model": model_digest(plan.model),
        "scene": [plan.scene.shape, plan.scene.dtype.str, plan.scene.fingerprint],
        "file": None if status is None else [status.st_size, status.st_mtime_ns],
        "bands": [str(array[k].values.tolist()) for k in BAND_COORDS if k in array.coords],
        "nodata": str(plan.scene.nodata),
        "mask": hashlib.sha256(scene.packed_mask or b"").hexdigest(),
        "tile": plan.tiles[0].shape,
        "probabilities": plan.numbers,
        "versions": worker.versions(),
    }
    digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    where = (scene.shape, scene.dtype.str, scene.packed_mask)
    return ScenePlan(plan, SceneSource(location, *where, plan.adaptation), digest)


def find_scenes(patterns: Sequence[str]) -> list[str]:
    """Return the scenes that names and patterns such as ``scenes/*.hdr`` stand for, each once.

    Raises
    ------
    SceneError
        A pattern matches no file.
    """
    scenes: dict[str, None] = {}  # in order, each once
    for pattern in patterns:
        named = Path(pattern).exists() or not any(c in pattern for c in "*?[")
        matches = [pattern] if named else sorted(glob(pattern, recursive=True))  # noqa: PTH207
        if not matches:
            raise SceneError(f"{pattern}: no file matches this pattern; check it with ls")
        scenes |= dict.fromkeys(matches)
    return list(scenes)


def absolute(source: str) -> str:
    """Return the source with its path made absolute: workers stand in other folders.

    Examples
    --------
    >>> absolute("indian-pines")
    'indian-pines'
    >>> absolute(".") == str(Path.cwd())
    True
    """
    if Path(source).exists():
        return str(Path(source).absolute())
    name, key = split_key(source)
    if key is not None and Path(name).exists():
        return f"{Path(name).absolute()}:{key}"
    return source


def model_digest(model: SceneModel) -> str:
    """Return a digest of all that decides what the model says of a pixel.

    Of its training only where labels propagate from, and in which scene.
    """
    estimator = model.estimator
    without = ("estimator", "training", "statistics")
    parts = [getattr(model, field.name) for field in fields(model) if field.name not in without]
    if model.recipe is not None and model.recipe.propagation is not None:
        parts += [model.training.scene, model.training.packed_pixels]
    network = getattr(estimator, "network_", None)
    if network is None:
        parts.append(estimator)
    else:
        scaler = getattr(estimator, "scaler_", None)
        parts += [repr(network), repr(sorted(estimator.get_params(deep=False).items()))]
        parts += [value.numpy(force=True) for _, value in sorted(network.state_dict().items())]
        parts.append(None if scaler is None else vars(scaler))
    # One by one: in a whole, joblib also tells whether two parts are one object
    digests = [type(estimator).__name__, *(str(joblib.hash(part)) for part in parts)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


TILES = ".tiles"  # what the folder of finished tiles is called, after the output

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
    cluster: Cluster = None,
    max_bytes: int | None = None,
    mask: AnyPath | None = None,
    bbox: Sequence[float] | None = None,
    progress: bool = False,
    force: bool = True,
    inputs: Sequence[AnyPath] = (),
    **options: Any,
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
    max_bytes : int, optional
        See `polyad.open_scene`.
    mask, bbox
        Where to map; see `polyad.scene.restrict_scene`. For all scenes.
    progress : bool, default=False
        Show a bar.
    force : bool, default=True
        Replace also what is no map of polyad.
    inputs : sequence of path-like
        Other files, such as the model's, that must not be written over.
    **options
        ``coverage``, ``merge``, ``colors``, ``tile`` and ``adapt``, and for one scene also
        ``probabilities``, ``probability_dtype`` and ``uncertainty``: see `polyad.map_file`.

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
    request = MapRequest(**options)
    for name in ("probabilities", "uncertainty"):
        if out_dir is not None and options.get(name) is not None:
            raise InputError(f"--{name} names one file; map the scenes one by one to have it")
    read = [os.fspath(s) for s in (*sources, *inputs, mask) if isinstance(s, str | os.PathLike)]
    for path in outs:
        for what, file in request.outputs(path).items():
            check_apart(file, read, what)
            if not force:
                check_kind(file, what)
    started = time.perf_counter()
    fitted: SceneModel | None = None
    plans: list[ScenePlan] = []
    failures: list[SceneError] = []
    for source, path in zip(sources, outs, strict=True):
        try:
            location, scene = open_source(source, max_bytes=max_bytes, mask=mask, bbox=bbox)
            prepared = request.model(model, scene) if fitted is None else fitted
            plans.append(plan_scene(prepared, location, scene, path, request))
            fitted = prepared
        except SceneError as error:
            failures.append(error)
    seconds, replaced, mapped = time.perf_counter() - started, 0, 0
    if fitted is not None and plans:
        folder = outs[0].with_name(outs[0].name + TILES)
        if out_dir is not None:
            make_folder(Path(out_dir))
            folder = Path(out_dir) / f"polyad{TILES}"
        for plan in plans:
            plan.map.check_outputs()
        with open_cluster(cluster) as client:
            started = time.perf_counter()
            job = _Job(fitted, plans, folder, max_bytes)
            failures += job.run(client, progress)
            replaced, mapped = job.replaced, sum(job.mapped.values())
            seconds += time.perf_counter() - started
            for number, count in sorted(job.mapped.items()):
                if not count:
                    warn_of_empty_map(str(plans[number].map.path))
    if failures and len(sources) == 1:
        raise failures[0]
    if failures:
        listed = "".join(f"\n  {error}" for error in failures)
        raise SceneError(
            f"{len(failures)} of {len(sources)} scenes could not be mapped, the others are done:"
            + listed
        )
    maps = [plan.map for plan in plans]
    adapted = [None if m.adaptation is None else m.adaptation.note for m in maps]
    pixels = sum(m.pixels for m in maps)
    return MapSummary([m.path for m in maps], pixels, seconds, adapted, replaced, mapped)


def _outputs(
    sources: Sequence[Any], out: AnyPath | None, out_dir: AnyPath | None, ending: str
) -> list[Path]:
    """Return the path of each scene's map; in a folder they are named after their scenes."""
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
    folder, names = Path(out_dir), dict[str, str]()
    for source in sources:
        path, key = (source, None) if Path(source).exists() else split_key(source)
        name = Path(path).stem + ("" if key is None else "-" + key.strip("/").replace("/", "-"))
        if name in names:
            raise InputError(
                f"{names[name]} and {source} would both be mapped to {folder / (name + ending)}; "
                "map them into different folders"
            )
        names[name] = source
    return [folder / (name + ending) for name in names]


class _Job:
    """Some scenes to be mapped by one model, and how far that is."""

    def __init__(
        self, model: SceneModel, plans: list[ScenePlan], folder: Path, max_bytes: int | None
    ) -> None:
        self.plans, self.path = plans, folder
        sources = tuple(plan.source for plan in plans)
        self.work = TileWork(model, sources, plans[0].map.numbers, max_bytes)
        self.total = sum(len(p.map.tiles) for p in plans)
        self.done = 0
        self.replaced = 0  # corrupt pixels
        self.mapped: dict[int, int] = {}  # by scene: pixels with a class, once its map is written
        self.failures: dict[int, SceneError] = {}  # by scene
        self.stores: dict[int, TileStore] = {}  # by scene: of those that are begun
        self.checksums: dict[int, int] = {}  # by scene: of its shares

    def run(self, client: Client | None, progress: bool) -> list[SceneError]:
        """Do what is left to do; return why some scenes cannot be read."""
        if getattr(client, "asynchronous", False):
            raise InputError("expected a synchronous distributed.Client, got an asynchronous one")
        self.client, self.progress = client, progress
        map_tile = worker.map_tile_here if client is None else worker.map_tile_on_worker
        bar = tqdm(total=self.total, desc="mapping", unit="tile", disable=not progress)
        with self._saying_what_is_kept(), bar as self.bar:
            folder, completed = TileFolder(self.path), False
            try:
                for task, outcome in stream(client, map_tile, self._tasks(), shared=self.work):
                    self._take(task, outcome)
                completed = not any(self.stores[scene].finished for scene in self.failures)
            finally:
                nothing_to_resume = completed or not self.done
                for store in self.stores.values() if nothing_to_resume else ():
                    store.remove()
                folder.close(remove=nothing_to_resume)
        return list(self.failures.values())

    def _tasks(self) -> Iterator[TileTask]:
        """Yield the tiles that are not done, scene after scene.

        A tile's shares are cut when it is its turn: the scene's are held once, and no longer.
        """
        for scene, plan in enumerate(self.plans):
            store = self.stores[scene] = TileStore(self.path, plan.map, plan.digest)
            if store.written is not None and plan.map.path.exists():
                self.mapped[scene] = store.written["mapped"]
                self._count(len(plan.map.tiles), store.written["replaced"])
                continue
            self._count(len(store.finished), sum(store.finished.values()))
            if len(store.finished) == len(plan.map.tiles):
                self.mapped[scene] = store.write_map()
                continue
            shares = self._propagate(scene, store)
            for number, tile in enumerate(plan.map.tiles):
                if number not in store.finished and scene not in self.failures:
                    part = None if shares is None else shares.cut(tile)
                    yield TileTask(scene, number, tile, part)
            shares = None

    def _propagate(self, scene: int, store: TileStore) -> Shares | None:
        """Do what needs the whole scene; tiles that were kept of other shares do not count.

        The digest of the map says all that is asked for, but a machine with another number of
        cores may round otherwise.
        """
        plan = self.plans[scene].map
        run = None if self.client is None else worker.run_on_cluster(self.client, self.work, scene)
        try:
            shares = Mapper(plan.model, plan.scene, progress=self.progress).propagate(run)
        except SceneError as error:
            self.failures[scene] = error
            return None
        if shares is not None:
            self.checksums[scene] = shares.checksum()
            if not store.shares <= {self.checksums[scene]}:
                self._count(-len(store.finished), -sum(store.finished.values()))
                store.forget()
        return shares

    def _take(self, task: TileTask, outcome: MappedTile | Exception) -> None:
        """Keep a mapped tile, and write the map if it was the last one."""
        if task.scene in self.failures:
            return
        if isinstance(outcome, SceneError):
            self.failures[task.scene] = outcome
            return
        plan, store = self.plans[task.scene].map, self.stores[task.scene]
        if isinstance(outcome, Exception):
            raise explained(outcome, f"tile {task.number} of {plan.path.name} failed")
        shares = self.checksums.get(task.scene)
        store.put(task.number, outcome.ids, outcome.numbers, outcome.replaced, shares)
        self._count(1, outcome.replaced)
        if len(store.finished) == len(plan.tiles):
            self.mapped[task.scene] = store.write_map()

    def _count(self, tiles: int, replaced: int) -> None:
        """Count tiles as done, or no longer done, and the pixels that were replaced in them."""
        self.done += tiles
        self.replaced += replaced
        self.bar.update(tiles)

    @contextmanager
    def _saying_what_is_kept(self) -> Iterator[None]:
        """Add to an error what is kept and how to resume."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise OutputError(
                f"the disk of {self.path.parent} is full ({error.strerror}): no room for the "
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
            f"{self.done} of {self.total} tiles are kept in {self.path}: the same command resumes "
            "from there"
        )


Array = npt.NDArray[Any]


def map_lazy(
    model: Any,
    scene: xr.DataArray,
    *,
    window: int | None = None,
    probabilities: bool = False,
    adapt: bool = False,
) -> xr.DataArray:
    """Return the map of a scene that is a Dask array, to be computed when asked for.

    A block of the map is made from the same block of the scene and the pixels around it that the
    model's window reaches; at the border of the scene they are reflected. The map is that of
    `polyad.map_scene`.

    Parameters
    ----------
    model : SceneModel or classifier
        See `polyad.map_scene`.
    scene : DataArray, dims ``(y, x, band)``
        Backed by Dask. Bands are put in one chunk: a scene chunked by band is read once for every
        block, so chunk it along y and x.
    window : int, optional
        See `polyad.map_scene`.
    probabilities : bool, default=False
        Return the probabilities ``(y, x, class)`` instead of the map.
    adapt : bool, default=False
        See `polyad.map_scene`. A sample of the scene is computed for it at once; without, nothing
        is read and a radiometric shift is not noticed.

    Returns
    -------
    DataArray, dims ``(y, x)`` or ``(y, x, class)``
        Backed by Dask.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from polyad.scene.read.scenes import scene_from_array
    >>> values = np.random.default_rng(0).normal(size=(8, 6, 3))
    >>> model = GaussianNB().fit(values.reshape(-1, 3), np.arange(48) % 2 + 1)
    >>> lazy = map_lazy(model, scene_from_array(values).chunk(y=4, x=3))
    >>> lazy.chunks
    ((4, 4), (3, 3))
    >>> int(lazy.max())
    2
    """
    known = Scene.of(scene)
    if known.array.chunks is None:
        raise InputError(
            "the scene is no Dask array; chunk it with scene.chunk(y=512, x=512), or map it with "
            "polyad.map_scene"
        )
    fitted = as_scene_model(model, known, window)
    if adapt:
        fitted = adapt_model(fitted, known, adapt)
    known = fitted.view(known)
    fitted.check_classes("map its scene with polyad.map_file")
    for reason, refused in (
        ("bands of the scene must be interpolated to its wavelengths", known.array.chunks is None),
        ("it has steps that look beyond a block", bool(fitted.recipe and fitted.recipe.steps)),
        ("its classes are merged", fitted.merging is not None),
    ):
        if refused:
            raise InputError(
                f"the model cannot map a scene lazily: {reason}; map it with polyad.map_file"
            )
    from dask.array import overlap
    from dask.delayed import delayed

    lap: Any = overlap  # it has no types
    halo, pixels = _reach(fitted), masked(known.array).data.rechunk({2: -1})
    # An axis no longer than the halo is in one block already and reflected over and over
    depth = {axis: halo if known.shape[axis] > halo else 0 for axis in (0, 1)} | {2: 0}
    pixels = pixels.rechunk(
        tuple(lap.ensure_minimum_chunksize(depth[k], c) for k, c in enumerate(pixels.chunks))
    )
    chunks = [*pixels.chunks[:2]]
    if halo:
        pixels = lap.overlap(pixels, depth, boundary="none")
    dtype = class_dtype(fitted.classes)
    coords: dict[Hashable, Any] = {**known.map_coords}
    # One key in the graph, so that a worker is sent the model once
    once = delayed(fitted, pure=False)
    options: dict[str, Any] = {"fitted": once, "nodata": known.nodata, "shares": probabilities}
    if probabilities:
        chunks.append((len(fitted.classes),))
        options |= {"dtype": np.float32, "meta": np.empty((0, 0, 0), np.float32)}
        proba = pixels.map_blocks(_classify, **options, chunks=chunks)
        coords["class"] = [c.name for c in fitted.classes]
        return xr.DataArray(proba, dims=("y", "x", "class"), coords=coords).rename(None)
    options |= {"drop_axis": 2, "dtype": dtype, "meta": np.empty((0, 0), dtype)}
    ids = pixels.map_blocks(_classify, **options, chunks=chunks)
    lazy = xr.DataArray(ids, dims=("y", "x"), coords=coords).rename(None)  # Dask brings a name
    return with_classes(lazy, fitted.classes).assign_attrs(_FillValue=UNLABELED)


def _reach(model: SceneModel) -> int:
    """Return how many pixels beyond a block decide its map."""
    return model.window // 2 + (0 if model.soundness is None else HALO)


def _classify(
    values: Array,
    fitted: SceneModel,
    nodata: float | None,
    shares: bool,
    block_info: Mapping[int, Any] | None = None,
) -> Array:
    """Classify one block that has its neighbors' pixels on the inner sides."""
    if block_info is None or not values.size:  # Dask asks for the type only
        return np.empty((0,) * (3 if shares else 2), np.float32 if shares else np.uint8)
    place, halo, beyond = block_info[0], fitted.window // 2, _reach(fitted)
    if fitted.soundness is not None:
        values = despike(values, nodata, fitted.soundness)[0]
    index = []
    for axis in (0, 1):
        number, last = place["chunk-location"][axis], place["num-chunks"][axis] - 1
        length = values.shape[axis]
        inner = slice(beyond * (number > 0), length - beyond * (number < last))
        # Where the scene ends so does the block, so reflecting in one is reflecting in the other
        index.append(halo_index(inner, halo, length))
    classify = block_classifier(fitted, nodata, shares)
    ids, proba = classify(Block(values, index[0], index[1]))
    return ids if proba is None else proba
