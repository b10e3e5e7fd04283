"""What the search tries: readers of scenes and labels, model files, journals and requests.

A target is given bytes, makes of them what a stranger could send, and hands it to polyad. It must
end, or end in one of polyad's own errors; anything else is a finding.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import random
import shutil
import socket
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


def _enmap(data: bytes, folder: Path) -> None:
    (folder / "E-SPECTRAL_IMAGE.TIF").write_bytes(_good("scene.tif")["scene.tif"])
    (folder / "E-METADATA.XML").write_bytes(data)
    _open(folder)


_ENMAP = b"<level_X><bandCharacterisation>%b</bandCharacterisation></level_X>" % b"".join(
    b'<bandID number="%d"><wavelengthCenterOfBand>%d</wavelengthCenterOfBand><FWHMOfBand>9'
    b"</FWHMOfBand><GainOfBand>0.0001</GainOfBand><OffsetOfBand>0</OffsetOfBand></bandID>"
    % (k, 450 - 10 * k)
    for k in (1, 2, 3)
)
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


def _crs(data: bytes, folder: Path) -> None:
    from polyad.scene.read.formats.crs import parse_crs

    parse_crs(folder / "x.nc", data.decode("utf-8", "replace"))


_CRS = [
    b"EPSG:32633",
    b"urn:ogc:def:crs:OGC:1.3:CRS84",
    b'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257]],UNIT["degree",0.0174]]',
    b'{"type":"GeographicCRS","name":"x","datum":{"type":"GeodeticReferenceFrame","name":"d",'
    b'"ellipsoid":{"name":"e","semi_major_axis":6378137,"inverse_flattening":298.2}},'
    b'"coordinate_system":{"subtype":"ellipsoidal","axis":[{"name":"Longitude","abbreviation":"lon",'
    b'"direction":"east","unit":"degree"},{"name":"Latitude","abbreviation":"lat",'
    b'"direction":"north","unit":"degree"}]}}',
]


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


# The labeling page: journals, commands and raw requests

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


@functools.cache
def a_page() -> tuple[int, str]:
    """Start a page and return its port and token."""
    from polyad.app import Settings, prepare

    folder = Path(tempfile.mkdtemp())
    settings = Settings(window=3, preset="fast", parameters={"hidden": 2, "epochs": 2})
    page = prepare(a_scene(), journal=folder / "j.jsonl", settings=settings).start()
    atexit.register(shutil.rmtree, folder, True)
    atexit.register(page.stop)
    address, _, token = page.url.rstrip("/").rpartition("/")
    return int(address.rpartition(":")[2]), token


def _request(data: bytes, _: Path) -> None:
    port, token = a_page()
    raw = data.replace(b"TOKEN", token.encode()).replace(b"PORT", str(port).encode())
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.settimeout(0.5)
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        try:
            answer = connection.recv(64)
        except TimeoutError:
            return  # it waits for the rest of a request that is not one yet
    status = answer.split(b" ")[1:2]
    if status and status[0].startswith(b"5"):
        raise AssertionError(f"the page answered {answer!r}")


def _requests() -> list[bytes]:
    host = b"Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\n"
    gets = (b"", b"api/state", b"api/spectrum?row=1&col=2", b"api/means", b"static/page.css",
            b"api/scene/0/0/0?r=0&g=1&b=2&low=2&high=98", b"api/map/0/0/0",
            b"api/class?row=1&col=1", b"api/uncertainty/0/0/0", b"api/labels/csv",
            b"api/labels/tif", b"api/files/map.tif")  # fmt: skip
    posts = {b"api/do": pack(_COMMANDS[0]), b"api/labels/csv": b"row,col,class\n0,0,1\n"}
    heads = [(b"GET /TOKEN/" + path, b"", b"") for path in gets]
    heads += [(b"POST /TOKEN/" + path, b"Content-Type: application/json\r\nContent-Length: %d\r\n"
               % len(body), body) for path, body in posts.items()]  # fmt: skip
    chunked = (b"Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n")
    heads += [(b"POST /TOKEN/api/do", *chunked), (b"OPTIONS *", b"", b""), (b"GET ?", b"", b"")]
    heads += [(b"CONNECT 127.0.0.1:PORT", b"", b"")]
    return [b"%b HTTP/1.1\r\n%b%b\r\n%b" % (what, host, more, body) for what, more, body in heads]


TARGETS: dict[str, Target] = {
    "geotiff": _file("scene.tif"),
    "npy": _file("scene.npy", words=(b"shape", b"|O")),
    "envi": _file("scene.hdr", _ENVI, words=(b"{", b"}", b"bands", b"1e9")),
    "enmap": Target(lambda: [_ENMAP], _enmap, words=(b"<!DOCTYPE x [", b"<!ENTITY", b"bandID")),
    "labels-wkb": Target(_wkbs, _wkb, words=(b"\x01\x07\0\0\0", b"\xff\xff\xff\x7f")),
    "labels-fgb": _file("labels.fgb"),
    "crs": Target(lambda: _CRS, _crs, words=(b"EPSG:", b"GEOGCS[", b"AUTHORITY[", b"PROJCRS[")),
    "labels-tiff": _file("labels.tif"),
    "labels-pam": _file("labels.tif.aux.xml", _PAM, of="labels.tif", words=(b"<F>",)),
    "labels-png": _file("labels.png"),
    "labels-csv": _file("labels.csv", *_CSV, words=(b"row", b'"')),
    "labels-geojson": Target(
        lambda: [pack(json.loads(_good("labels.geojson")["labels.geojson"]))], _geojson, tree=True
    ),
    "labels-mat": _file("labels.mat"),
    "model": Target(lambda: [a_model("fast")], _model),
    "model-header": Target(_model_headers, _model_header, tree=True),
    "journal": Target(_journals, _journal, words=(b'{"do":',)),
    "commands": Target(lambda: [pack(_COMMANDS)], _commands, tree=True),
    "requests": Target(_requests, _request, words=(b"TOKEN", b"PORT", b"\r\n", b"HTTP/1.0")),
}
