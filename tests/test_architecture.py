"""The shape of the code base: who may import whom, and what no file may do."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import polyad

SRC = Path(polyad.__file__).parent
ROOT = Path(__file__).parent.parent

# From the bottom up: each layer and the layers it may import (its own files it always may).
# "polyad" stands for the package's own __init__, which only gathers the public names.
LOW = {
    "errors", "regular", "lazy", "text", "leftovers", "atomic", "threads", "core", "fitting",
    "estimators",
}  # fmt: skip
LAYERS = {
    "errors": set(),
    "lazy": set(),
    "text": set(),
    "regular": {"errors"},
    "leftovers": set(),
    "atomic": {"errors", "leftovers"},
    "threads": {"errors"},
    "core": {"errors", "lazy"},
    "fitting": {"errors", "core"},
    "estimators": {"errors", "regular", "lazy", "atomic", "threads", "core", "fitting"},
    "baselines": LOW,
    "scene": {"errors", "regular", "text", "atomic", "threads", "core", "estimators"},
    "polyad": LOW | {"baselines", "scene"},
    "experiments": LOW | {"baselines", "scene", "polyad"},
    "distributed": LOW | {"baselines", "scene", "polyad", "experiments"},
    "terminal": {"errors", "text"},
    "app": LOW | {"terminal", "baselines", "scene", "polyad", "experiments", "distributed"},
    "cli": LOW | {"terminal", "baselines", "scene", "polyad", "experiments", "distributed", "app"},
    "__main__": {"cli"},
}
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FILES = sorted(SRC.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))
EACH_FILE = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))


def layer_of(module):
    """Return the layer of a dotted module name: ``polyad.core.plan`` -> ``core``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "polyad"


def module_of(path):
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(["polyad", *(p for p in parts if p != "__init__")])


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
    found = imported_modules(source, module, is_package)
    ours = {name for name in found if name.split(".")[0] == "polyad"}
    return sorted(name for name in ours if layer_of(name) not in LAYERS[layer] | {layer})


@EACH_FILE
def test_imports_point_upwards_only(path):
    module = module_of(path)
    assert layer_of(module) in LAYERS, f"{module} is in no layer: add one to the table"
    assert misdirected(path.read_text(), module, path.name == "__init__.py") == []


def test_table_of_layers_has_no_cycle():
    seen = set()
    for layer, allowed in LAYERS.items():
        assert allowed <= seen, f"{layer} may import a layer that comes after it"
        seen.add(layer)


@pytest.mark.parametrize("low", ["core", "fitting", "estimators"])
def test_lower_layers_know_nothing_of_scenes(low):
    assert "scene" not in LAYERS[low]


@pytest.mark.parametrize("top", ["cli", "app"])
def test_nothing_but_the_command_line_stands_on_the_top_layers(top):
    assert {name for name, allowed in LAYERS.items() if top in allowed} <= {"cli", "__main__"}


@pytest.mark.parametrize(
    ("source", "module", "found"),
    [
        ("import polyad.scene.patches", "polyad.core.plan", ["polyad.scene.patches"]),
        ("from polyad.scene import patches", "polyad.core.plan", ["polyad.scene"]),
        ("from polyad import scene", "polyad.fitting.joint", ["polyad.scene"]),
        ("from polyad import RankRClassifier", "polyad.core.plan", ["polyad"]),
        ("from ..scene import patches", "polyad.core.plan", ["polyad.scene"]),
        ("def f():\n    from polyad.app import serve", "polyad.scene.io", ["polyad.app"]),
        ("from .plan import Plan\nimport torch", "polyad.core.layer", []),
        ("from polyad.errors import InputError", "polyad.core.layer", []),
    ],
)
def test_the_check_itself_sees_every_kind_of_import(source, module, found):
    assert misdirected(source, module) == found


@EACH_FILE
def test_no_file_is_longer_than_500_lines(path):
    assert len(path.read_text().splitlines()) <= 500


@EACH_FILE
def test_input_is_never_checked_with_assert(path):
    lines = [n.lineno for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
    assert lines == []


@EACH_FILE
def test_nothing_is_unpickled(path):
    names = imported_modules(path.read_text(), module_of(path), path.name == "__init__.py")
    assert {name.split(".")[0] for name in names} & UNPICKLERS == set()


@pytest.mark.parametrize("path", TESTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_assert_has_a_comparison_as_its_message(path):
    """``assert a, b == c`` compares nothing: it was meant as ``assert (a, b) == c``."""
    asserts = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
    lines = [n.lineno for n in asserts if isinstance(n.msg, ast.Compare | ast.BoolOp)]
    assert lines == []


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
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_every_dependency_has_its_row_in_the_documentation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    asked += [requirement for extra in extras for requirement in extra]
    names = {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in asked} - {"polyad"}
    rows = re.findall(r"^\| ([\w.-]+) \|", (ROOT / "docs/dependencies.md").read_text(), re.M)
    assert {row for row in rows if row != "package"} == names


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_citation_names_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


# Where a disk is written to without `polyad.atomic`: logs that grow, and a folder of its own.
WRITERS = {
    "atomic.py",
    "leftovers.py",
    "app/journal.py",
    "app/exchange.py",
    "app/redirect.py",  # in a private folder that is removed, as is that of uploads
    "app/uploads.py",
    "distributed/ledger.py",
}


@EACH_FILE
def test_outputs_are_written_by_way_of_a_temporary_name(path):
    """Who writes into a file has it from `polyad.atomic`, which calls it a part."""
    if str(path.relative_to(SRC)) in WRITERS:
        return
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            opens = node.func.attr == "open" and any(set("wax+") & set(str(w)) for w in words[:1])
            writes = node.func.attr in ("write_text", "write_bytes")
            if (opens or writes) and "part" not in ast.unparse(node.func.value):
                found.append(ast.unparse(node)[:80])
    assert found == []
