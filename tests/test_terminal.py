"""What the command line prints: nothing that steers a terminal, whatever a file is called."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from polyad.cli import main
from polyad.errors import PolyadWarning
from polyad.terminal import brief, fail, put, warn

RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    return out + err


def test_name_of_a_missing_file_cannot_steer_the_terminal(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["info", "scene\x1b]0;owned\x07\npolyad: all is well\u202e\udcff.tif"])
    text = printed(capsys)
    assert RAW.search(text) is None
    assert text.count("\n") == 1
    assert "scene\\x1b]0;owned\\x07\\npolyad" in text


def test_name_of_a_damaged_file_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "scene\x1b[2J\udcff.npy"
    path.write_bytes(b"no array")
    with pytest.raises(SystemExit):
        main(["info", str(path)])
    assert RAW.search(printed(capsys)) is None


def test_name_of_an_output_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("scene.npy", np.random.default_rng(0).normal(size=(6, 6, 4)).astype("f4"))
    np.save("labels.npy", np.arange(36, dtype="u1").reshape(6, 6) % 3)
    with pytest.raises(SystemExit, match="0"):
        main(["train", "scene.npy", "labels.npy", "--epochs", "1", "--out", "m\x1b[31m.polyad"])
    assert RAW.search(printed(capsys)) is None


def test_arguments_that_are_not_understood_cannot_steer_the_terminal(
    capsys: pytest.CaptureFixture,
) -> None:
    for arguments in (["info", "a", "evil\x1b[2J"], ["info", "--evil\x1b[2J"], ["evil\x1b[2J"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        text = printed(capsys)
        assert "evil\\x1b[2J" in text
        assert RAW.search(text) is None


def test_report_of_a_scene_whose_name_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene, labels = "s\udcff\x1b.npy", "labels.npy"
    np.save(scene, np.random.default_rng(0).normal(size=(6, 6, 4)).astype("f4"))
    np.save(labels, np.arange(36, dtype="u1").reshape(6, 6) % 3)
    with pytest.raises(SystemExit, match="0"):
        main(["train", scene, labels, "--samples-per-class", "4", "--epochs", "1"])
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", "model.polyad", scene, labels, "--report", "r.html", "--out", "s.json"])
    assert "s\\udcff" in Path("r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["a\rb", "a\x9bb", "a\u2028b", "a\ud800b", "a\x7fb"])
def test_everything_goes_through_one_place(text: str, capsys: pytest.CaptureFixture) -> None:
    put(text)
    warn(PolyadWarning(text), PolyadWarning, "f", 1)
    with pytest.raises(SystemExit):
        fail(text)
    text = printed(capsys)
    assert RAW.search(text) is None
    assert text.count("a\\") == 3


def test_words_that_the_terminal_cannot_show_are_spelled() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    put("Forêt", out)
    assert out.buffer.getvalue() == b"For\\xeat\n"  # type: ignore[attr-defined]


def test_value_out_of_a_file_stays_on_its_line() -> None:
    assert brief({"a\nb": ["c\nd"]}) == "a\\nb c\\nd"


def test_warnings_of_the_command_line_are_printed_there(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.warnoptions", [])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = warn
        warnings.warn("odd\x1bname", PolyadWarning, stacklevel=1)
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)  # of a library: no news to a user
    assert printed(capsys) == "polyad: warning: odd\\x1bname\n"
