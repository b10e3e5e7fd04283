"""The page of the defaults is what its records give."""

from pathlib import Path

from benchmarks.tensors_page import write_page

RESULTS = Path(__file__).parents[2] / "docs/results"


def test_the_committed_page_is_what_its_records_give(tmp_path):
    from benchmarks.tensors import read_records

    write_page(read_records(), tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (RESULTS / "tensors.md").read_text()
