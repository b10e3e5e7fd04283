"""`constraints.txt` names all that is installed: what was tested can be installed and audited."""

import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "constraints.txt").read_text()
NAMED = dict(line.split("==") for line in TEXT.splitlines() if not line.startswith("#"))


def tool():
    spec = importlib.util.spec_from_file_location("constraints", ROOT / "tools" / "constraints.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_of_the_tested_environment_is_named_with_its_version():
    if f"# Python {sys.version_info[0]}.{sys.version_info[1]}\n" not in TEXT:
        pytest.skip("constraints.txt is of another Python, which brings other packages along")
    if version("torch").partition("+")[0] != NAMED["torch"]:
        pytest.skip("not the tested environment: it was not installed by constraints.txt")
    brought = tool().brought_by("polyad", frozenset({"dev"}))
    assert {k: v for k, v in brought.items() if NAMED.get(k) != v} == {}
    assert sorted(set(NAMED) - set(brought)) == [], "named, but no longer brought along"


def test_every_constraint_is_one_version_of_one_package():
    assert list(NAMED) == sorted(map(tool().normal, NAMED))
    assert all(v and v[0].isdigit() and "+" not in v for v in NAMED.values())
