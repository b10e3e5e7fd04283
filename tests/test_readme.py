"""What README shows runs, and says what it says."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)


def test_readme_has_python_to_run():
    assert len(BLOCKS) >= 3


def test_python_blocks_of_the_readme_run_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # whatever they write is theirs
    script = tmp_path / "readme.py"
    script.write_text("\n".join(BLOCKS))
    runpy.run_path(str(script))
    first = capsys.readouterr().out.splitlines()[0]
    assert float(first) > 0.8  # the five lines print an accuracy


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_links_to_files_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text):
        assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"
