"""The pages' elements, and what their scripts' types say of them."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

TYPES = Path(__file__).parents[2] / "tools" / "page" / "types.d.ts"
PAGES = ("index.html", "check.html")


def elements(page):
    html = (files("polyad.app") / "static" / page).read_text(encoding="utf-8")
    return {name: tag for tag, name in re.findall(r'<(\w+)\b[^>]*?\sid="([^"]+)"', html)}


def test_types_name_every_element_that_has_an_id():
    table = TYPES.read_text(encoding="utf-8").partition("interface PageElements {")[2]
    rows = re.findall(r'^  "?([\w-]+)"?: HTMLElementTagNameMap\["(\w+)"\];$', table, re.M)
    first, second = map(elements, PAGES)
    assert first
    assert second
    assert dict(rows) == first | second
    assert {name: first[name] for name in first.keys() & second} == {
        name: second[name] for name in first.keys() & second
    }


@pytest.mark.parametrize("page", PAGES)
def test_what_an_element_is_labeled_by_is_on_its_page(page):
    html = (files("polyad.app") / "static" / page).read_text(encoding="utf-8")
    by = re.findall(r'aria-label+edby="([^"]+)"', html)
    assert by
    assert set(by) <= set(elements(page))
    assert "aria-labeledby" not in html  # browsers know the spelling with two l alone
