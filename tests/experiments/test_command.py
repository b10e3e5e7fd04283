"""``polyad reproduce``: arguments in, one call, one sentence for bad input."""

import json

import pytest

from polyad.cli import main

TINY = ["reproduce", "--scene", "standin-tiny", "--model", "rank-1", "--samples-per-class", "5"]


def call(arguments):
    """Run the command line; return its exit code."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0


def test_the_command_writes_the_report_and_says_where(tmp_path, capsys):
    asked = ["--noise", "none", "--runs", "1", "--epochs", "2", "--out", str(tmp_path), "--json"]
    assert call([*TINY, *asked]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs_done"] == 1
    assert said["report"] == str(tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()


def test_an_option_takes_several_values_in_a_row_or_one_by_one(tmp_path, capsys):
    asked = "--scene=standin-tiny --model rank-1 rank-2 --samples-per-class 5 10 --noise none"
    asked += " --noise pixel --runs 1 --epochs 1 --jobs 1 --json"
    assert call(["reproduce", *asked.split(), "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["runs_done"] == 2 * 2 * 2


def test_a_value_that_belongs_to_no_option_is_refused(tmp_path, capsys):
    assert call([*TINY, "--runs", "1", "2", "--out", str(tmp_path)]) == 2
    assert "unexpected extra argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--model", "rank-9"], "known are rank-1"),
        (["--noise", "loud"], "known are none, pixel, band-offset"),
        (["--noise-level", "0.1", "20"], "expected above 0 and at most 1, got 20"),
        (["--protocol", "luck"], "known are random, other-fields, blocks"),
        (["--scene", "mars"], "known are indian-pines"),
        (["--jobs", "0"], "jobs must be at least 1, got 0"),
        (["--jobs", "-3"], "jobs must be at least 1, got -3"),
        (["--epochs", "0"], "epochs must be at least 1, got 0"),
        (["--epochs", "0", "--against", "Rank_R_FNN.py"], "epochs must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_run_ends_with_one_sentence_and_nothing_written(
    option, words, tmp_path, capsys
):
    assert call(["reproduce", *option, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())
