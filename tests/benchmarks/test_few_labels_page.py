"""The page of few labels is what its records give."""

from pathlib import Path

from benchmarks import few_labels_page as program
from benchmarks.few_labels import read_records

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"


def test_the_committed_page_is_what_its_records_give(tmp_path):
    records, choices = (
        read_records(RESULTS / f"{name}.jsonl") for name in ("few-labels", "few-labels-choice")
    )
    program.write_page(records, choices, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (RESULTS / "few-labels.md").read_text()


def test_tables_say_propagation_where_the_records_say_walk():
    assert program.shown("walk alone") == "propagation alone"
    assert program.shown("+ 3 starts") == "+ 3 starts"
    assert "walk" not in (RESULTS / "few-labels.md").read_text()
