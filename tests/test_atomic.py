from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from polyad.atomic import replacing, replacing_together
from polyad.errors import OutputError


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@contextmanager
def replacing_all(paths: list[Path], stale: list[Path] | None = None) -> Iterator[list[Path]]:
    with replacing_together() as outputs:
        outputs.withdraw(*(stale or []))
        yield [outputs.temporary(path, companion=k > 0) for k, path in enumerate(paths)]


def write_half_then(target: Path, error: Exception) -> None:
    with replacing(target) as temporary:
        temporary.write_bytes(b"half")
        raise error


def write_nothing(target: Path) -> None:
    with replacing(target):
        pass


def test_file_appears_only_when_the_block_has_ended(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    with replacing(target) as temporary:
        temporary.write_bytes(b"new")
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".map.tif.part-")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["map.tif"]


def test_old_file_is_untouched_when_the_block_raises(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    target.write_bytes(b"old")
    with pytest.raises(KeyError):
        write_half_then(target, KeyError())
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["map.tif"]


def test_two_writers_of_one_file_do_not_share_a_temporary_name(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as two:
        assert one != two


def test_full_disk_is_told_in_one_sentence_and_the_old_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    target.write_bytes(b"old")
    with pytest.raises(OutputError, match=r"full disk.*bytes free.*free some space"):
        write_half_then(target, OSError(errno.ENOSPC, "No space left on device"))
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["map.tif"]


def test_disk_that_fills_at_the_last_moment_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "map.tif"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="full disk"), replacing(target) as temporary:
        temporary.write_bytes(b"new")
    assert target.read_bytes() == b"old"


def test_an_error_of_reading_inside_the_block_is_not_reworded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "out"):
        (tmp_path / "missing").read_bytes()


def test_missing_folder_says_which(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"nowhere.*no such folder.*create it"):
        write_nothing(tmp_path / "nowhere" / "map.tif")


def test_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "map.tif").mkdir()
    with pytest.raises(OutputError, match="existing folder"):
        write_nothing(tmp_path / "map.tif")


def test_device_is_never_replaced() -> None:
    with pytest.raises(OutputError, match="device or pipe"):
        write_nothing(Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_unwritable_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions do not bind the superuser, under whom tests often run: simulate the refusal.
    def refused(self: Path, mode: int = 0o666, exist_ok: bool = True) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "touch", refused)
    with pytest.raises(OutputError, match=r"Permission denied.*choose another folder"):
        write_nothing(tmp_path / "map.tif")


def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "map.tif"
    link.symlink_to(tmp_path / "disk" / "real.tif")
    with replacing(link) as temporary:
        temporary.write_bytes(b"new")
    assert link.is_symlink()
    assert (tmp_path / "disk" / "real.tif").read_bytes() == b"new"


def test_companions_are_withdrawn_first_and_put_back_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, companion = tmp_path / "map.img", tmp_path / "map.hdr"
    main.write_text("old")
    companion.write_text("old")
    seen: list[tuple[bool, str]] = []
    rename = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append((companion.exists(), main.read_text()))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    with replacing_all([main, companion]) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new")
    assert seen == [(False, "old"), (False, "new")]
    assert (main.read_text(), companion.read_text()) == ("new", "new")


def test_left_overs_of_killed_writers_are_swept_when_old(tmp_path: Path) -> None:
    old, fresh = tmp_path / ".map.tif.part-1-aaaaaa", tmp_path / ".map.tif.part-2-bbbbbb"
    for temporary in (old, fresh):
        temporary.touch()
    two_days_ago = time.time() - 2 * 86400
    os.utime(old, (two_days_ago, two_days_ago))
    with replacing(tmp_path / "map.tif"):
        pass
    assert names(tmp_path) == [fresh.name, "map.tif"]


def test_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    target.write_bytes(b"old")
    code = (
        "import sys, time\n"
        "from polyad.atomic import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_bytes(b'half'); print('ready', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert target.read_bytes() == b"old"
    assert names(tmp_path)[0].startswith(".map.tif.part-")


def test_bytes_reach_the_disk_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        done.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with replacing_all([tmp_path / "map.img", tmp_path / "map.hdr"]) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new")
    assert done == ["file", "file", "rename", "rename", "folder"]


def test_what_described_the_old_file_is_gone_before_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overviews = tmp_path / "map.tif.ovr"
    overviews.write_text("of the old map")
    seen: list[bool] = []
    rename = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append(overviews.exists())
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    with replacing_all([tmp_path / "map.tif"], stale=[overviews]) as (temporary,):
        temporary.write_text("new")
    assert seen == [False]


def test_left_overs_of_a_killed_writer_are_swept_by_the_next_one(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    code = (
        "import os, sys\n"
        "from polyad.atomic import replacing\n"
        "with replacing(sys.argv[1]), replacing(sys.argv[1]):\n"
        "    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert len(names(tmp_path)) == 2
    with replacing(target) as temporary:
        temporary.write_bytes(b"new")
    assert names(tmp_path) == ["map.tif"]


def test_what_a_living_writer_has_in_hand_is_never_swept(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    with replacing(target) as slow:
        slow.write_bytes(b"slow")
        with replacing(target) as quick:
            quick.write_bytes(b"quick")
        assert target.read_bytes() == b"quick"
    assert target.read_bytes() == b"slow"
    assert names(tmp_path) == ["map.tif"]


def test_left_overs_of_another_machine_are_kept_for_a_day(tmp_path: Path) -> None:
    (tmp_path / ".map.tif.part-0badcafe-4194399-aaaaaa").touch()
    with replacing(tmp_path / "map.tif"):
        pass
    assert ".map.tif.part-0badcafe-4194399-aaaaaa" in names(tmp_path)


@pytest.mark.unix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_replaced_file_hands_on_its_permissions(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "model.polyad"
    target.write_bytes(b"old")
    target.chmod(mode)
    with replacing(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == mode | 0o600
        temporary.write_bytes(b"new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_new_file_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with replacing(tmp_path / "model.polyad") as temporary:
            temporary.write_bytes(b"new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "model.polyad").stat().st_mode) == 0o640


def test_companion_that_would_not_change_is_never_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, companion = tmp_path / "map.tif", tmp_path / "map.tif.aux.xml"
    main.write_text("old")
    companion.write_text("names")
    seen: list[bool] = []
    rename = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append(companion.exists())
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    with replacing_all([main, companion], stale=[companion]) as temporaries:
        temporaries[0].write_text("new")
        temporaries[1].write_text("names")
    assert (seen, main.read_text(), companion.read_text()) == ([True], "new", "names")


def test_companion_under_a_relative_name_stays_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("old", "new"):
        with replacing_all(
            ["map.tif", "map.tif.aux.xml"], stale=["map.tif.aux.xml"]
        ) as temporaries:
            temporaries[0].write_text(text)
            temporaries[1].write_text("names")
    assert Path("map.tif").read_text() == "new"
    assert Path("map.tif.aux.xml").read_text() == "names"


def test_companion_that_is_a_link_stays_a_link(tmp_path: Path) -> None:
    main, link, real = tmp_path / "map.tif", tmp_path / "map.tif.aux.xml", tmp_path / "real"
    real.write_text("old")
    link.symlink_to(real)
    with replacing_all([main, link], stale=[link]) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new")
    assert link.is_symlink()
    assert (main.read_text(), real.read_text()) == ("new", "new")


def test_failure_between_two_renames_brings_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"map.tif": "old", "map.tif.aux.xml": "old names", "map.tif.ovr": "old overviews"}
    for name, text in old.items():
        (tmp_path / name).write_text(text)
    rename = Path.replace

    def breaks(self: Path, target: Path) -> Path:
        if str(target).endswith("xml") and self.read_text() == "new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", breaks)
    stale = [tmp_path / "map.tif.ovr"]
    paths = [tmp_path / "map.tif", tmp_path / "map.tif.aux.xml"]

    def write() -> None:
        with replacing_all(paths, stale=stale) as temporaries:
            for temporary in temporaries:
                temporary.write_text("new")

    with pytest.raises(OSError, match="Input/output"):
        write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == old


def test_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="NUL"):
        write_nothing(tmp_path / "a\0.nc")
