import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import httpx
import numpy as np
import pytest

from polyad.app import prepare, show
from polyad.app.access import AccessPolicy
from polyad.app.workspace import QUEUE, EventBus
from polyad.scene.read.labels import open_labels
from tests.waiting import PATIENCE

# -- what works ---------------------------------------------------------------------------------


def do(client, **command):
    return client.post("api/do", json=command)


def test_the_page_and_its_files_are_served_with_strict_headers(client):
    for name in ("", *(f"static/{f.name}" for f in (files("polyad.app") / "static").iterdir())):
        answer = client.get(name)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_page_asks_nothing_of_other_machines_and_writes_no_markup():
    for file in (files("polyad.app") / "static").iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        for word in ("http://", "https://", "innerHTML", "outerHTML", "insertAdjacent", "eval(",
                     "document.write", "onclick=\"", "style=\""):  # fmt: skip
            assert word not in text, f"{word} in {file.name}"
        assert len(text.splitlines()) < 400


def test_pictures_spectrum_means_and_class_under_the_pointer(client, page, scene, kit):
    kit.label_some(page.workspace.session)
    kit.wait_for(lambda: kit.finished(page.workspace.trainer))
    for name in ("scene/0/0/0?r=5&g=3&b=1", "map/0/0/0", "uncertainty/0/0/0"):
        answer = client.get(f"api/{name}")
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")
    spectrum = client.get("api/spectrum", params={"row": 4, "col": 5}).json()
    np.testing.assert_allclose(spectrum["values"], scene.values[4, 5], rtol=1e-4)
    assert client.get("api/means").json()["2"]["count"] == 5
    assert client.get("api/class", params={"row": 4, "col": 2}).json()["class"] == 1


@pytest.mark.parametrize("kind", ["csv", "geojson", "tif"])
def test_saved_labels_are_loaded_again_as_one_step(client, page, kit, kind):
    kit.label_some(page.workspace.session)
    before = client.get("api/state").json()["labels"]
    content = client.get(f"api/labels/{kind}").content
    for value in (1, 2, 3):
        do(client, do="delete", **{"class": value})
    answer = client.post(f"api/labels/{kind}", content=content)
    assert answer.status_code == 200
    after = client.get("api/state").json()
    assert sorted(after["labels"]) == sorted(before)
    if kind != "tif":
        assert [c["name"] for c in after["classes"]] == ["Water", "Corn", "Woods"]
    do(client, do="undo")
    assert client.get("api/state").json()["labels"] == []


def test_a_notebook_may_frame_the_page_and_others_may_not(scene, page, tmp_path, monkeypatch):
    assert (
        "frame-ancestors 'none'"
        in httpx.get(page.url, timeout=PATIENCE).headers["content-security-policy"]
    )
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path))
    shown = show(scene)
    try:
        policy = httpx.get(shown.url, timeout=PATIENCE).headers["content-security-policy"]
        assert "frame-ancestors http://localhost:*" in policy
        assert f'src="{shown.url}"' in shown._repr_html_()
    finally:
        shown.stop()


# -- what must not work -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:{port}"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://127.0.0.1:{port}"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"origin": "http://127.0.0.1:{port}"}, 200),
        ({"host": "localhost:{port}"}, 200),
    ],
)
def test_host_and_origin_decide_who_comes_in(page, headers, status):
    port = httpx.URL(page.url).port
    sent = {k: v.replace("{port}", str(port)) for k, v in headers.items()}
    answer = httpx.get(f"{page.url}api/state", headers=sent, timeout=PATIENCE)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "path", ["", "api/state", "static/main.js", "wrong/api/state", "x" * 32 + "/"]
)
def test_without_the_token_nothing_is_told(page, path):
    base = page.url.rsplit("/", 2)[0]
    answer = httpx.get(f"{base}/{path}", timeout=PATIENCE)
    assert answer.status_code == 403
    assert page.workspace.name not in answer.text


@pytest.mark.parametrize(
    "path",
    ["static/../server.py", "static/%2e%2e/server.py", "static/..%2f..%2fcli.py",
     "static//etc/passwd", "static/%2fetc%2fpasswd", "api/labels/..%2f..%2fx",
     "api/files/%2fetc%2fpasswd", "static/main.js%00.css", "..%2f..%2f..%2fetc%2fpasswd",
     "docs", "openapi.json"],
)  # fmt: skip
def test_no_path_leads_to_a_file(page, path):
    answer = raw_get(page.url, path)
    assert answer.split()[1] in (b"404", b"403", b"422")
    assert b"root:" not in answer
    assert b"import" not in answer


def raw_get(url, path):
    """Ask for a path as it stands; a client library would tidy it up first."""
    where = httpx.URL(url)
    with socket.create_connection((where.host, where.port), timeout=PATIENCE) as connection:
        connection.sendall(
            f"GET {where.path}{path} HTTP/1.1\r\nHost: {where.host}:{where.port}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ({"do": "label", "class": 1, "pixels": [[999, 0]]}, 422, "outside the scene"),
        ({"do": "label", "class": 1, "pixels": [["a", 0]]}, 422, "whole numbers"),
        ({"do": "label", "class": 1, "pixels": {"a": 1}}, 422, "list of"),
        ({"do": "load", "classes": [], "labels": []}, 422, "no such command"),
        ({"do": "add", "name": {"a": 1}}, 422, "must be text"),
        ({"do": "add", "name": "\ud800"}, 422, "visible characters"),
        ({"do": "\ud800"}, 422, "no such command"),
        ({"do": "label", "class": "\ud800" * 9999, "pixels": []}, 422, "no class"),
        ({"do": "label", "class": 9, "pixels": [], "stroke": "\ud800"}, 422, "no class 9"),
        ([1, 2], 422, "object"),
        ("x", 422, "object"),
    ],
)
def test_bad_commands_get_a_clear_answer(client, command, status, words):
    content = {"content": json.dumps(command), "headers": {"content-type": "application/json"}}
    answer = client.post("api/do", **content)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True)
    assert client.get("api/state").json()["labels"] == []


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"do":"undo"}', "text/plain", 415),
        (b'{"do":"undo"}', "application/x-www-form-urlencoded", 415),
        (b"", "application/json", 400),
    ],
)
def test_malformed_bodies_get_a_clear_answer(client, content, kind, status):
    answer = client.post("api/do", content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.json()["error"]


@pytest.mark.parametrize("path", ["spectrum?row=a&col=1", "spectrum", "spectrum?row=99&col=0",
                                  "scene/0/0/0?r=99&g=0&b=0", "scene/0/0/0?r=0&g=0&b=0&low=nan",
                                  "scene/0/9/0?r=0&g=0&b=0", "class?row=-1&col=0",
                                  "map/1000000000000000000000/0/0"])  # fmt: skip
def test_bad_questions_get_a_clear_answer(client, path):
    answer = client.get(f"api/{path}")
    assert answer.status_code == 422
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [("csv", b"row,col,class\n999,0,1\n"), ("csv", b"\x00\x01"), ("csv", b""), ("geojson", b"{"),
     ("tif", b"II*\0rubbish"), ("exe", b"MZ"), ("csv", b"row,col,class\n0,0,70000\n")],
)  # fmt: skip
def test_bad_label_files_are_refused_and_name_no_folder_of_ours(client, kind, content):
    answer = client.post(f"api/labels/{kind}", content=content)
    assert answer.status_code in (422, 503)
    assert "/tmp" not in answer.json()["error"]
    assert client.get("api/state").json()["labels"] == []


def test_a_huge_body_is_refused_before_it_is_read(page):
    where = httpx.URL(page.url)
    with socket.create_connection((where.host, where.port), timeout=PATIENCE) as connection:
        connection.sendall(
            f"POST {where.path}api/do HTTP/1.1\r\nHost: {where.host}:{where.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n".encode()
        )
        assert connection.recv(4096).split()[1] == b"413"


def test_a_huge_body_without_its_length_is_cut_off(client):
    def pieces():
        for _ in range(20):
            yield b" " * 2**20

    for path in ("api/do", "api/labels/csv"):
        try:
            answer = client.post(
                path, content=pieces(), headers={"content-type": "application/json"}
            )
            assert answer.status_code == 413
        except httpx.WriteError:  # the server hung up on us: fine too
            pass
    assert client.get("api/state").status_code == 200


def test_ten_thousand_labels_at_once_are_taken(tmp_path, kit):
    scene, truth = kit.make_scene(height=120, width=120)
    served = prepare(scene, truth=truth, journal=tmp_path / "j", settings=kit.quick).start()
    try:
        with httpx.Client(base_url=served.url, timeout=PATIENCE) as client:
            pixels = [[k // 100, k % 100] for k in range(10_000)]
            answer = do(client, do="label", **{"class": 1}, pixels=pixels)
            assert answer.status_code == 200
            assert len(client.get("api/state").json()["labels"]) == 10_000
            too_many = do(client, do="label", **{"class": 1}, pixels=pixels * 6)
            assert too_many.status_code == 422
            assert "too many" in too_many.json()["error"]
    finally:
        served.stop()


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\"'><img src=x onerror=x>", "=1+1", "多"]
)
def test_a_class_may_have_any_name(client, page, tmp_path, scene, name):
    made = do(client, do="add", name=name).json()["classes"][0]
    assert made["name"] == name
    do(client, do="label", **{"class": made["value"]}, pixels=[[0, 0]])
    (tmp_path / "l.csv").write_bytes(client.get("api/labels/csv").content)
    assert name in open_labels(tmp_path / "l.csv", scene).attrs["class_names"]


def test_a_scene_deleted_underneath_is_told_and_labeling_goes_on(scene, tmp_path, kit):
    path = tmp_path / "scene.npy"
    np.save(path, scene.values)
    served = prepare(path, settings=kit.quick).start()
    try:
        with httpx.Client(base_url=served.url, timeout=PATIENCE) as client:
            path.unlink()
            answer = client.get("api/scene/0/0/0?r=0&g=1&b=2")
            assert answer.status_code == 503
            assert "scene" in answer.json()["error"]
            assert client.get("api/spectrum?row=0&col=0").status_code == 503
            do(client, do="add", name="Water")
            assert do(client, do="label", **{"class": 1}, pixels=[[0, 0]]).status_code == 200
            assert client.get("api/labels/csv").status_code == 200
    finally:
        served.stop()
    assert "Water" in (tmp_path / "scene.npy.labels.jsonl").read_text()


def test_a_full_disk_is_told_and_the_label_is_not_taken(client, page, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("polyad.app.journal.os.fsync", full)
        answer = do(client, do="label", **{"class": 1}, pixels=[[0, 0]])
    assert answer.status_code == 507
    assert "was not saved" in answer.json()["error"]
    assert client.get("api/state").json()["labels"] == []
    assert do(client, do="label", **{"class": 1}, pixels=[[0, 0]]).status_code == 200


def test_a_page_that_lags_too_far_behind_is_told_to_start_over():
    async def lag():
        events = EventBus()
        stream = events.stream()
        assert "hello" in await anext(stream)
        for k in range(QUEUE + 1):
            events.publish("progress", {"k": k})
        await asyncio.sleep(0)
        first = await anext(stream)
        await stream.aclose()
        return first, len(events.listeners)

    assert asyncio.run(lag()) == ("event: lost\ndata: {}\n\n", 0)


def test_doors_listen_on_this_machine_unless_asked():
    everywhere = AccessPolicy("t", 80, "0.0.0.0")
    assert everywhere.allows_host("192.168.1.7:80")
    assert not everywhere.allows_host("evil.example:80")
    assert AccessPolicy("t", 80).allows_host("[::1]:80")
    assert AccessPolicy("t", 80).allows_host("localhost")
    assert not AccessPolicy("t", 80).allows_host("192.168.1.7:80")


@pytest.mark.slow
def test_fifty_clients_lose_no_label(page, kit):
    def labels_of(worker):
        taken = []
        with httpx.Client(base_url=page.url, timeout=PATIENCE) as client:
            for k in range(6):
                pixel = [k, worker] if worker < 40 else [24 + k, (worker - 40) * 4]
                answer = do(client, do="label", **{"class": 1 + worker % 3}, pixels=[pixel])
                assert answer.status_code == 200, answer.text
                taken.append(tuple(pixel))
        return taken

    with ThreadPoolExecutor(50) as pool:
        taken = [pixel for pixels in pool.map(labels_of, range(50)) for pixel in pixels]
    labels = page.workspace.session.label_state.labels
    assert len(taken) == len(set(taken)) == len(labels) == 300
    assert set(taken) == set(labels)
    kit.wait_for(lambda: kit.finished(page.workspace.trainer))
