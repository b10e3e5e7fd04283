"""Finished tiles are believed only if they are whole, and harm no other file."""

import hmac
import os

import numpy as np
import pytest

from polyad.distributed.tile_store import TileFolder, TileStore
from polyad.errors import OutputError, PolyadWarning
from tests.models import tile_plan

DIGEST = "0123456789abcdef"
SHAPE = (2, 3)


def filled(folder, **options):
    """Return a store with both of its tiles, of ids 1 and 2."""
    store = TileStore(folder, tile_plan(**options), DIGEST)
    depth = store.plan.depth
    for number in (1, 0):
        numbers = np.full((*SHAPE, depth), number + 0.5, np.float32) if depth else None
        store.put(number, np.full(SHAPE, number + 1), numbers, replaced=number, shares=7)
    return store


@pytest.mark.parametrize("depth", [0, 2])
def test_tiles_are_stored_and_found_again(tmp_path, depth):
    filled(tmp_path, depth=depth)
    store = TileStore(tmp_path, tile_plan(depth=depth), DIGEST)
    assert (store.finished, store.shares, store.written) == ({0: 0, 1: 1}, {7}, None)
    for number in (0, 1):
        ids, numbers = store.get(number)
        np.testing.assert_array_equal(ids, np.full(SHAPE, number + 1))
        assert depth == (0 if numbers is None else numbers.shape[2])
        assert numbers is None or np.all(numbers == number + 0.5)
    store.remove()
    assert list(tmp_path.iterdir()) == []


def test_every_changed_byte_of_a_tile_is_noticed(tmp_path):
    path = filled(tmp_path).folder / "1.tile"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.warns(PolyadWarning, match="1 tiles kept .* mapped again"):
            assert set(TileStore(tmp_path, tile_plan(), DIGEST).finished) == {0}


def test_tiles_of_another_user_are_not_believed(tmp_path, monkeypatch):
    path = filled(tmp_path).folder / "1.tile"
    content = path.read_bytes()
    monkeypatch.setenv("POLYAD_CACHE", str(tmp_path / "of another user"))
    with pytest.warns(PolyadWarning, match="2 tiles kept .* not of this user"):
        assert TileStore(tmp_path, tile_plan(), DIGEST).finished == {}
    (tmp_path / "of another user" / "tiles.key").write_bytes(b"")  # no key at all is none to guess
    forged = hmac.digest(b"", f"{path.parent.name}/1.tile\n".encode() + content[32:], "sha256")
    path.write_bytes(forged + content[32:])
    with pytest.warns(PolyadWarning, match="2 tiles kept"):
        assert TileStore(tmp_path, tile_plan(), DIGEST).finished == {}
    assert (tmp_path / "of another user" / "tiles.key").stat().st_mode & 0o077 == 0


def test_tiles_under_another_digest_are_removed_and_other_files_are_not(tmp_path):
    (filled(tmp_path).folder / "notes").write_text("my notes")
    other = TileStore(tmp_path, tile_plan(), DIGEST[::-1])
    assert other.finished == {}
    assert [p.name for p in (tmp_path / f"map.tif.{DIGEST}").iterdir()] == ["notes"]


@pytest.mark.unix
def test_no_link_is_followed_and_no_pipe_waited_for(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / f"map.tif.{DIGEST}"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="move it away"):
        TileStore(tmp_path, tile_plan(), DIGEST)
    link.unlink()
    store = filled(tmp_path)
    for number, kind in enumerate((os.mkfifo, lambda path: path.symlink_to(tmp_path / "notes"))):
        (store.folder / f"{number}.tile").unlink()
        kind(store.folder / f"{number}.tile")
    with pytest.warns(PolyadWarning, match="1 tiles kept"):  # the link leads nowhere
        assert TileStore(tmp_path, tile_plan(), DIGEST).finished == {}
    for number in (0, 1):
        store.put(number, np.full(SHAPE, 9), None, 0, None)
    assert not (tmp_path / "notes").exists()


@pytest.mark.unix
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "notes"])
def test_other_file_in_the_place_of_the_lock_is_left_alone(tmp_path, kind):
    folder, notes = tmp_path / "map.tif.tiles", tmp_path / "notes"
    folder.mkdir()
    place = folder / "lock"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "notes":
        place.write_text("my notes")
    else:
        place.symlink_to(notes)
        if kind == "link":
            notes.write_text("my notes")
    if kind == "notes":
        TileFolder(folder).close(remove=True)
    else:
        with pytest.raises(OutputError, match="cannot keep finished tiles"):
            TileFolder(folder)
    assert os.path.lexists(place)
    assert notes.exists() == (kind == "link")
    assert kind in ("dangling", "pipe") or place.read_text() == "my notes"
