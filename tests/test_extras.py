"""Without an extra, what needs it says so in one sentence, and the rest works."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from polyad.lazy import EXTRAS
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTED_AS = {"scikit-image": "skimage", "pillow": "PIL"}

WITHOUT = """
import sys, json
missing = json.loads(sys.argv.pop(1))
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def python(code, *arguments, missing=tuple(EXTRAS)):
    """Run code in a new process in which packages are missing."""
    words = [sys.executable, "-c", WITHOUT + code, json.dumps(missing), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_every_package_of_an_extra_is_known_by_the_name_it_is_imported_under():
    extras = PROJECT["optional-dependencies"]
    wanted = {}
    for extra in ("scene", "zarr", "vector", "app", "dask", "onnx"):
        names = (re.split(r"[\[<>=!~; ]", line)[0] for line in extras[extra])
        wanted |= {IMPORTED_AS.get(n, n): extra for n in names if n != "polyad"}
    assert wanted == EXTRAS


def test_layer_and_estimators_work_with_no_extra():
    done = python("""
import numpy as np, polyad, tempfile, torch
layer, error = polyad.RankRLinear.from_dense(torch.randn(4, 60), (3, 4, 5), rank=2)
assert layer(torch.zeros(2, 3, 4, 5)).shape == (2, 4)
X = np.random.default_rng(0).normal(size=(30, 4, 5)); y = np.arange(30) % 2
model = polyad.RankRClassifier(hidden=4, epochs=3, random_state=0).fit(X, y)
with tempfile.TemporaryDirectory() as folder:
    polyad.save(model, folder + "/m.polyad")
    assert (polyad.load(folder + "/m.polyad").predict(X) == model.predict(X)).all()
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("polyad.open_scene", "scene"),
        ("polyad.map_scene", "scene"),
        ("polyad.scene.export_onnx", "scene"),
        ("polyad.experiments.Reproduction", "scene"),
    ],
)
def test_a_name_that_needs_an_extra_says_which(name, extra):
    module, _, attribute = name.rpartition(".")
    done = python(f"import {module}\n{module}.{attribute}")
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(
        rf"ModuleNotFoundError: .*{attribute} needs the package \w+; "
        rf"install it with: pip install 'polyad\[{extra}\]'",
        last,
    ), done.stderr


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (["--help"], ["typer"], "scene"),
        (["info", "scene.npy"], ["xarray"], "scene"),
        (["label", "indian-pines"], ["fastapi"], "app"),
    ],
)
def test_a_command_without_its_extra_ends_with_one_sentence(tmp_path, arguments, missing, extra):
    (tmp_path / "scene.npy").write_bytes(b"")
    code = f"import os; os.chdir({str(tmp_path)!r})\nfrom polyad.cli import main\nmain()"
    done = python(code, *arguments, missing=missing)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("polyad: ")
    assert f"pip install 'polyad[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1
