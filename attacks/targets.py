"""What the search tries: what the main process reads of scenes and labels, models, journals.

A target is given bytes, makes of them what a stranger could send, and hands it to polyad. It must
end, or end in one of polyad's own errors; anything else is a finding.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attacks import formats, vectors
from attacks.trees import Tree, mutate, pack, unpack
from polyad.errors import PolyadError, SceneError
from polyad.scene.read.scenes import open_scene, scene_from_array

BUDGET = 20_000_000  # bytes that may be read at once


class Uninteresting(Exception):
    """The bytes make no file that could be sent."""


@dataclass(frozen=True)
class Target:
    """One thing to attack.

    Attributes
    ----------
    seeds : callable
        Returns good inputs to begin with.
    attempt : callable
        Takes an input and an empty folder.
    tree : bool
        Inputs are JSON text of trees, changed node by node; else bytes.
    words : tuple of bytes
        What the format is made of, for changes of bytes.
    """

    seeds: Callable[[], list[bytes]]
    attempt: Callable[[bytes, Path], None]
    tree: bool = False
    words: tuple[bytes, ...] = ()


def changed(target: Target, data: bytes, rng: random.Random) -> bytes | None:
    """Return ``data`` changed by one who knows its form; None where chance is to change it."""
    if target.tree:
        try:
            return pack(mutate(unpack(data), rng))
        except (ValueError, RecursionError):
            return None
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8))
    match rng.randrange(8):
        case 0:  # a length, an offset or a count, in either byte order
            at -= at % size
            value = rng.choice((0, 1, 0x7F, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**62))
            raw = (value % 256**size).to_bytes(size, rng.choice(("little", "big")))
            return data[:at] + raw + data[at + size :]
        case 1 if target.words:
            return data[:at] + rng.choice(target.words) + data[at + rng.choice((0, 0, 4, 16)) :]
        case 2:
            start = rng.randrange(len(data) + 1)
            piece = data[start : start + rng.choice((4, 16, 64, 256))]
            return data[:at] + piece * rng.choice((1, 1, 1, 50)) + data[at + len(piece) :]
        case 3:
            return data[:at] if rng.random() < 0.3 else data[:at] + data[at + rng.randrange(20) :]
    return None


@functools.cache
def a_scene() -> Any:
    """Return a small georeferenced scene."""
    return scene_from_array(formats.CUBE, crs="EPSG:32633", transform=formats.PLACE)


# Files


def _open(path: Path) -> None:
    """Open a file as `polyad info` and `polyad train` do, by what it is called."""
    from polyad.scene.info import describe
    from polyad.scene.read.labels import open_labels

    if path.name.startswith("labels"):
        try:
            open_labels(path, a_scene(), max_bytes=BUDGET)
        except PolyadError:
            open_labels(path, max_bytes=BUDGET)
        return
    describe(str(path), max_bytes=BUDGET)
    scene = open_scene(path, max_bytes=BUDGET)
    if scene.nbytes <= BUDGET:
        scene.load()
    scene.isel(y=slice(0, 2), x=slice(0, 2)).load()


@functools.cache
def _good(name: str) -> dict[str, bytes]:
    """Return the content of a good file of a name, and of the files beside it."""
    with tempfile.TemporaryDirectory() as folder:
        formats.WRITERS[name](Path(folder) / name)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _file(name: str, *seeds: bytes, of: str = "", words: tuple[bytes, ...] = ()) -> Target:
    """Return the target that is the file ``name``, or lies beside the file ``of``."""
    beside = of or name

    def attempt(data: bytes, folder: Path) -> None:
        for file, content in (_good(beside) | {name: data}).items():
            (folder / file).write_bytes(content)
        _open(folder / beside)

    return Target(lambda: [*seeds] or [_good(beside)[name]], attempt, words=words)


_ENVI = (
    b"ENVI\ndescription = {a {b} c}\nsamples = 4\nlines = 4\nbands = 1\nheader offset = 0\n"
    b"data type = 1\ninterleave = bip\nbyte order = 0\nwavelength units = Nanometers\n"
    b"wavelength = {450}\nfwhm = {9}\nbbl = {1}\ndata ignore value = -9\n"
    b"map info = {UTM, 1, 1, 500000, 5000000, 30, 30, 33, North, WGS-84}\n"
    b'coordinate system string = {GEOGCS["WGS 84"]}\nband names = {a}\n'
    b"data gain values = {0.1}\nreflectance scale factor = 10000\n"
)
_PAM = (
    b'<PAMDataset><PAMRasterBand band="1"><CategoryNames><Category>a</Category></CategoryNames>'
    b'<GDALRasterAttributeTable><FieldDefn index="0"><Name>Value</Name><Type>0</Type><Usage>5'
    b'</Usage></FieldDefn><Row index="0"><F>1</F></Row></GDALRasterAttributeTable></PAMRasterBand>'
    b"</PAMDataset>"
)
_CSV = [
    b"row,col,class,name,color\n0,0,1,Corn,#4477AA\n1,2,2,Oats,#EE7733\n",
    b"lon;lat;class\n15.0005;45.1534;Corn\n15.0009;45.1533;Oats\n",
    "\ufeffx,y,class\r\n500015,4999985,3\r\n".encode(),
]


def _geojson(data: bytes, folder: Path) -> None:
    (folder / "labels.geojson").write_bytes(pack(_tree(data)))
    _open(folder / "labels.geojson")


def _tree(data: bytes) -> Tree:
    try:
        return unpack(data)
    except (ValueError, RecursionError) as error:
        raise Uninteresting from error


def _wkb(data: bytes, _: Path) -> None:
    from polyad.scene.read.rasterize import parts_of_wkb

    try:
        parts_of_wkb(data)
    except ValueError as error:  # what its caller expects
        raise SceneError(str(error)) from error


def _wkbs() -> list[bytes]:
    ring = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)]
    single = [vectors.point(1.0, 2.0), vectors.line(*ring), vectors.polygon(ring, ring)]
    return [*single, vectors.multi(7, *single), vectors.multi(6, single[2], single[2])]


# Models: their bytes, and headers whose checksum is right


@functools.cache
def a_model(preset: str) -> bytes:
    """Return the file of a small model."""
    import xarray as xr

    from polyad.scene.learn.training import train

    labels = xr.DataArray(formats.IDS.astype(np.uint16), dims=("y", "x"))
    model = train(a_scene(), labels, window=3, hidden=2, epochs=2, preset=preset)
    return formats.saved(model.save, "x.polyad")


def _parts(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(data)
        with safe_open(path, framework="pt") as content:
            tensors = {name: content.get_tensor(name).clone() for name in content.keys()}  # noqa: SIM118
            return json.loads(content.metadata()["polyad"]), tensors


def _model_header(data: bytes, folder: Path) -> None:
    from safetensors.torch import save_file

    from polyad.estimators.file_format import digest_of

    tree = _tree(data)
    if not isinstance(tree, dict) or tree.get("preset") not in ("fast", "best"):
        raise Uninteresting
    _, tensors = _parts(a_model(tree["preset"]))
    try:
        header = json.dumps(tree["header"])
        header.encode()
    except (KeyError, ValueError, RecursionError) as error:
        raise Uninteresting from error
    digest = digest_of(header, {name: tensor.numpy() for name, tensor in tensors.items()})
    path = folder / "model.polyad"
    save_file(tensors, path, {"polyad": header, "sha256": digest})
    _model(path.read_bytes(), folder)


def _model(data: bytes, folder: Path) -> None:
    from polyad.scene.learn.model import SceneModel
    from polyad.scene.map.mapping import map_scene

    (folder / "model.polyad").write_bytes(data)
    map_scene(SceneModel.load(folder / "model.polyad"), a_scene())


def _model_headers() -> list[bytes]:
    presets = ("fast", "best")
    return [pack({"preset": preset, "header": _parts(a_model(preset))[0]}) for preset in presets]


# The labeling page: journals and commands

_COMMANDS: list[Tree] = [
    {"do": "add", "name": "Corn"},
    {"do": "add", "name": "Oats", "color": "#EE7733"},
    {"do": "label", "class": 1, "pixels": [[0, 0], [1, 1]]},
    {"do": "label", "class": 2, "pixels": [[2, 2]]},
    {"do": "undo"},
    {"do": "redo"},
]


def _journal(data: bytes, folder: Path) -> None:
    from polyad.app.labels import Session

    (folder / "j.jsonl").write_bytes(data)
    Session(a_scene(), None, folder / "j.jsonl").close()


def _journals() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        _commands(pack(_COMMANDS), Path(folder))
        return [(Path(folder) / "j.jsonl").read_bytes()]


def _commands(data: bytes, folder: Path) -> None:
    """Give a session commands, then open what it wrote: the same labels must be there."""
    from polyad.app.labels import Session

    tree = _tree(data)
    if not isinstance(tree, list):
        raise Uninteresting
    session = Session(a_scene(), None, folder / "j.jsonl")
    for command in tree[:50]:
        with contextlib.suppress(PolyadError):
            session.do(command)
    before = session.snapshot()
    session.close()
    again = Session(a_scene(), None, folder / "j.jsonl")
    after = again.snapshot()
    again.close()
    if before.labels != after.labels or before.classes != after.classes:
        raise AssertionError(f"labels {before.labels} became {after.labels}")


TARGETS: dict[str, Target] = {
    "npy": _file("scene.npy", words=(b"shape", b"|O")),
    "envi": _file("scene.hdr", _ENVI, words=(b"{", b"}", b"bands", b"1e9")),
    "labels-wkb": Target(_wkbs, _wkb, words=(b"\x01\x07\0\0\0", b"\xff\xff\xff\x7f")),
    "labels-pam": _file("labels.tif.aux.xml", _PAM, of="labels.tif", words=(b"<F>",)),
    "labels-csv": _file("labels.csv", *_CSV, words=(b"row", b'"')),
    "labels-geojson": Target(
        lambda: [pack(json.loads(_good("labels.geojson")["labels.geojson"]))], _geojson, tree=True
    ),
    "model": Target(lambda: [a_model("fast")], _model),
    "model-header": Target(_model_headers, _model_header, tree=True),
    "journal": Target(_journals, _journal, words=(b'{"do":',)),
    "commands": Target(lambda: [pack(_COMMANDS)], _commands, tree=True),
}
