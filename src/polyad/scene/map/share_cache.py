"""A cache beside the model: what label propagation gave each node of the training scene.

Propagating labels needs the whole scene, and gives the same for every map of it. So ``polyad
train`` keeps the result in ``<model>.cache/<key>.safetensors``, where the key is a digest of the
scene's content, the labels and the settings: another scene, or a scene that has changed in one
pixel, has another key. A file is read only if it has the key, the size and the values that it must
have; anything else is as if it were not there. The folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from polyad.atomic import replacing
from polyad.errors import OutputError, PolyadError
from polyad.scene.learn.scene_statistics import RunOnScene, run_here
from polyad.scene.raster.mask import packed, read_stored
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.tiles import TILE_BYTES

Array = npt.NDArray[Any]
FORMAT = 2
MARK = "polyad-shares"
CACHE_BYTES = 2**30  # of all files in the folder; the oldest give way
HEADER_BYTES = 4096
STRIPS = 4  # of a scene are read by one task: some hundredths of a second
LOWEST = -50.0  # of a log share; `log_shares` has a floor far above


def scene_digest(scene: xr.DataArray, run: RunOnScene | None = None) -> str:
    """Return a digest of every pixel of a scene as it is stored, its mask and its nodata value.

    ``run`` reads it strip by strip, threads here unless it is given.
    """
    scene = as_scene(scene)
    height, width, bands = scene.shape
    about = (scene.shape, scene.dtype.str, str(scene.rio.nodata))
    rows = max(TILE_BYTES // max(width * bands * scene.dtype.itemsize, 1), 1)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(packed(scene) or b"")
    run = run_here(scene) if run is None else run
    starts = range(0, height, rows)
    some = [starts[k : k + STRIPS] for k in range(0, len(starts), STRIPS)]
    for strips in run(_strip_digests, rows, some):
        digest.update(strips)
    return digest.hexdigest()


def _strip_digests(scene: xr.DataArray, rows: int, starts: range) -> bytes:
    """Return the digests of strips of so many rows of a scene, one after the other."""
    digests = []
    for start in starts:
        strip = read_stored(scene, slice(start, min(start + rows, scene.shape[0])), slice(None))
        digests.append(hashlib.sha256(np.ascontiguousarray(strip).data).digest())
    return b"".join(digests)


def share_key(
    scene: xr.DataArray,
    pixels: Array,
    targets: Array,
    settings: Mapping[str, Any],
    run: RunOnScene | None = None,
) -> str:
    """Return the name of what these labels propagate to; the whole scene is read for it."""
    about = {
        "format": FORMAT,
        "scene": scene_digest(scene, run),
        "pixels": np.asarray(pixels).tolist(),
        "targets": np.asarray(targets).tolist(),
        "settings": dict(settings),
    }
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def write_shares(folder: Path, key: str, nodes: Array, logs: Array) -> bool:
    """Keep what label propagation gave under its key; older files make room.

    A cache is a convenience: where it cannot be written, or would be too large, it is left out.

    Parameters
    ----------
    folder : Path
    key : str
        See `share_key`.
    nodes : ndarray of int, ``(height, width)``
        Node of each pixel, -1 where there is no data.
    logs : ndarray, ``(nodes, classes)``
        Log shares of the classes.

    Returns
    -------
    bool
        Whether it is kept.
    """
    arrays = {"nodes": np.ascontiguousarray(nodes, np.int32)}
    arrays["logs"] = np.ascontiguousarray(logs, np.float32)
    if sum(a.nbytes for a in arrays.values()) > CACHE_BYTES:
        return False
    about = {MARK: str(FORMAT), "key": key, "sha256": _checksum(key, arrays)}
    path = folder / f"{key}.safetensors"
    try:
        folder.mkdir(exist_ok=True)
        # Neither folder nor file may be a link: what it leads to is not ours to write to
        if folder.is_symlink() or (os.path.lexists(path) and not _is_kept(path)):
            return False
        with replacing(path) as temporary:
            temporary.write_bytes(to_bytes(arrays, about))
    except (OSError, OutputError):
        return False
    _make_room(folder, keep=key)
    return True


def read_shares(
    folder: Path, key: str, shape: tuple[int, int], classes: int
) -> tuple[Array, Array] | None:
    """Return the nodes and log shares that are kept under ``key``, or None.

    A file that is damaged, forged or of another scene counts as none.
    """
    path = folder / f"{key}.safetensors"
    pixels = shape[0] * shape[1]
    most = pixels * 4 * (1 + classes) + HEADER_BYTES  # every pixel a node
    try:
        if folder.is_symlink() or not _is_kept(path) or path.stat().st_size > most:
            return None
        with safe_open(path, framework="numpy") as content:
            about = content.metadata() or {}
            if set(content.keys()) != {"nodes", "logs"} or about.get("key") != key:
                return None
            forms = {name: content.get_slice(name) for name in ("nodes", "logs")}
            sizes = {name: tuple(form.get_shape()) for name, form in forms.items()}
            kinds = [form.get_dtype() for form in forms.values()]
            count = sizes["logs"][0] if sizes["logs"] else 0
            wanted = {"nodes": shape, "logs": (count, classes)}
            if sizes != wanted or kinds != ["I32", "F32"] or not 0 < count <= pixels:
                return None
            arrays = {name: content.get_tensor(name) for name in forms}
    except (OSError, PolyadError, SafetensorError, ValueError, MemoryError):
        return None
    if about.get("sha256") != _checksum(key, arrays) or not _sound(**arrays):
        return None
    with suppress(OSError):
        os.utime(path)  # used last: it gives way last
    return arrays["nodes"], arrays["logs"]


def _sound(nodes: Array, logs: Array) -> bool:
    """Whether every node exists, and every value is the logarithm of a share."""
    inside = nodes.min() >= -1 and nodes.max() < len(logs)
    return bool(inside and np.isfinite(logs).all() and logs.max() <= 0.01 and logs.min() >= LOWEST)


def _checksum(key: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(key.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _is_kept(path: Path) -> bool:
    """Whether this is a file that was written here, and no link to one."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK.encode() in file.read(HEADER_BYTES)


def _make_room(folder: Path, keep: str) -> None:
    """Remove the files used longest ago, until the others fit."""
    with suppress(OSError):
        kept = [path for path in folder.glob("*.safetensors") if _is_kept(path)]
        found = [(path.stat().st_mtime_ns, path.stat().st_size, path) for path in kept]
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= CACHE_BYTES:
                return
            if path.stem != keep:
                path.unlink()
                total -= size
