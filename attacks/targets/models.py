"""Model files: their bytes, and headers whose checksum is right."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from attacks import builders
from attacks.targets.base import Target, Uninteresting, a_scene, from_file, from_tree, packed
from attacks.trees import Tree


@functools.cache
def a_model(preset: str) -> bytes:
    """Return the file of a small model."""
    import xarray as xr

    from polyad.scene.learn.training import train

    scene = a_scene()
    labels = xr.DataArray((np.arange(20).reshape(4, 5) % 2 + 1).astype(np.uint16), dims=("y", "x"))
    model = train(scene, labels, window=3, hidden=2, epochs=2, preset=preset)
    return builders.saved(model.save, "x.polyad")


def _header_and_tensors(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(data)
        with safe_open(path, framework="pt") as content:
            tensors = {name: content.get_tensor(name).clone() for name in content.keys()}  # noqa: SIM118
            return json.loads(content.metadata()["polyad"]), tensors


def _model_header(tree: Tree, folder: Path) -> None:
    from safetensors.torch import save_file

    from polyad.estimators.model_file import digest_of

    if not isinstance(tree, dict) or tree.get("preset") not in ("fast", "best"):
        raise Uninteresting
    _, tensors = _header_and_tensors(a_model(tree["preset"]))
    try:
        header = json.dumps(tree["header"])
        header.encode()
    except (KeyError, ValueError, RecursionError) as error:
        raise Uninteresting from error
    path = folder / "model.polyad"
    digest = digest_of(header, {name: tensor.numpy() for name, tensor in tensors.items()})
    save_file(tensors, path, {"polyad": header, "sha256": digest})
    use_model(path)


def use_model(path: Path) -> None:
    """Load a model and map a scene with it."""
    from polyad.scene.learn.model import SceneModel
    from polyad.scene.map.mapping import map_scene

    map_scene(SceneModel.load(path), a_scene())


def _model_headers() -> list[Tree]:
    return [
        {"preset": preset, "header": _header_and_tensors(a_model(preset))[0]}
        for preset in ("fast", "best")
    ]


MODELS = {
    "model": Target(lambda: [a_model("fast")], from_file("model.polyad", use_model)),
    "model-header": Target(packed(_model_headers), from_tree(_model_header), tree=True),
}
