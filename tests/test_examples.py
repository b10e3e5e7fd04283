"""Every example runs, and its answer is right where the answer is known."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *arguments):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]([*map(str, arguments)])


def test_indian_pines_is_learned_from_ten_labels_per_class(capsys):
    scores = run("indian_pines", "--epochs", 60)
    assert scores.overall_accuracy > 0.58
    printed = capsys.readouterr().out
    assert "overall accuracy" in printed
    assert "no overlap" in printed
    assert "seconds" in printed


def test_serology_stands_beside_logistic_regression(capsys):
    found = run("serology", "--folds", 3, "--repeats", 1)
    assert min(found.values()) > 0.4
    assert found["infected or not", "Rank-1 network"] > 0.6
    assert "logistic regression" in capsys.readouterr().out


def test_order_four_finds_the_known_answer():
    found = run("order4", "--samples", 500, "--tests", 1000)
    assert found[1, 500, "rank-r"] > 0.85
    assert found[1, 500, "rank-r"] > found[1, 500, "logistic"] + 0.1
    assert found[2, 500, "rank-r"] > found[2, 500, "logistic"]


def test_no_example_is_forgotten():
    tested = {"indian_pines", "serology", "order4"}
    tested |= {"fluorescence", "heads", "time_series"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_every_example_says_how_to_run_it(path):
    assert f"python examples/{path.name}" in path.read_text().split('"""')[1]


def test_fluorescence_stands_beside_ridge_regression(capsys):
    found = run("fluorescence", "--repeats", 1)
    assert found[10, "Rank-1 network"] > 0.6
    assert "ridge" in capsys.readouterr().out


def test_heads_are_compared_on_both_bodies(capsys):
    found = run("heads", "--seeds", 1, "--epochs", 1)
    assert {body for body, _ in found} == {"ResNet-like", "ViT-like"}
    assert "250 parameters" in capsys.readouterr().out


def test_time_series_are_read_from_files_as_they_come(tmp_path, capsys):
    lines = ["@problemName made", "@data"]
    lines += [f"{k % 2},1,{k},2:3,{2 * (k % 2)},1:{'up' if k % 2 else 'down'}" for k in range(20)]
    for name in ("BasicMotions", "JapaneseVowels"):
        (tmp_path / name).mkdir()
        for part in ("TRAIN", "TEST"):
            (tmp_path / name / f"{name}_{part}.ts").write_text("\n".join(lines))
    found = run("time_series", "--data", tmp_path, "--seeds", 1)
    assert found["BasicMotions", "Rank-1 network"] > 0.9
    assert "20 to train on, 20 to test, 2 x 4" in capsys.readouterr().out
