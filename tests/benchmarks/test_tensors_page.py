"""The page of the defaults is what its records give."""

from benchmarks.tensors import PAGE, page, read_records


def test_the_committed_page_is_what_its_records_give():
    assert PAGE.read_text() == page(read_records())
