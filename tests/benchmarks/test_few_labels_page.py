"""The page of few labels is what its records give."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"


@pytest.fixture
def program(monkeypatch):
    """Return the module that writes the page; its files are programs and import each other."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return pytest.importorskip("few_labels_page")


def test_the_committed_page_is_what_its_records_give(program, tmp_path):
    from few_labels import read_records

    records, choices = (
        read_records(RESULTS / f"{name}.jsonl") for name in ("few-labels", "few-labels-choice")
    )
    program.write_page(records, choices, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (RESULTS / "few-labels.md").read_text()


def test_tables_say_propagation_where_the_records_say_walk(program):
    assert program.shown("walk alone") == "propagation alone"
    assert program.shown("+ 3 starts") == "+ 3 starts"
    assert "walk" not in (RESULTS / "few-labels.md").read_text()
