import errno
import io
import json
import os

import pytest

from polyad import durable
from polyad.app.journal import Journal
from polyad.app.labels import Session
from polyad.durable import seal
from polyad.errors import OutputError, SceneError, SceneMismatch

ABOUT = {"shape": [3, 4], "scene": "abc"}
HEADER = {"polyad journal": 2, **ABOUT}
ADD, UNDO, REDO = {"do": "add", "name": "Water"}, {"do": "undo"}, {"do": "redo"}


def write(path, *commands):
    path.write_bytes(b"".join(map(seal, [HEADER, *commands])))
    return path


def commands(path):
    """Return what the next start would find."""
    journal = Journal(path, ABOUT)
    journal.close()
    return journal.commands


def test_what_was_written_is_read_again_whatever_its_text(tmp_path):
    written = [{"do": "add", "name": "Größe <script> \n"}, {"do": "label", "stroke": "\ud800"}]
    journal = Journal(tmp_path / "j", ABOUT)
    for command in written:
        journal.append(command)
    journal.close()
    assert commands(tmp_path / "j") == written


def test_the_journal_of_another_scene_is_refused(tmp_path):
    Journal(tmp_path / "j", ABOUT).close()
    with pytest.raises(SceneMismatch, match="another scene"):
        Journal(tmp_path / "j", ABOUT | {"scene": "xyz"})


@pytest.mark.parametrize("content", [b"row,col,class\n1,2,Corn\n", b"{}", b'{"type":"x"}\n', b"\0"])
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path, content):
    (tmp_path / "labels").write_bytes(content)
    with pytest.raises(SceneError, match="no journal of polyad; it was left as it is"):
        Journal(tmp_path / "labels", ABOUT)
    assert (tmp_path / "labels").read_bytes() == content


@pytest.mark.parametrize("begun", [b"", b'{"poly', b'{"polyad journal":2,"sha'])
def test_a_journal_killed_at_its_first_line_begins_anew(tmp_path, begun):
    (tmp_path / "j").write_bytes(begun)
    Journal(tmp_path / "j", ABOUT).close()
    assert json.loads((tmp_path / "j").read_bytes())["polyad journal"] == 2


@pytest.mark.unix
def test_a_link_is_not_followed_and_no_pipe_waited_for(tmp_path):
    (tmp_path / "precious").write_bytes(b"")
    (tmp_path / "j").symlink_to(tmp_path / "precious")
    with pytest.raises(OutputError, match="cannot open the journal"):
        Journal(tmp_path / "j", ABOUT)
    assert (tmp_path / "precious").read_bytes() == b""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="expected a plain file"):
        Journal(tmp_path / "pipe", ABOUT)


@pytest.mark.parametrize("most", [1, 3, 50])
def test_short_writes_make_whole_lines(tmp_path, monkeypatch, most):
    class Short(io.FileIO):
        def write(self, data):
            return super().write(data[:most])

    monkeypatch.setattr(
        durable, "open_locked", lambda path, _: Short(os.open(path, os.O_RDWR | os.O_CREAT), "r+")
    )
    journal = Journal(tmp_path / "j", ABOUT)
    journal.append(UNDO)
    journal.close()
    assert (tmp_path / "j").read_bytes() == seal(HEADER) + seal(UNDO)


def test_a_refused_line_that_cannot_be_cut_off_stops_the_next_one(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "j", ABOUT)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _no_space)  # so that nothing can be cut off for good
        for command in (ADD, UNDO):
            with pytest.raises(OutputError, match="No space left"):
                journal.append(command)
    journal.append(REDO)
    journal.close()
    assert commands(tmp_path / "j") == [REDO]


def _no_space(_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_two_servers_cannot_write_one_journal(tmp_path):
    first = Journal(tmp_path / "j", ABOUT)
    with pytest.raises(OutputError, match="in use"):
        Journal(tmp_path / "j", ABOUT)
    first.close()
    Journal(tmp_path / "j", ABOUT).close()


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [b'{"do":"lab', b"{", b'{"do":"undo"}', b"\xff\xfe", b"\0" * 50])
def test_a_half_last_line_is_ignored_and_writing_goes_on_after_it(tmp_path, half):
    write(tmp_path / "j", UNDO)
    with (tmp_path / "j").open("ab") as file:
        file.write(half)
    journal = Journal(tmp_path / "j", ABOUT)
    assert journal.commands == [UNDO]
    journal.append(REDO)
    journal.close()
    assert (tmp_path / "j").read_bytes() == seal(HEADER) + seal(UNDO) + seal(REDO)


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_any_changed_byte_of_an_answered_line_is_told_and_the_file_left_alone(tmp_path, line):
    good = [seal(c) for c in (HEADER, ADD, UNDO, REDO)]
    for place in range(0 if line > 1 else 20, len(good[line - 1]) - 1, 3):
        bad = bytearray(good[line - 1])
        bad[place] ^= 1
        content = b"".join([*good[: line - 1], bytes(bad), *good[line:]])
        (tmp_path / "j").write_bytes(content)
        with pytest.raises(SceneError, match=f"line {line}: the journal is damaged .* take this"):
            Journal(tmp_path / "j", ABOUT)
        assert (tmp_path / "j").read_bytes() == content


@pytest.mark.parametrize("line", [b"[1]\n", b"{]\n", b"\n", b'{"do":"undo"}\n', b"\0\0\n",
                                  b"[" * 90_000 + b"\n"])  # fmt: skip
def test_a_finished_last_line_that_is_not_ours_is_told(tmp_path, line):
    with write(tmp_path / "j", ADD).open("ab") as file:
        file.write(line)
    with pytest.raises(SceneError, match="line 3: the journal is damaged"):
        Journal(tmp_path / "j", ABOUT)
    assert (tmp_path / "j").read_bytes().endswith(line)


@pytest.mark.parametrize("command", [
    {"do": "load"}, {"do": ["x"]}, {"do": "load", "classes": [[1]], "labels": []}, {"do": None},
    {"do": "load", "classes": [[1e999, "a", "#000000"]], "labels": []},
    {"do": "load", "classes": [], "labels": [[0, 0, 9]]}, {"do": "label", "class": 1},
])  # fmt: skip
def test_a_command_that_cannot_be_carried_out_is_told_with_its_line(scene, tmp_path, command):
    session = Session(scene, journal=tmp_path / "j")
    session.do(ADD)
    session.journal.append(command)
    session.close()
    with pytest.raises(SceneError, match="line 3: the journal holds a command"):
        Session(scene, journal=tmp_path / "j")


def test_a_journal_larger_than_memory_is_refused_unread(tmp_path):
    os.truncate(write(tmp_path / "j", ADD), 2**40)
    with pytest.raises(SceneError, match="do not fit in half of this machine's memory"):
        Journal(tmp_path / "j", ABOUT)


# -- while it is in use ---------------------------------------------------------------------------


@pytest.mark.parametrize("away", ["deleted", "moved"])
def test_a_journal_that_is_gone_is_written_anew_whole(tmp_path, away):
    journal = Journal(tmp_path / "j", ABOUT)
    journal.append(ADD)
    (tmp_path / "j").unlink() if away == "deleted" else (tmp_path / "j").rename(tmp_path / "k")
    journal.append(UNDO)
    with pytest.raises(OutputError, match="in use"):
        Journal(tmp_path / "j", ABOUT)
    journal.append(REDO)
    journal.close()
    assert commands(tmp_path / "j") == [ADD, UNDO, REDO]
    assert (tmp_path / "j").stat().st_mode & 0o077 == 0
    assert {p.name for p in tmp_path.iterdir()} <= {"j", "k"}


def test_a_file_in_the_place_of_the_journal_is_told_and_left_alone(tmp_path):
    journal = Journal(tmp_path / "j", ABOUT)
    journal.append(ADD)
    (tmp_path / "new").write_text("mine")
    (tmp_path / "new").replace(tmp_path / "j")
    with pytest.raises(OutputError, match=r"another file took its place.*was not saved.*Move that"):
        journal.append(UNDO)
    assert (tmp_path / "j").read_text() == "mine"
    (tmp_path / "j").unlink()
    journal.append(REDO)
    journal.close()
    assert commands(tmp_path / "j") == [ADD, REDO]


@pytest.mark.parametrize("content", [b"", b"much more than there was" * 99])
def test_a_journal_that_another_program_wrote_to_is_told(tmp_path, content):
    journal = Journal(tmp_path / "j", ABOUT)
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(OutputError, match=r"another program changed it.*Save the labels"):
        journal.append(UNDO)
    journal.close()
    assert (tmp_path / "j").read_bytes() == content
