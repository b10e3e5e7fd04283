import os
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from polyad.app import launch, serve
from polyad.scene.map.mapping import map_scene


@pytest.fixture
def opened(monkeypatch):
    """Serve a page without waiting; return what the browser was told and the file it was shown."""
    told = []

    def open_browser(address):
        path = Path(urlsplit(address).path)
        told.append((address, path, path.read_text(), path.stat(), path.parent.stat()))

    monkeypatch.setattr(webbrowser, "open", open_browser)
    monkeypatch.setattr(
        launch.Page, "run", lambda page: page.workspace.close() or page._socket.close()
    )
    return told


@pytest.mark.unix
def test_the_browser_is_told_of_a_private_file_and_not_of_the_token(
    scene, tmp_path, opened, capsys
):
    serve(scene, journal=tmp_path / "j")
    printed = capsys.readouterr().out.split(": ", 1)[1].split()[0]
    token = httpx.URL(printed).path.strip("/")
    [(address, path, text, file, folder)] = opened
    assert address.startswith("file:///")
    assert token not in address
    assert f"url={printed}" in text
    assert (file.st_mode & 0o777, folder.st_mode & 0o777) == (0o600, 0o700)
    assert (file.st_uid, folder.st_uid) == (os.getuid(), os.getuid())
    assert not path.parent.exists()  # gone with the page


def test_without_room_for_the_file_the_page_is_served_all_the_same(
    scene, tmp_path, opened, monkeypatch
):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(launch.tempfile, "TemporaryDirectory", full)
    serve(scene, journal=tmp_path / "j")
    assert opened == []


def test_the_file_leads_a_real_browser_to_the_page(tab, page, kit):
    with launch.redirect_file(page.url) as leading:
        tab.goto(leading)
        tab.wait_for_url(page.url)
        kit.until(tab, "window.polyad?.store.scene && window.polyad.viewer.tiles.size")
        assert tab.url == page.url
    tab.wrong[:] = [url for url in tab.wrong if not url.startswith("file:")]


def test_a_page_returns_its_labels_and_the_model_of_its_newest_map(scene, page, kit):
    assert page.model() is None
    kit.label_some(page.workspace.session)
    labels = page.labels()
    labeled = {(int(r), int(c)): int(labels.values[r, c]) for r, c in np.argwhere(labels.values)}
    assert labeled == page.workspace.session.snapshot().labels
    assert labels.rio.crs == scene.rio.crs
    ids = map_scene(page.model(), scene).values
    np.testing.assert_array_equal(ids, page.workspace.trainer.newest_map.ids)
