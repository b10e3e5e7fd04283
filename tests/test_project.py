"""What the project says of itself agrees: version, make targets, workflow, locked packages."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import polyad

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
needs_make = pytest.mark.skipif(not shutil.which("make"), reason="needs make")
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


@needs_make
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_linters_and_spelling_are_given_files_that_git_tracks_and_no_others(tmp_path):
    """A clone with a user's files in it: an environment, a map, a notebook, notes."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (
        "src/own.py",
        "docs/own.md",
        "env/lib/other.py",
        "mine.py",
        "notes.md",
        "my.ipynb",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "removed.py").write_text("x = 1\n")
    for words in (["init", "-q"], ["add", "Makefile", "src", "docs", "removed.py"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "removed.py").unlink()
    assert given(tmp_path, "ruff") == [["check", "src/own.py"], ["format", "--check", "src/own.py"]]
    assert given(tmp_path, "spelling") == [["Makefile", "docs/own.md", "src/own.py"]]


@needs_make
def test_a_source_archive_without_git_is_checked_folder_by_folder(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "README.md").write_text("")
    (spelling,) = given(tmp_path, "spelling")
    assert {"src", "docs", "tests", "README.md"} <= set(spelling)
    assert "." not in spelling


def given(folder, target):
    """Return what a make target calls its tool with, for a tool that prints its arguments."""
    tool = folder / ".venv/bin" / {"spelling": "codespell"}.get(target, target)
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    words = ["make", "--silent", target, "-o", ".venv/.ready"]
    ours = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "PYTHON", "VENV")}
    quiet = ours | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    (folder / ".venv/.ready").touch()
    done = subprocess.run(words, cwd=folder, env=quiet, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_make_demo_writes_where_git_looks_away():
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/polyad-demo/", ".venv*/", "venv/", "env/"} <= set(ignored)


def test_developers_packages_are_no_extras():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = settings["project"]["optional-dependencies"], settings["dependency-groups"]
    assert set(extras) == {"scene", "zarr", "dask", "vector", "app", "onnx", "all"}
    assert set(groups) == {"dev", "bench", "docs", "fuzz", "release"}
