"""QGIS without windows: a profile of its own, the plugin from its zip, polyad from this tree."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import pytest_configure  # noqa: F401 - Ctrl+C reaches what tests start

ROOT = Path(__file__).parents[3]
POTSDAM = ROOT.parent / "shared/data/enmap_potsdam"
collect_ignore = ["scripts"]  # for the Python of QGIS

# Debian's qgis_process hands options of its own to a program that knows none of them
QGIS_PROCESS = shutil.which("qgis_process.bin") or shutil.which("qgis_process")
QGIS_PYTHON = os.environ.get("QGIS_PYTHON", "/usr/bin/python3")


def load(path):
    """Return a Python file as a module."""
    spec = importlib.util.spec_from_file_location(f"qgis_tests_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Qgis:
    """Runs `qgis_process`, and scripts in the Python of QGIS."""

    program = QGIS_PROCESS

    def __init__(self, folder):
        self.folder = folder
        self.plugins = folder / "profile/profiles/default/python/plugins"
        self.plugins.mkdir(parents=True)
        (folder / "run").mkdir(mode=0o700)
        command = folder / "bin/polyad"
        command.parent.mkdir()
        start = shlex.join([sys.executable, "-m", "polyad"])
        command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {start} "$@"\n')
        command.chmod(0o755)
        (command.parent / "qgis_process").symlink_to(QGIS_PROCESS)
        dropped = ("PYTHONPATH", "VIRTUAL_ENV", "DISPLAY")
        self.environment = {k: v for k, v in os.environ.items() if k not in dropped} | {
            "PATH": f"{command.parent}:{Path(QGIS_PROCESS).parent}:/usr/bin:/bin",
            "QT_QPA_PLATFORM": "offscreen",
            "QGIS_CUSTOM_CONFIG_PATH": str(folder / "profile"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def process(self, *words):
        """Return the finished `qgis_process`."""
        return subprocess.run(
            [QGIS_PROCESS, *map(str, words)],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def run(self, algorithm, **parameters):
        """Run an algorithm to a good end and return its results."""
        given = [f"{name}={value}" for name, value in parameters.items()]
        done = self.process("--json", "run", f"polyad:{algorithm}", "--", *given)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout[done.stdout.index("{") :])["results"]

    def script(self, name, **given):
        """Run a script of the folder `scripts` and return what it tells."""
        words = json.dumps({"plugins": str(self.plugins)} | {k: str(v) for k, v in given.items()})
        script = Path(__file__).with_name("scripts") / f"{name}.py"
        done = subprocess.run(
            [QGIS_PYTHON, script, words],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def qgis(tmp_path_factory):
    """QGIS with the plugin installed from its zip, as a user does it."""
    if QGIS_PROCESS is None:
        pytest.skip("qgis_process is not installed")
    qgis = Qgis(tmp_path_factory.mktemp("qgis"))
    archive = qgis.folder / "polyad_qgis.zip"
    subprocess.run([sys.executable, ROOT / "tools/qgis_plugin.py", archive], check=True)
    with zipfile.ZipFile(archive) as file:
        file.extractall(qgis.plugins)
    enabled = qgis.process("plugins", "enable", "polyad_qgis")
    assert "polyad_qgis" in enabled.stdout
    return qgis


@pytest.fixture(scope="session")
def campaign(tmp_path_factory):
    """The files that the pages of the documentation name: scene.hdr, points.gpkg, truth.tif."""
    folder = tmp_path_factory.mktemp("campaign")
    load(ROOT / "tests/journeys/conftest.py")._lay_out(folder)
    return folder


@pytest.fixture(scope="session")
def area(campaign):
    """Return (scene, labels): the EnMAP tiles of Potsdam where they are, else the made scene."""
    if POTSDAM.is_dir():  # copied, since QGIS writes statistics beside what it shows
        names = ("potsdam_train.tif", "potsdam_train_labels.tif")
        return tuple(Path(shutil.copyfile(POTSDAM / name, campaign / name)) for name in names)
    return campaign / "scene.img", campaign / "truth.tif"


@pytest.fixture(scope="session")
def model(qgis, area):
    """A model that Train made in QGIS, of twenty pixels of each class."""
    scene, labels = area
    path = qgis.folder / "model.polyad"
    given = {"SCENE": scene, "LABEL_RASTER": labels, "SAMPLES_PER_CLASS": 20}
    assert qgis.run("train", **given, OUTPUT=path) == {"OUTPUT": str(path)}
    return path


@pytest.fixture(scope="session")
def root():
    """The folder of the repository."""
    return ROOT
