"""What is to be mapped and where to: made from headers alone, before any pixel is classified."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from glob import glob
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import xarray as xr

from polyad.distributed.worker import SceneSource, versions
from polyad.errors import InputError, SceneError
from polyad.scene.files.paths import check_apart, split_key
from polyad.scene.learn.adaptation import find_adaptation
from polyad.scene.learn.model import SceneModel, fingerprint
from polyad.scene.map.classifier import as_scene_model
from polyad.scene.map.mapping import scene_tiles, with_classes_for_maps
from polyad.scene.map.outputs import check_map_kind
from polyad.scene.map.refining import warn_of_other_scene
from polyad.scene.map.sets import set_rule
from polyad.scene.raster.mask import packed
from polyad.scene.raster.prediction_sets import SetRule
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.tiles import Tile
from polyad.scene.read.classes import Colors
from polyad.scene.read.masks import restrict_scene
from polyad.scene.read.scenes import open_scene

BAND_COORDS = ("wavelength", "number")
AnySource = str | os.PathLike[str] | xr.DataArray


@dataclass(frozen=True)
class ScenePlan:
    """One scene, its tiles and its output.

    Attributes
    ----------
    source : SceneSource
        For the workers.
    scene : DataArray
        Opened lazily, for its georeference.
    tiles : list of Tile
        In the order in which the output is written.
    out : Path
    probabilities, uncertainty : Path or None
    sets : SetRule or None
        By which prediction sets are written beside the map.
    digest : str
        Names this scene mapped by this model in these tiles: tiles kept under another digest are
        tiles of another map.
    """

    source: SceneSource
    scene: xr.DataArray
    tiles: list[Tile]
    out: Path
    probabilities: Path | None
    uncertainty: Path | None
    sets: SetRule | None
    digest: str

    @property
    def shares(self) -> bool:
        """Whether the probabilities of tiles are needed."""
        return any(v is not None for v in (self.probabilities, self.uncertainty, self.sets))

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.scene.sizes["y"] * self.scene.sizes["x"]


def plan_scene(
    model: Any,
    source: AnySource,
    out: Path,
    *,
    probabilities: Path | None = None,
    uncertainty: Path | None = None,
    coverage: float | None = None,
    merge: str | Sequence[str] = (),
    colors: Colors | None = None,
    tile: int | None = None,
    max_bytes: int | None = None,
    mask: str | os.PathLike[str] | None = None,
    bbox: Sequence[float] | None = None,
    adapt: bool | None = None,
) -> tuple[SceneModel, ScenePlan]:
    """Open a scene, see that the model fits it, and cut it into tiles."""
    source = source if isinstance(source, str | os.PathLike) else as_scene(source)
    if isinstance(source, xr.DataArray):
        location: str | xr.DataArray = _lazy(source)
        scene = source
    else:
        location = absolute(os.fspath(source))
        scene = open_scene(location, max_bytes=max_bytes)
    scene = restrict_scene(scene, mask=mask, bbox=bbox, max_bytes=max_bytes)
    fitted = with_classes_for_maps(as_scene_model(model, scene), merge, colors)
    check_map_kind(fitted, out, probabilities)
    adaptation = find_adaptation(fitted, scene, adapt)
    mapping = fitted if adaptation is None else adaptation.apply(fitted)
    viewed = mapping.view(scene)
    warn_of_other_scene(mapping, viewed)
    rule = None if coverage is None else set_rule(mapping, coverage, viewed)
    tiles = scene_tiles(scene, tile, fitted)
    about = {
        "model": model_digest(mapping),
        "scene": _stamp(viewed),
        "bands": [str(viewed[k].values.tolist()) for k in BAND_COORDS if k in viewed.coords],
        "nodata": str(viewed.rio.nodata),
        "mask": hashlib.sha256(packed(scene) or b"").hexdigest(),
        "tile": tiles[0].shape,
        "probabilities": any(v is not None for v in (probabilities, uncertainty, rule)),
        "versions": versions(),
    }
    digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    where = (scene.shape, scene.dtype.str, packed(scene))
    scene_source = SceneSource(location, *where, adaptation)
    outputs = (out, probabilities, uncertainty, rule)
    return fitted, ScenePlan(scene_source, scene, tiles, *outputs, digest)


def find_scenes(patterns: Sequence[str]) -> list[str]:
    """Return the scenes that names and patterns such as ``scenes/*.hdr`` stand for, each once.

    Raises
    ------
    SceneError
        A pattern matches no file.
    """
    scenes: dict[str, None] = {}  # in order, each once
    for pattern in patterns:
        if Path(pattern).exists() or not any(c in pattern for c in "*?["):
            scenes[pattern] = None
            continue
        matches = sorted(glob(pattern, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise SceneError(f"{pattern}: no file matches this pattern; check it with ls")
        scenes |= dict.fromkeys(matches)
    return list(scenes)


def outputs_for(sources: Sequence[str], out_dir: Path, ending: str) -> list[Path]:
    """Return ``out_dir/<scene's name><ending>`` for each scene; refuse two of the same name."""
    names: dict[str, str] = {}
    for source in sources:
        path, key = (source, None) if Path(source).exists() else split_key(source)
        name = Path(path).stem + ("" if key is None else "-" + key.strip("/").replace("/", "-"))
        if name in names:
            raise InputError(
                f"{names[name]} and {source} would both be mapped to {out_dir / (name + ending)}; "
                "map them into different folders"
            )
        names[name] = source
    outs = [out_dir / (name + ending) for name in names]
    for out in outs:
        check_apart(out, sources)
    return outs


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
    digest = hashlib.sha256(type(estimator).__name__.encode())
    for field in fields(model):
        if field.name not in ("estimator", "training", "statistics", "held_out", "cache"):
            digest.update(str(joblib.hash(getattr(model, field.name))).encode())
    steps = () if model.recipe is None else model.recipe.steps
    if any(step["step"] == "propagate" for step in steps):
        pixels = np.asarray(model.training.get("pixels", []), np.int64)
        digest.update(str(model.training.get("scene")).encode() + pixels.tobytes())
    network = getattr(estimator, "network_", None)
    if network is None:
        digest.update(str(joblib.hash(estimator)).encode())
        return digest.hexdigest()
    digest.update(repr((network, sorted(estimator.get_params(deep=False).items()))).encode())
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
    scaler = getattr(estimator, "scaler_", None)
    digest.update(str(joblib.hash(None if scaler is None else vars(scaler))).encode())
    return digest.hexdigest()


def _lazy(scene: xr.DataArray) -> xr.DataArray:
    """Return a scene that can be sent as a path and a few numbers; refuse any other."""
    if scene.chunks is not None:
        raise InputError(
            "the scene is a Dask array: map it lazily with polyad.distributed.map_lazy, or pass "
            "the path of its file"
        )
    if scene.variable._in_memory:
        raise InputError(
            f"the scene lies in memory ({scene.nbytes:,} bytes): workers read their own windows, "
            "so pass the path of its file, or map it here with polyad.map_scene"
        )
    return scene


def _stamp(scene: xr.DataArray) -> dict[str, Any]:
    """Return what changes when the scene does: its size, a few pixels, its file's date."""
    file = scene.encoding.get("source")
    try:
        status = Path(file).stat() if file else None
    except OSError:
        status = None
    return {
        "shape": scene.shape,
        "dtype": scene.dtype.str,
        "pixels": fingerprint(scene),
        "file": None if status is None else [status.st_size, status.st_mtime_ns],
    }
