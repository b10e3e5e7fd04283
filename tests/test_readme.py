"""What README shows runs, and says what it says."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page):
    """Return the Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def test_readme_has_python_to_run():
    assert len(blocks("README.md")) >= 3


def test_python_blocks_of_the_readme_run_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # whatever they write is theirs
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks("README.md")))
    runpy.run_path(str(script))
    first = capsys.readouterr().out.splitlines()[0]
    assert float(first) > 0.8  # the five lines print an accuracy


def test_python_blocks_of_the_guide_to_the_paper_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "guide.py"
    script.write_text("\n".join(blocks("docs/reproduce.md")))
    runpy.run_path(str(script))
    assert "1 polyad-paper/report.html" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text()):
        assert (page.parent / link).exists(), f"{page}: {link}"
