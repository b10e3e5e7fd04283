"""A researcher does the paper's experiments again, and goes on with a wider question.

    polyad reproduce --scene SCENE --model cnn dense --runs 1

README's `polyad reproduce --quick --jobs 2` is run by test_pages.py; here the scene is small,
and the models are those that need nothing compiled.
"""

import json

ASK = "polyad reproduce --scene standin-tiny --model cnn dense --samples-per-class 5 --noise none"


def test_experiments_are_resumed_where_they_stopped(user):
    printed = user.types(f"{ASK} --runs 1 --epochs 2")
    assert "2 runs done, 2 in the report" in printed
    assert "report: polyad-paper/paper.md" in printed

    paper = user / "polyad-paper"
    before = records(paper)
    printed = user.types(f"{ASK} --runs 1 --epochs 2 --protocol random other-fields")
    assert "2 runs done, 4 in the report" in printed  # those of other-fields; the others are there

    after = records(paper)
    assert set(before) < set(after)
    assert len(after) == 4
    assert all(0 < json.loads(line)["scores"]["2"]["oa"] <= 1 for line in after)
    assert "Dense FNN" in (paper / "paper.md").read_text()
    assert list(paper.glob("tables/*.csv"))
    assert list(paper.glob("figures/*.png"))


def records(paper):
    return [
        line for file in paper.glob("records/*.jsonl") for line in file.read_text().splitlines()
    ]
