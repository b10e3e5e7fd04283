"""Durable lines: locks, refused lines, and the files that earlier versions wrote."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polyad import durable
from polyad.app.journal import Journal
from polyad.durable import LockFile, add_line, locked, open_locked, seal, set_aside, unseal
from polyad.experiments.records import RecordStore
from tests.waiting import PATIENCE

ROOT = Path(__file__).parent.parent
ABOUT = {"shape": [3, 4], "scene": "abc"}

# --- files of earlier versions -------------------------------------------------------------------

JOURNAL = (
    b'{"polyad journal":2,"shape":[3,4],"scene":"abc","crc":"7a254176"}\n'
    b'{"do":"add","name":"Gr\xc3\xb6\xc3\x9fe","crc":"60e01206"}\n'
    b'{"do":"undo","crc":"c41fbe09"}\n'
)


def test_journal_keeps_its_format(tmp_path):
    (tmp_path / "old").write_bytes(JOURNAL)
    old = Journal(tmp_path / "old", ABOUT)
    old.close()
    assert old.commands == [{"do": "add", "name": "Größe"}, {"do": "undo"}]
    new = Journal(tmp_path / "new", ABOUT)
    for command in old.commands:
        new.append(command)
    new.close()
    assert (tmp_path / "old").read_bytes() == (tmp_path / "new").read_bytes() == JOURNAL


def test_committed_records_are_read_as_they_are(tmp_path):
    committed = ROOT / "docs/results/records"
    shutil.copytree(committed, tmp_path / "records")
    records = RecordStore(tmp_path / "records").load()  # a broken line would warn
    lines = [line for p in sorted(committed.glob("*.jsonl")) for line in p.read_text().splitlines()]
    assert [record.to_line() for record in records] == lines


# --- locks ---------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from polyad.durable import LockFile, open_locked
path = Path(sys.argv[2])
held = open_locked(path, 0o600) if sys.argv[1] == "file" else LockFile(path)
print("held", flush=True)
time.sleep(60)
"""


def take(kind, path):
    return open_locked(path, 0o600) if kind == "file" else LockFile(path, wait=False)


@pytest.mark.parametrize("kind", ["file", "lock"])
def test_lock_of_another_process_is_seen_and_ends_with_a_kill(tmp_path, kind):
    path = tmp_path / "log"
    command = [sys.executable, "-c", HOLD, kind, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(durable.InUse):
                take(kind, path)
        finally:
            holder.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    assert path.exists()
    take(kind, path).close()


def test_lock_on_a_file_that_its_holder_removed_keeps_out_whoever_comes_next(tmp_path, monkeypatch):
    first = LockFile(tmp_path / "lock")
    taken, opened, lock = [], threading.Event(), durable.lock_descriptor

    def asked(*arguments, **options):
        opened.set()
        return lock(*arguments, **options)

    monkeypatch.setattr(durable, "lock_descriptor", asked)
    waiting = threading.Thread(target=lambda: taken.append(LockFile(tmp_path / "lock")))
    waiting.start()
    assert opened.wait(PATIENCE)  # the file that is removed now
    first.remove()
    waiting.join(PATIENCE)
    with pytest.raises(durable.InUse):
        LockFile(tmp_path / "lock", wait=False)
    taken[0].remove()
    assert list(tmp_path.iterdir()) == []


def test_many_writers_that_make_and_remove_the_lock_lose_no_line(tmp_path):
    def write(writer):
        for k in range(20):
            with locked(tmp_path / "lock"):
                add_line(tmp_path / "log", b"%d %d" % (writer, k))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert sorted(lines) == sorted(b"%d %d" % (w, k) for w in range(4) for k in range(20))
    assert [p.name for p in tmp_path.iterdir()] == ["log"]


def test_lock_file_that_holds_something_is_not_removed(tmp_path):
    (tmp_path / "lock").write_text("my notes")
    with locked(tmp_path / "lock"):
        pass
    assert (tmp_path / "lock").read_text() == "my notes"


def test_lock_file_is_gone_afterwards_also_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "lock"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


# --- lines ---------------------------------------------------------------------------------------


def test_every_changed_byte_of_a_sealed_line_is_noticed():
    line = seal({"map": "Größe", "tile": 3})[:-1]
    assert unseal(line) == {"map": "Größe", "tile": 3}
    for place in range(len(line)):
        damaged = bytearray(line)
        damaged[place] ^= 1
        with pytest.raises(ValueError, match="checksum"):
            unseal(bytes(damaged))


def test_damaged_lines_are_moved_and_the_others_stay(tmp_path):
    path = tmp_path / "log"
    for line in (b"one", b"bad", b"two"):
        add_line(path, line)
    assert set_aside(path, [b"bad"]).read_bytes() == b"bad\n"
    add_line(path, b"worse")
    assert set_aside(path, [b"worse"]).read_bytes() == b"bad\nworse\n"
    assert path.read_bytes() == b"one\ntwo\n"
