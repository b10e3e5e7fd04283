"""Each notebook runs from its first cell to its last, as one program."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))


def cells(path, kind):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs(path, user):
    code = "import matplotlib\nmatplotlib.use('agg')\n" + "\n".join(cells(path, "code"))
    user.runs(code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_says_for_whom_it_is_and_keeps_no_output(path):
    assert cells(path, "markdown")[0].startswith("# For ")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert [c for c in notebook["cells"] if c.get("outputs")] == []
