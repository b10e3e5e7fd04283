"""What is imported when: commands that need no torch answer without it, and names still work.

How long that takes is measured by `make bench`.
"""

import copy
import importlib.metadata
import json
import pickle
import subprocess
import sys
import typing

import numpy as np
import pytest
from sklearn.base import clone

import polyad
from polyad.scene.files import paths
from polyad.scene.write import tables, writers
from tests.waiting import PATIENCE

HEAVY = {
    "torch", "numpy", "scipy", "sklearn", "pandas", "xarray", "rasterio", "rioxarray", "h5py",
    "matplotlib", "skimage", "tensorly", "dask", "rich",
}  # fmt: skip
COMMANDS = (
    "demo", "train", "map", "evaluate", "sample", "area", "export", "label", "info", "scenes",
    "reproduce", "fetch",
)  # fmt: skip
REFUSED = [
    ["map", "missing.polyad", "scene.npy"],
    ["train", "missing.hdr", "labels.csv"],
    ["train", "indian-pines", "missing.csv"],
    ["evaluate", "missing.polyad", "scene.npy", "truth.tif"],
    ["sample", "missing.tif", "--size", "60"],
    ["sample", "indian-pines", "--size", "60", "--out", "points.shp"],
    ["area", "missing.tif", "points.csv"],
    ["area", "indian-pines", "missing.csv"],
    ["label", "missing.hdr"],
    ["export", "missing.polyad", "model.onnx"],
    ["info", "missing.hdr"],
    ["info", "missing.polyad"],
    ["fetch", "salina"],
    ["train", "indian-pines", "indian-pines", "--out", "missing/model.polyad"],
    ["train", "indian-pines", "indian-pines", "--preset", "slow"],
    ["train", "indian-pines", "indian-pines", "--window", "4"],
    ["train", "indian-pines", "indian-pines", "--window", "129"],
    ["train", "indian-pines", "indian-pines", "--merge", "corn+soy"],
    ["train", "indian-pines", "indian-pines", "--bbox", "9", "0", "1", "9"],
    ["label", "indian-pines", "--bbox", "0", "nan", "1", "9"],
    ["demo", "--goal", "fame"],
    ["train", "indian-pines", "indian-pines", "--rang", "2"],
    ["mapp"],
]
PACKAGES = ["", ".core", ".fitting", ".estimators", ".experiments", ".distributed", ".app"]

RUN = """
import json, sys
from polyad.cli import main
seen = {}
for arguments in json.loads(sys.argv[1]):
    code = 0
    try:
        main(arguments)
    except SystemExit as stop:
        code = stop.code or 0
    seen[" ".join(arguments)] = [code, sorted({name.split(".")[0] for name in sys.modules})]
json.dump(seen, sys.stderr)
"""


def python(code, *arguments):
    """Run code in a new process; return what it printed on stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def imported(commands):
    """Run commands in one new process; return each one's exit code and what of `HEAVY` is there."""
    _, told = python(RUN, json.dumps([[str(word) for word in words] for words in commands]))
    seen = json.loads(told.splitlines()[-1])
    return {words: (code, HEAVY & set(modules)) for words, (code, modules) in seen.items()}


# -- what is imported ----------------------------------------------------------------------------


def test_version_and_help_import_neither_torch_nor_numpy():
    commands = [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)]
    found = imported(commands)
    assert found == dict.fromkeys(found, (0, set()))
    assert len(found) == len(commands)


def test_a_refusal_imports_nothing_that_does_the_work(tmp_path):
    (tmp_path / "m.polyad").write_bytes(b"12345678{")
    wrong = [["--out", "map.jpg"], ["--merge", "=crops"], ["--bbox", "0", "9", "9", "9"]]
    maps = [["map", tmp_path / "m.polyad", "indian-pines", *words] for words in wrong]
    scored = ["evaluate", tmp_path / "m.polyad", "indian-pines", "indian-pines", *wrong[2]]
    found = imported([*REFUSED, *maps, scored])
    assert found == dict.fromkeys(found, (2, set()))
    assert len(found) == len(REFUSED) + 4


def test_known_scenes_are_listed_without_the_libraries_that_read_them():
    assert imported([["scenes"]]) == {"scenes": (0, set())}


def test_a_command_that_needs_no_cluster_does_not_import_dask(tmp_path):
    pytest.importorskip("dask")
    np.save(tmp_path / "scene.npy", np.ones((6, 5, 4), "f4"))
    code = """
import sys
sys.argv = ["polyad", "info", sys.argv[1]]
from polyad.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
print(sys.modules["dask"], sum(name.split(".")[0] == "polyad" for name in sys.modules))
"""
    dask, modules = python(code, str(tmp_path / "scene.npy"))[0].split()[-2:]
    assert dask == "None"
    assert int(modules) <= 25


@pytest.mark.parametrize("name", PACKAGES)
def test_importing_a_package_imports_no_library(name):
    code = f"import polyad{name}, sys; print(*sys.modules)"
    assert HEAVY & set(python(code)[0].split()) == set()


def test_a_model_and_its_map_need_no_tensorly_and_no_matplotlib():
    code = "import polyad.scene.map.mapping, polyad.scene.learn.training, sys; print(*sys.modules)"
    modules = set(python(code)[0].split())
    assert modules & {"tensorly", "matplotlib", "skimage", "sklearn.model_selection"} == set()
    assert "torch" in modules


# -- the names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_found_and_listed(name):
    if name == ".app":
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    if name == ".distributed":
        pytest.importorskip("dask")
    package = importlib.import_module(f"polyad{name}")
    assert set(package.__all__) <= set(dir(package))
    for public in package.__all__:
        assert getattr(package, public) is getattr(package, public)
    with pytest.raises(AttributeError, match=f"module 'polyad{name}' has no attribute 'Rank'"):
        package.Rank  # noqa: B018


def test_names_are_found_in_a_process_that_has_used_none():
    code = """
import polyad
from polyad import *
names = dir(polyad)
assert set(polyad.__all__) <= set(names), names
assert RankRClassifier is polyad.RankRClassifier is polyad.estimators.classifier.RankRClassifier
assert plan_inner is polyad.core.plan.plan_inner
assert not hasattr(polyad, "nothing")
"""
    python(code)


def test_the_version_is_that_of_the_installed_package():
    assert polyad.__version__ == importlib.metadata.version("polyad")


@pytest.mark.parametrize("estimator", [polyad.RankRClassifier, polyad.RankRRegressor])
def test_estimators_are_copied_and_cloned(estimator):
    model = estimator(rank=2, hidden=3)
    for twin in (copy.copy(model), copy.deepcopy(model), clone(model)):
        assert twin.get_params() == model.get_params()


def test_a_fitted_estimator_is_unpickled_where_polyad_was_not_imported(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 3, 4))
    model = polyad.RankRClassifier(hidden=3, epochs=3, random_state=0).fit(X, np.arange(12) % 2)
    (tmp_path / "m.pickle").write_bytes(pickle.dumps((model, X)))
    code = """
import pickle, sys
model, X = pickle.load(open(sys.argv[1], "rb"))
print(model.predict(X).tolist())
"""
    printed, _ = python(code, str(tmp_path / "m.pickle"))
    assert json.loads(printed) == model.predict(X).tolist()


@pytest.mark.parametrize("name", ["load", "save", "plan_inner"])
def test_type_hints_of_functions_resolve(name):
    assert "return" in typing.get_type_hints(getattr(polyad, name))


@pytest.mark.parametrize("name", [n for n in polyad.__all__ if n[0].isupper()])
def test_type_hints_of_classes_resolve(name):
    found = getattr(polyad, name)
    assert typing.get_type_hints(found) is not None
    methods = [m for m in vars(found).values() if callable(m) and hasattr(m, "__annotations__")]
    assert methods
    for method in methods:
        typing.get_type_hints(method)


def test_endings_that_are_checked_are_those_that_are_written():
    assert paths.ENDINGS["map"] == tuple(writers._FORMATS)
    assert paths.ENDINGS["sample"] == tuple(tables._POINT_FORMATS)
