"""The documentation site: its layout, its reference, its gallery. `make docs` builds the whole."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS, GALLERY = ROOT / "docs", ROOT / "examples/gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))
TOCTREE = re.compile(r":::\{toctree\}\n(?::[^\n]*\n)*\n(.*?)\n:::", re.S)
# What the build writes, or takes from the root of the repository
MADE = {"gallery/index", "reference/python/index", "reference/commands/index"}
MADE |= {f"project/{page}" for page in ("changelog", "contributing", "reporting", "conduct")}


@pytest.fixture(scope="module")
def tools():
    """Return the modules that lay out the site and write its reference."""
    sys.path.insert(0, str(ROOT))
    try:
        yield (
            importlib.import_module("tools.site.build"),
            importlib.import_module("tools.site.reference"),
        )
    finally:
        sys.path.remove(str(ROOT))


def listed():
    """Return every page that a table of contents names, without its suffix."""
    for page in DOCS.rglob("*.md"):
        for block in TOCTREE.findall(page.read_text()):
            for line in block.split():
                yield (page.parent / line).resolve().relative_to(DOCS).as_posix()


def test_every_page_is_in_one_table_of_contents():
    pages = {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md")}
    names = list(listed())
    assert sorted(names) == sorted(set(names))
    assert set(names) - MADE == pages - {"index"}


def test_links_follow_the_pages_to_their_place_on_the_site(tools):
    build, _ = tools
    text = "[a](../CHANGELOG.md) [b](mapping.md#maps) [c](../tests/conftest.py) [d](#here)"
    made = build.relinked(text, "docs/design.md")
    assert made == "[a](project/changelog.md) [b](mapping.md#maps) c [d](#here)"
    assert build.relinked("[x](docs/design.md)", "CONTRIBUTING.md") == "[x](../design.md)"


def test_reference_has_every_public_name_once(tools):
    _, reference = tools
    homes = reference.homes()
    assert set(homes) == set(reference.PACKAGES)
    public = (ROOT / "tests/public_interface.txt").read_text()
    names = set(re.findall(r"^(\w+)", public, re.M))
    described = [name for own in homes.values() for name in own]
    assert names - set(described) == {"main"}  # the command line has pages of its own


def test_page_of_a_command_is_its_help(tools):
    _, reference = tools
    page = reference.command_page("map", "map model.polyad scene.hdr --out map.tif")
    assert "polyad map model.polyad scene.hdr --out map.tif" in page
    assert "Usage: polyad map" in page
    assert "--probabilities" in page


def test_gallery_has_a_dozen_examples_half_of_them_without_a_scene():
    scenes = [path for path in SCRIPTS if "open_scene" in path.read_text()]
    assert len(SCRIPTS) >= 12
    assert len(SCRIPTS) - len(scenes) >= 6


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_example_begins_with_a_question_and_ends_with_a_picture(path):
    text = path.read_text()
    title, line = text.split('"""')[1].strip().split("\n")[:2]
    assert title.endswith("?")
    assert line == "=" * len(title)
    assert text.rstrip().endswith("plt.show()")


def test_accuracies_of_the_four_protocols_are_those_of_the_records():
    page = (DOCS / "understand/honest-accuracy.md").read_text()
    quoted = [float(n) for n in re.findall(r"^## .*: ([\d.]+) %$", page, re.M)]
    readme = (ROOT / "README.md").read_text()
    row = next(line for line in readme.splitlines() if "`--preset best` |" in line)
    assert quoted == [float(n) for n in re.findall(r"([\d.]+) ±", row)]


def test_format_of_the_model_file_page_is_the_one_that_is_written():
    from polyad.estimators.file_format import FORMAT

    page = (DOCS / "reference/model-file.md").read_text()
    assert f"| `format` | {FORMAT} |" in page
    assert f"This page is format {FORMAT}," in page.replace("\n", " ")
