"""What is published beside the code: the long description, the conda recipe, the workflow."""

import re
import tomllib
from pathlib import Path

import yaml
from hatch_fancy_pypi_readme._builder import build_text
from hatch_fancy_pypi_readme._config import load_and_validate_config

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


def long_description(monkeypatch):
    monkeypatch.chdir(ROOT)
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    config = load_and_validate_config(hook)
    return build_text(config.fragments, config.substitutions, PROJECT["project"]["version"])


def test_long_description_has_nothing_that_a_package_index_cannot_show(monkeypatch):
    text = long_description(monkeypatch)
    assert [t for t in re.findall(r"\]\(([^)]*)\)", text) if not t.startswith(("http", "#"))] == []
    assert "<!--" not in text
    assert "$$" not in text
    assert "pip install" in text


def test_every_link_of_the_readme_leads_to_a_file():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [t.partition("#")[0] for t in re.findall(r"\]\(([^)]*)\)", readme)]
    missing = [t for t in links if t and "://" not in t and not (ROOT / t).exists()]
    assert missing == []


def test_first_screen_of_the_readme_has_a_sentence_a_picture_and_an_install_line():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    first = "\n".join(lines)
    pieces = ("**Maps a hyperspectral scene", "![", "pip install", "polyad train", "| you have |")
    for piece in pieces:
        assert piece in first


def test_conda_recipe_wants_what_the_project_wants():
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8"))
    project = PROJECT["project"]
    assert recipe["context"]["version"] == project["version"]
    texts = project["dependencies"] + project["optional-dependencies"]["scene"]  # no extras there
    wanted = [re.fullmatch(r"([\w-]+)(.*)", text).groups() for text in texts]
    run = {f"{CONDA_NAMES.get(name, name)} {bounds}".strip() for name, bounds in wanted}
    assert set(recipe["requirements"]["run"]) == run | {f"python {project['requires-python']}"}


def test_release_publishes_only_what_was_tested():
    flow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    jobs = flow["jobs"]
    assert jobs["test"]["needs"] == "build"
    assert jobs["publish"]["needs"] == "test"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert not any("make" in str(step) for step in jobs["publish"]["steps"])  # nothing built anew


def test_image_runs_as_nobody_in_particular():
    text = (ROOT / "packaging/Dockerfile").read_text(encoding="utf-8")
    last = text.rindex("\nFROM ")
    assert re.search(r"^USER (?!root)", text[last:], re.M)
