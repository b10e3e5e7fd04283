"""The shape of the code base: who may import whom, and what no file may do."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import polyad
from tests.waiting import PATIENCE
from tools.public_interface import listing

SRC = Path(polyad.__file__).parent
ROOT = Path(__file__).parent.parent

# From the bottom up: each layer and the layers it may import (its own files it always may).
# "polyad" stands for the package's own __init__, which only gathers the public names.
LOW = {
    "errors", "safe_open", "sandbox", "lazy", "text", "atomic", "codec", "durable", "threads",
    "core", "fitting", "estimators",
}  # fmt: skip
LAYERS = {
    "errors": set(),
    "lazy": set(),
    "text": set(),
    "safe_open": {"errors"},
    "sandbox": {"errors"},
    "atomic": {"errors"},
    "durable": {"errors", "safe_open", "atomic"},
    "codec": {"text"},
    "threads": {"errors"},
    "core": {"errors", "lazy"},
    "fitting": {"errors", "lazy", "core"},
    "estimators": {
        "errors",
        "safe_open",
        "lazy",
        "text",
        "atomic",
        "codec",
        "threads",
        "core",
        "fitting",
    },
    "scene": {
        "errors",
        "safe_open",
        "sandbox",
        "lazy",
        "text",
        "atomic",
        "codec",
        "threads",
        "core",
        "estimators",
    },
    "polyad": LOW | {"scene"},
    "experiments": LOW | {"scene", "polyad"},
    "distributed": LOW | {"scene", "polyad", "experiments"},
    "terminal": {"errors", "text"},
    "app": LOW | {"terminal", "scene", "polyad", "experiments", "distributed"},
    "cli": LOW | {"terminal", "scene", "polyad", "experiments", "distributed", "app"},
    "__main__": {"cli"},
}
# The rooms of `scene`, from the bottom up: each may import those before it. What stands beside
# them in the folder is a way in, and may import all.
ROOMS = ("files", "raster", "draw", "read", "write", "learn", "map", "assess")
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}

FRONT = ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "README", "SECURITY")
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *(ROOT / f"{name}.md" for name in FRONT)])
FILES = sorted(SRC.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))


def layer_of(module):
    """Return the layer of a dotted module name: ``polyad.core.plan`` -> ``core``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "polyad"


def module_of(path):
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(["polyad", *(p for p in parts if p != "__init__")])


MODULES = {module_of(path) for path in FILES}


def imported_modules(source, module, is_package=False):
    """Yield the absolute name of everything that the source text of ``module`` imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = node.level - is_package
                parents = module.split(".")[: len(module.split(".")) - up]
                base = ".".join([*parents, *filter(None, [base])])
            # `from polyad import core` names a layer; `from polyad import save` does not
            inner = {p.stem for p in SRC.iterdir()} if base == "polyad" else set()
            yield from (f"polyad.{a.name}" if a.name in inner else base for a in node.names)


def misdirected(source, module, is_package=False):
    """Return the imports of ``module`` that its layer may not make."""
    layer = layer_of(module)
    imported = imported_modules(source, module, is_package)
    ours = {name for name in imported if name.split(".")[0] == "polyad"}
    return sorted(name for name in ours if layer_of(name) not in LAYERS[layer] | {layer})


def found_in(files, rule):
    """Return what ``rule``, from a path to a list, finds in each file where it finds anything."""
    found = {str(path.relative_to(ROOT)): rule(path) for path in files}
    return {path: lines for path, lines in found.items() if lines}


def test_imports_point_upwards_only():
    assert {layer_of(module) for module in MODULES} <= {*LAYERS}, "add the new layer to the table"
    assert (
        found_in(FILES, lambda p: misdirected(p.read_text(), module_of(p), p.name == "__init__.py"))
        == {}
    )


def room_of(module):
    """Return the place of a module's room in `ROOMS`: ``polyad.scene.read.labels`` -> 3."""
    room = (*module.split("."), "", "", "")[2]
    return ROOMS.index(room) if room in ROOMS else len(ROOMS)


def test_rooms_of_scene_import_only_those_before_them():
    def later(path):
        scene = {name for name in modules_imported_by(path) if name.startswith("polyad.scene")}
        return [name for name in scene if room_of(name) > room_of(module_of(path))]

    files = [path for path in FILES if path.is_relative_to(SRC / "scene")]
    assert len(files) > len(ROOMS)
    assert found_in(files, later) == {}


def test_every_folder_of_scene_is_a_room():
    folders = {p.parent.relative_to(SRC / "scene").parts[:1] for p in FILES if "scene" in p.parts}
    assert folders == {(), *((room,) for room in ROOMS)}


def modules_imported_by(path):
    """Return the modules of polyad that a file imports at any time, late imports included."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "imports are absolute"
            imported |= {home_of(node.module, alias.name) for alias in node.names}
    return imported & MODULES - {module_of(path)}


def home_of(module, name):
    """Return the module that ``from module import name`` runs: lazy names are at home elsewhere."""
    if f"{module}.{name}" in MODULES:
        return f"{module}.{name}"
    if module in MODULES and (SRC / Path(*module.split(".")[1:]) / "__init__.py").exists():
        value = getattr(importlib.import_module(module), name)
        return getattr(value, "__module__", module)
    return module


def cycle_in(graph):
    """Return the nodes of ``graph``, node -> successors, that lie on a cycle or lead into one."""
    left = dict(graph)
    while leaves := [node for node, after in left.items() if not after & left.keys()]:
        for node in leaves:
            del left[node]
    return sorted(left)


def test_no_module_imports_itself_by_way_of_others():
    """`__init__` files only pass names on; who imports such a name imports its home."""
    files = {module_of(path): path for path in FILES if path.name != "__init__.py"}
    assert cycle_in({name: modules_imported_by(path) for name, path in files.items()}) == []


def test_the_check_itself_finds_a_cycle():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


def test_public_names_and_signatures_are_those_that_a_reviewer_has_seen():
    """Written anew by ``python tools/public_interface.py > tests/public_interface.txt``."""
    seen = (ROOT / "tests/public_interface.txt").read_text()
    assert listing().splitlines() == seen.splitlines()


@pytest.mark.parametrize(
    ("source", "module", "wrong"),
    [
        ("import polyad.scene.raster.windows", "polyad.core.plan", ["polyad.scene.raster.windows"]),
        ("from polyad.scene import patches", "polyad.core.plan", ["polyad.scene"]),
        ("from polyad import scene", "polyad.fitting.joint", ["polyad.scene"]),
        ("from polyad import RankRClassifier", "polyad.core.plan", ["polyad"]),
        ("from ..scene import patches", "polyad.core.plan", ["polyad.scene"]),
        ("def f():\n    from polyad.app import serve", "polyad.scene.io", ["polyad.app"]),
        ("from .plan import Plan\nimport torch", "polyad.core.layer", []),
        ("from polyad.errors import InputError", "polyad.core.layer", []),
    ],
)
def test_the_check_itself_sees_every_kind_of_import(source, module, wrong):
    assert misdirected(source, module) == wrong


def nodes(path, kind):
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind)]


def test_input_is_never_checked_with_assert():
    assert found_in(FILES, lambda p: [n.lineno for n in nodes(p, ast.Assert)]) == {}


def test_nothing_is_unpickled():
    def unpicklers(path):
        names = imported_modules(path.read_text(), module_of(path), path.name == "__init__.py")
        return sorted({name.split(".")[0] for name in names} & UNPICKLERS)

    assert found_in(FILES, unpicklers) == {}


def test_no_assert_has_a_comparison_as_its_message():
    """``assert a, b == c`` compares nothing: it was meant as ``assert (a, b) == c``."""

    def lines(path):
        asserts = nodes(path, ast.Assert)
        return [n.lineno for n in asserts if isinstance(n.msg, ast.Compare | ast.BoolOp)]

    assert found_in(TESTS, lines) == {}


def test_importing_polyad_changes_no_global_state():
    script = """
import importlib, json, logging, os, pkgutil, random
import numpy, tensorly, torch
import sklearn.model_selection, tensorly.decomposition  # these draw from `random` when imported

def state():
    return {
        "torch dtype": str(torch.get_default_dtype()),
        "torch device": str(torch.get_default_device()),
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "torch gradients": torch.is_grad_enabled(),
        "torch determinism": torch.are_deterministic_algorithms_enabled(),
        "torch random state": torch.get_rng_state().tolist(),
        "tensorly backend": tensorly.get_backend(),
        "numpy errors": numpy.geterr(),
        "numpy random state": numpy.random.get_state()[1].tolist(),
        "random state": hash(random.getstate()),
        "directory": os.getcwd(),
        "log handlers": len(logging.getLogger().handlers),
        "log level": logging.getLogger().level,
    }

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
tensorly.set_backend("pytorch")
before = state()
import polyad
on_top = {"app", "cli", "distributed", "__main__"}  # they may ask for extras
for module in pkgutil.iter_modules(polyad.__path__):
    if module.name not in on_top:
        importlib.import_module("polyad." + module.name)
after = state()
print(json.dumps([name for name in before if before[name] != after[name]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_every_dependency_has_its_row_in_the_documentation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = [*project["project"]["optional-dependencies"].values()]
    extras += project["dependency-groups"].values()
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    asked += [requirement for extra in extras for requirement in extra]
    names = {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in asked} - {"polyad"}
    rows = re.findall(r"^\| ([\w.-]+) \|", (ROOT / "docs/dependencies.md").read_text(), re.M)
    assert {row for row in rows if row != "package"} == names


def test_links_between_pages_lead_somewhere():
    def broken(page):
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        local = [link for link in links if "://" not in link]
        return [link for link in local if not (page.parent / link).exists()]

    assert found_in(PAGES, broken) == {}


def test_citation_names_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
