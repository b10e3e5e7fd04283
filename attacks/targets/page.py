"""The labeling page: journals, commands and raw requests."""

from __future__ import annotations

import atexit
import functools
import shutil
import socket
import tempfile
from pathlib import Path

from attacks import builders
from attacks.targets.base import Target, Uninteresting, a_scene, from_file, from_tree
from attacks.trees import Tree, pack


@functools.cache
def a_journal() -> bytes:
    """Return a journal with a few labels."""
    from polyad.app.labels import Session

    def write(path: Path) -> None:
        session = Session(a_scene(), None, path)
        for command in _COMMANDS:
            session.do(dict(command))
        session.close()

    return builders.saved(write, "j.jsonl")


_COMMANDS: list[Tree] = [
    {"do": "add", "name": "Corn"},
    {"do": "add", "name": "Oats", "color": "#EE7733"},
    {"do": "label", "class": 1, "pixels": [[0, 0], [1, 1]]},
    {"do": "label", "class": 2, "pixels": [[2, 2]]},
    {"do": "undo"},
    {"do": "redo"},
]


def _journal(path: Path) -> None:
    from polyad.app.labels import Session

    Session(a_scene(), None, path).close()


def _commands(tree: Tree, folder: Path) -> None:
    """Give a session commands, then open what it wrote: the same labels must be there."""
    from polyad.app.labels import Session
    from polyad.errors import PolyadError

    if not isinstance(tree, list):
        raise Uninteresting
    path = folder / "j.jsonl"
    session = Session(a_scene(), None, path)
    for command in tree[:50]:
        try:
            session.do(command)
        except PolyadError:
            continue
    before = session.snapshot()
    session.close()
    again = Session(a_scene(), None, path)
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


def _request(data: bytes, folder: Path) -> None:
    del folder
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


_HOST = b"Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\n"


def _requests() -> list[bytes]:
    body = pack(_COMMANDS[0])
    csv = b"row,col,class\n0,0,1\n"
    gets = (b"", b"api/state", b"api/spectrum?row=1&col=2", b"api/means", b"static/page.css",
            b"api/scene/0/0/0?r=0&g=1&b=2&low=2&high=98", b"api/map/0/0/0",
            b"api/class?row=1&col=1", b"api/uncertainty/0/0/0", b"api/labels/csv",
            b"api/labels/tif", b"api/files/map.tif")  # fmt: skip
    return [
        *(b"GET /TOKEN/%b HTTP/1.1\r\n%b\r\n" % (path, _HOST) for path in gets),
        b"POST /TOKEN/api/do HTTP/1.1\r\n%bContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (_HOST, len(body), body),
        b"POST /TOKEN/api/labels/csv HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b"
        % (_HOST, len(csv), csv),
        b"OPTIONS * HTTP/1.1\r\n%b\r\n" % _HOST,
        b"CONNECT 127.0.0.1:PORT HTTP/1.1\r\n%b\r\n" % _HOST,
        b"GET ? HTTP/1.1\r\n%b\r\n" % _HOST,
        b"POST /TOKEN/api/do HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        % _HOST,
    ]


PAGE = {
    "journal": Target(lambda: [a_journal()], from_file("j.jsonl", _journal), words=(b'{"do":',)),
    "commands": Target(lambda: [pack(_COMMANDS)], from_tree(_commands), tree=True),
    "requests": Target(_requests, _request, words=(b"TOKEN", b"PORT", b"\r\n", b"HTTP/1.0")),
}
