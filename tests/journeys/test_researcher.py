"""A researcher does the paper's experiments again, is interrupted, and goes on.

    polyad reproduce --scene SCENE --model rank-1 cnn --runs 2 --jobs 2

README's `polyad reproduce --quick --jobs 2` is run by test_pages.py; here the scene is small.
"""

import json

ASK = "polyad reproduce --scene standin-tiny --model rank-1 cnn --samples-per-class 5 --noise none"


def test_experiments_are_done_once_and_a_wider_question_adds_to_them(user):
    printed = user.types(f"{ASK} --runs 1 --epochs 2 --jobs 2")
    assert "2 runs done, 2 in the report" in printed
    assert "report: polyad-paper/report.html" in printed

    printed = user.types(f"{ASK} --runs 1 --epochs 2 --jobs 2")
    assert "0 runs done, 2 in the report" in printed

    printed = user.types(f"{ASK} --runs 1 --epochs 2 --protocol other-fields blocks")
    assert "4 runs done" in printed

    paper = user / "polyad-paper"
    records = [
        json.loads(line) for f in paper.glob("records/*.jsonl") for line in f.open(encoding="utf-8")
    ]
    assert len(records) == 6
    assert "Rank-1" in (paper / "report.html").read_text()
    assert list(paper.glob("tables/*.csv"))
    assert list(paper.glob("figures/*.png"))
