"""A ledger harms no file that is not one, and believes no line that is not a tile's."""

import os
import zlib

import pytest

from polyad.distributed.ledger import BrokenLedgerWarning, FinishedTiles, Ledger
from polyad.errors import OutputError
from polyad.scene.raster.windows import Tile

NAMES = ["ledger.jsonl", "lock"]


def begin(folder, *lines):
    with Ledger(folder) as ledger:
        ledger.append({"map": "m", "tile": 0, "crc": 1})
    with (folder / "ledger.jsonl").open("ab") as file:
        file.writelines(b"%s %08x\n" % (line, zlib.crc32(line)) for line in lines)


@pytest.mark.unix
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "notes"])
def test_other_file_in_its_place_is_left_alone(tmp_path, name, kind):
    folder, notes = tmp_path / "map.tif.tiles", tmp_path / "notes"
    begin(folder)
    place = folder / name
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "notes":
        place.write_text("my notes")
    else:
        place.symlink_to(notes)
        if kind == "link":
            notes.write_text("my notes")
    if (name, kind) == ("lock", "notes"):  # nothing is written to it
        with Ledger(folder) as ledger:
            ledger.remove()
    else:
        with pytest.raises(OutputError, match="cannot keep finished tiles"):
            Ledger(folder)
    assert os.path.lexists(place)
    assert notes.exists() == (kind == "link")
    assert kind in ("dangling", "pipe") or place.read_text() == "my notes"


def test_tiles_are_not_written_through_a_link(tmp_path):
    (tmp_path / "notes").write_text("my notes")
    (tmp_path / "a.0.tiles").symlink_to(tmp_path / "notes")
    with pytest.raises(OutputError, match="move it away"):
        FinishedTiles(tmp_path, "a", "0", [Tile(slice(0, 2), slice(0, 3))], "u1")
    assert (tmp_path / "notes").read_text() == "my notes"


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1}',
        b'{"map":[],"tile":{},"crc":"x"}',
        b'{"map":"m","tile":0.5,"crc":1}',
        b'{"map":[],"written":true}',
        b"[" * 100_000,
        b'{"map":"m","crc":1,"tile":' + b"9" * 5000 + b"}",
    ],
)
def test_line_of_odd_content_is_damaged(tmp_path, line):
    begin(tmp_path / "map.tiles", line)
    with pytest.warns(BrokenLedgerWarning, match="line 3 is damaged"):
        ledger = Ledger(tmp_path / "map.tiles")
    with ledger:
        assert [entry["tile"] for entry in ledger.entries] == [0]
        ledger.remove()
    assert not (tmp_path / "map.tiles").exists()


def test_first_line_cut_by_a_kill_is_written_again(tmp_path):
    begin(tmp_path / "map.tiles")
    path = tmp_path / "map.tiles" / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:9])
    begin(tmp_path / "map.tiles")
    with Ledger(tmp_path / "map.tiles") as ledger:
        assert len(ledger.entries) == 1
