"""What the project says of itself agrees: version, make targets, workflow, locked packages."""

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import polyad

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
SYSTEMS = {"ubuntu-latest": "Linux", "macos-latest": "macOS", "windows-latest": "Windows"}


def test_version_is_that_of_the_installed_package_and_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert polyad.__version__ == importlib.metadata.version("polyad") == project["version"]


def test_every_make_target_has_its_row_in_contributing():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    targets = re.search(r"^\.PHONY:(.*)$", makefile, re.M)[1].split()
    assert sorted(re.findall(r"^\| `make ([\w-]+)` \|", CONTRIBUTING, re.M)) == sorted(targets)
    assert set(re.findall(r"^([\w-]+):(?!=)", makefile, re.M)) == set(targets)


def jobs():
    """Return what CONTRIBUTING says of each job: systems and Python versions."""
    rows = re.findall(r"^\| (\w+) \| ([\w, ]+) \| ([\d., ]+) \|", CONTRIBUTING, re.M)
    return {name: (systems.split(", "), pythons.split(", ")) for name, systems, pythons in rows}


def test_contributing_names_every_job_of_the_workflow():
    assert set(jobs()) == set(WORKFLOW["jobs"])


@pytest.mark.parametrize("name", WORKFLOW["jobs"])
def test_job_runs_on_the_systems_and_pythons_that_contributing_names(name):
    job = WORKFLOW["jobs"][name]
    matrix = job.get("strategy", {}).get("matrix", {})
    systems = matrix.get("os", [job["runs-on"]])
    (setup,) = [s for s in job["steps"] if s.get("uses", "").startswith("actions/setup-python@")]
    pythons = matrix.get("python", [setup["with"]["python-version"]])
    assert ([SYSTEMS[s] for s in systems], pythons) == jobs()[name]


def test_oldest_python_of_the_workflow_is_the_oldest_that_is_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest, *_ = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert project["requires-python"] == f">={oldest}"


def test_locked_npm_packages_have_a_checksum_and_no_address():
    lock = json.loads((ROOT / "tools/page/package-lock.json").read_text(encoding="utf-8"))
    packages = {name: about for name, about in lock["packages"].items() if name}
    assert [name for name, about in packages.items() if "integrity" not in about] == []
    assert [name for name, about in packages.items() if "resolved" in about] == []


def test_every_hook_before_a_commit_is_a_make_target():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (local,) = config["repos"]
    entries = [hook["entry"].split() for hook in local["hooks"]]
    assert [e[:2] for e in entries] == [["make", "--silent"]] * len(entries)
    assert {e[2] for e in entries} == {"ruff", "types", "spelling", "page"}
