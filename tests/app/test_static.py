"""The page's elements, and what its scripts' types say of them."""

import re
from importlib.resources import files
from pathlib import Path

TYPES = Path(__file__).parents[2] / "tools" / "page" / "types.d.ts"


def test_types_name_every_element_that_has_an_id():
    html = (files("polyad.app") / "static" / "index.html").read_text(encoding="utf-8")
    elements = {name: tag for tag, name in re.findall(r'<(\w+)\b[^>]*?\sid="([^"]+)"', html)}
    table = TYPES.read_text(encoding="utf-8").partition("interface PageElements {")[2]
    rows = re.findall(r'^  "?([\w-]+)"?: HTMLElementTagNameMap\["(\w+)"\];$', table, re.M)
    assert elements
    assert dict(rows) == elements
