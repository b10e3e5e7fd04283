"""Raw bytes at the page's door: every request is answered, refused or hung up on, in time."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, repeat

import httpx
import pytest

from polyad.app import access
from tests.waiting import PATIENCE, wait_until

SLOW = 0.5  # seconds, instead of those that a person's browser gets

HEADS = [
    "OPTIONS * HTTP/1.1", "CONNECT {host} HTTP/1.1", "GET ? HTTP/1.1", "GET * HTTP/1.1",
    "GET http://{host}{token} HTTP/1.1", "GET http:// HTTP/1.1", "GET //{host}/ HTTP/1.1",
    "GET {token}%zz%ff%00%c0%ae HTTP/1.1", "GET /%ff HTTP/1.1",
    "GET {token}api/state?%ff=%zz HTTP/1.1",
    "GET {token} HTTP/1.0", "GET {token} HTTP/0.9", "GET {token} HTTP/9.9", "PRI * HTTP/2.0",
    "GET {token}\0 HTTP/1.1", "GET {token}\xe4 HTTP/1.1", "GET  {token} HTTP/1.1", "GET", "\0\0",
    "BREW {token} HTTP/1.1", "HEAD {token} HTTP/1.1", "TRACE {token} HTTP/1.1",
    "DELETE {token}api/state HTTP/1.1", "GET {token}static/%F0%9F%98%80 HTTP/1.1",
    "GET {token}api/spectrum?row=" + "9" * 5000 + "&col=1 HTTP/1.1",
    "GET {token}api/map/" + "9" * 5000 + "/0/0 HTTP/1.1", "GET /" + "a" * 70_000 + " HTTP/1.1",
    "\x16\x03\x01\x02\x00\x01\x00\x01",
]  # fmt: skip
FIELDS = [
    "Origin: http://[", "Origin: http://[::1", "Origin: \xff\xfe", "Origin:", "Origin: null",
    "Origin: http://{host}\r\nOrigin: http://evil.example", "Host: [", "Host: [::1]:x", "Host:",
    "Host: \xff", "Host: a\r\nHost: b", "Host: {host}:{host}", "Content-Length: -1",
    "Content-Length: x", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: " + "9" * 5000,
    "Content-Length: 1e3", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x",
    "Upgrade: h2c\r\nConnection: Upgrade", "Expect: 100-continue", "Expect: x",
    "A" * 40_000 + ": b",
    "\r\n".join(f"h{k}: v" for k in range(5000)), "no colon", ": empty", " folded", "a\0b: c",
    "Content-Type: \xff", "Cookie: \0",
]  # fmt: skip
BODIES = [
    ("Transfer-Encoding: chunked", b"zz\r\nx"), ("Transfer-Encoding: chunked", b"-1\r\nx"),
    ("Transfer-Encoding: chunked", b"f" * 40 + b"\r\nx"),
    ("Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 9", b"2\r\n{}\r\n0\r\n\r\n"),
    ("Content-Length: 2", b'{}GET / HTTP/1.1\r\n\r\nrubbish\r\n\r\n'),
    ("Content-Length: 0", b"\0" * 100), ("Content-Length: 12", b'{"do":"\xff"}'),
    ("Content-Length: 14", b'{"do":"\\ud800"'),
]  # fmt: skip


def talk(page, raw):
    """Send bytes and return all that comes back until the server hangs up."""
    where = httpx.URL(page.url)
    names = {"{host}": f"{where.host}:{where.port}", "{token}": where.path}
    for name, value in names.items():
        raw = raw.replace(name.encode(), value.encode())
    with socket.create_connection((where.host, where.port), timeout=PATIENCE) as line:
        try:
            line.sendall(raw)
            return b"".join(iter(lambda: line.recv(65536), b""))
        except ConnectionError:  # hung up on: fine too
            return b""


def raw_requests():
    for head in HEADS:
        for rest in ("Host: {host}\r\nConnection: close\r\n\r\n", "Host: {host}\r\n\r\n", "\r\n"):
            yield f"{head}\r\n{rest}".encode("latin-1")
    for field in FIELDS:
        host = "" if field.startswith("Host") else "Host: {host}\r\n"
        for target in ("/", "{token}api/state"):
            yield f"GET {target} HTTP/1.1\r\n{host}{field}\r\n\r\n".encode("latin-1")
            yield f"POST {target} HTTP/1.1\r\n{host}{field}\r\n\r\n".encode("latin-1")
    for field, body in BODIES:
        for target in ("/", "{token}api/do", "{token}api/labels/csv", "{token}api/state"):
            yield (f"POST {target} HTTP/1.1\r\nHost: {{host}}\r\nContent-Type: application/json\r\n"
                   f"{field}\r\n\r\n").encode() + body  # fmt: skip
    pipelined = b"GET {token}api/state HTTP/1.1\r\nHost: {host}\r\n\r\n"
    yield pipelined * 5 + b"rubbish\r\n\r\n"
    yield pipelined + b"\0" * 1000
    yield b""


def test_no_request_brings_a_500_or_a_word_in_the_terminal(
    page, client, caplog, capfd, monkeypatch
):
    monkeypatch.setattr(access, "HEAD_SECONDS", SLOW)
    monkeypatch.setattr(access, "BODY_SECONDS", SLOW)
    requests = list(raw_requests())
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda raw: talk(page, raw), requests))
    for raw, answer in zip(requests, answers, strict=True):
        codes = [reply.split()[0] for reply in answer.split(b"HTTP/1.1 ")[1:] if reply.strip()]
        assert all(code[:1] in b"24" or code == b"100" for code in codes), (raw[:200], codes)
    assert sum(map(bool, answers)) > 0.8 * len(requests)
    assert client.get("api/state").status_code == 200
    assert caplog.records == []
    assert capfd.readouterr().err == ""


def test_a_bug_is_told_in_one_sentence_and_one_line(page, client, caplog, monkeypatch):
    monkeypatch.setattr(page.workspace, "state", lambda: 1 / 0)
    answer = client.get("api/state")
    assert answer.status_code == 500
    assert "labels already given are safe" in answer.json()["error"]
    wait_until(lambda: caplog.records)  # the answer is sent before the line is logged
    assert [r.getMessage() for r in caplog.records] == [
        "GET /api/state: ZeroDivisionError: division by zero"
    ]
    assert caplog.records[0].exc_info is None


def connect(page):
    where = httpx.URL(page.url)
    return socket.create_connection((where.host, where.port), timeout=PATIENCE)


HALVES = {
    "silent": [b""],
    "half a head": [b"GET / HTTP/1.1\r\nHost"],
    "half a body": [b"POST {token}api/do HTTP/1.1\r\nHost: {host}\r\nContent-Type: "
                    b"application/json\r\nContent-Length: 100\r\n\r\n{"],
    "half a second request": [b"GET {token}api/state HTTP/1.1\r\nHost: {host}\r\n\r\n", b"GET / H"],
    "a trickle": [b"GET / HTTP/1.1\r\n"],
}  # fmt: skip


@pytest.mark.parametrize("name", HALVES)
def test_half_a_request_is_hung_up_on(page, monkeypatch, caplog, capfd, name):
    monkeypatch.setattr(access, "HEAD_SECONDS", SLOW)
    monkeypatch.setattr(access, "BODY_SECONDS", SLOW)
    where = httpx.URL(page.url)
    with connect(page) as line:
        end = time.monotonic() + PATIENCE
        try:
            trickle = repeat(b"a: b\r\n") if name == "a trickle" else ()
            for piece in chain(HALVES[name], trickle):
                piece = piece.replace(b"{host}", f"{where.host}:{where.port}".encode())
                line.sendall(piece.replace(b"{token}", where.path.encode()))
                time.sleep(0.02)
                assert time.monotonic() < end
            while line.recv(65536):
                pass
        except ConnectionError:
            pass
    assert caplog.records == []
    assert capfd.readouterr().err == ""


def test_a_request_that_takes_long_to_answer_is_waited_for(page, client, monkeypatch):
    clocks = []

    def state():
        clocks.extend(each.waiting for each in page._server.server_state.connections)
        return {}

    monkeypatch.setattr(page.workspace, "state", state)
    assert client.get("api/state").status_code == 200
    assert clocks == [False]


def test_half_open_connections_do_not_lock_the_user_out(page, client, monkeypatch):
    monkeypatch.setattr(access, "MAX_WAITING", 20)
    lines = [connect(page) for _ in range(60)]
    try:
        assert client.get("api/state").status_code == 200
        assert httpx.get(f"{page.url}api/state", timeout=PATIENCE).status_code == 200
        with suppress(ConnectionResetError):
            assert lines[0].recv(1) == b""  # the oldest made room
        assert len(page._server.server_state.connections) < 30
    finally:
        for line in lines:
            line.close()
