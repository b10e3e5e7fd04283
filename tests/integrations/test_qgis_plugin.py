"""The QGIS plugin's parts that know nothing of QGIS: command lines, sources, the command's run.

What needs QGIS is in integrations/qgis/tests, and is run by `make test-qgis`.
"""

import ast
import configparser
import doctest
import importlib
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import typer

import polyad
from polyad.cli.program import app
from polyad.scene.learn.steps.recipe import GOALS, PRESETS

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "integrations/qgis/polyad_qgis"


def module(name):
    """Return a module of the plugin; its folder stands in `sys.path` only meanwhile."""
    sys.path.insert(0, str(PLUGIN.parent))
    try:
        return importlib.import_module(f"polyad_qgis.{name}")
    finally:
        sys.path.remove(str(PLUGIN.parent))


commands, running, sources = module("commands"), module("running"), module("sources")


@pytest.mark.parametrize("part", [commands, running, sources], ids=lambda m: m.__name__)
def test_examples_of_the_plugin_run(part):
    failed, tried = doctest.testmod(part)
    assert (failed, tried > 0) == (0, True)


# --- command lines -------------------------------------------------------------------------------


def understood(words):
    """Return what polyad's own command line makes of the words, without running it."""
    command = typer.main.get_command(app).commands[words[0]]
    return command.make_context(words[0], list(words[1:])).params


def test_train_says_what_was_chosen():
    words = commands.train(
        "scene.hdr", ["truth.tif"], "m.polyad", preset="best", goal="other-scenes",
        samples_per_class=10, rank=2, window=7, seed=3, force=True,
    )  # fmt: skip
    given = understood(words)
    wanted = {
        "scene": "scene.hdr", "out": Path("m.polyad"), "preset": "best", "goal": "other-scenes",
        "samples_per_class": 10, "rank": 2, "window": 7, "seed": 3, "force": True,
    }  # fmt: skip
    assert {name: given[name] for name in wanted} == wanted
    assert given["labels"] in ("truth.tif", ["truth.tif"])


def test_what_was_not_chosen_is_left_to_polyad():
    assert commands.train("s.hdr", ["t.tif"], "m") == [
        "train",
        "--out",
        "m",
        "--",
        "s.hdr",
        "t.tif",
    ]


def test_vector_labels_go_with_their_layer_and_field():
    words = commands.train("s.hdr", ["p.gpkg"], "m", layer="plots", field="class", all_touched=True)
    assert words[1:-3] == ["--out", "m", "--layer", "plots", "--field", "class", "--all-touched"]
    words = commands.evaluate("m", "s.hdr", ["p.gpkg"], layer="plots", field="class")
    assert words[1:-4] == ["--layer", "plots", "--field", "class"]
    words = commands.label("s.hdr", ["p.gpkg"], field="class")
    assert words[1:-2] == ["--labels", "p.gpkg", "--field", "class"]


@pytest.mark.parametrize("words", [
    commands.train("s.hdr", ["p.gpkg"], "m", layer="plots", field="class", all_touched=True),
    commands.evaluate("m", "s.hdr", ["p.gpkg"], layer="plots", field="class", all_touched=True),
    commands.label("s.hdr", ["p.gpkg"], layer="plots", field="class", all_touched=True),
], ids=lambda words: words[0])  # fmt: skip
def test_polyad_understands_layer_and_field(words):
    given = understood(words)
    field = "class" if words[0] == "label" else ["class"]  # of values there may be several
    assert (given["layer"], given["field"], given["all_touched"]) == ("plots", field, True)


def test_map_says_what_was_chosen():
    given = understood(commands.map_scene("m", "s.hdr", "o.tif", probabilities="p.tif", force=True))
    assert (given["model"], given["scene"], given["force"]) == ("m", ["s.hdr"], True)
    assert (given["out"], given["probabilities"]) == (Path("o.tif"), Path("p.tif"))


def test_polyad_understands_uncertainty():
    given = understood(commands.map_scene("m", "s.hdr", "o.tif", uncertainty="u.tif"))
    assert given["uncertainty"] == Path("u.tif")


def test_evaluate_says_what_was_chosen():
    given = understood(commands.evaluate("m", "s.hdr", ["t.tif"], out="s.json", report="r.html"))
    assert (given["model"], given["scene"]) == ("m", "s.hdr")
    assert (given["out"], given["report"]) == (Path("s.json"), [Path("r.html")])


def test_label_says_what_was_chosen():
    given = understood(commands.label("s.hdr", ["t.tif"], preset="fast", browser=False))
    assert (given["scene"], given["labels"], given["preset"]) == ("s.hdr", "t.tif", "fast")
    assert given["browser"] is False


def test_file_whose_name_looks_like_an_option_stays_a_file():
    assert understood(commands.map_scene("--help", "-s.hdr", "o.tif"))["scene"] == ["-s.hdr"]


def test_presets_and_goals_are_polyads():
    assert set(commands.PRESETS) == set(PRESETS)
    assert set(commands.GOALS) == set(GOALS)


# --- the program and its environment -------------------------------------------------------------


@pytest.fixture
def tool(tmp_path):
    """A program in a folder with a space in its name."""
    folder = tmp_path / "my tools"
    folder.mkdir()
    path = folder / ("polyad.exe" if os.name == "nt" else "polyad")
    path.write_text("")
    path.chmod(0o755)
    return path


def test_setting_comes_before_the_environment_and_the_path(tool):
    elsewhere = {"POLYAD_COMMAND": "/nowhere/polyad", "PATH": ""}
    assert commands.program(f" {tool} ", elsewhere) == [str(tool)]


def test_environment_comes_before_the_path(tool):
    assert commands.program("", {"POLYAD_COMMAND": str(tool), "PATH": ""}) == [str(tool)]


def test_program_on_the_path_is_taken_when_nothing_is_said(tool):
    (found,) = commands.program(None, {"PATH": str(tool.parent)})
    assert Path(found).samefile(tool)


def test_program_may_have_arguments_of_its_own(tool):
    words = commands.program(f'"{tool}" run -n maps', {"PATH": ""})
    assert words == [str(tool), "run", "-n", "maps"]


def test_missing_program_is_told_with_where_to_set_it():
    with pytest.raises(FileNotFoundError, match=r"no program 'polyad'; .* Providers > polyad, or"):
        commands.program("", {"PATH": ""})


def test_environment_of_polyad_has_nothing_of_qgis_python():
    of_qgis = {"PYTHONHOME": "/qgis", "PYTHONPATH": "/qgis/python", "PROJ_LIB": "/qgis/proj"}
    environment = commands.own_environment({**of_qgis, "HOME": "/home/u"})
    assert environment.keys() & of_qgis.keys() == set()
    assert (environment["HOME"], environment["POLYAD_PROGRESS"]) == ("/home/u", "1")


# --- sources of layers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("/data/a b.tif", "/data/a b.tif"),
        (r"C:\data\scene.img", r"C:\data\scene.img"),
        ("/data/scene.jp2|option:NUM_THREADS=2", "/data/scene.jp2"),
        ("NETCDF:/data/scene.nc:reflectance", "/data/scene.nc:reflectance"),
        ('NETCDF:"C:/data/scene.nc":reflectance', "C:/data/scene.nc:reflectance"),
    ],
)
def test_source_of_a_raster_layer_becomes_the_file(source, file):
    assert sources.raster_file("gdal", source) == file


@pytest.mark.parametrize(
    ("provider", "source"),
    [
        ("wms", "url=https://example.org/wms&layers=a"),
        ("gdal", "/vsizip//data/scene.zip/scene.tif"),
        ("gdal", "https://example.org/scene.tif"),
        ("gdal", "GPKG:/data/rasters.gpkg:scene"),
    ],
)
def test_layer_that_is_no_plain_file_is_refused_with_a_remedy(provider, source):
    with pytest.raises(ValueError, match="wanted a plain file on this machine; save it"):
        sources.raster_file(provider, source)


# --- running the command -------------------------------------------------------------------------


def run(script, canceled=lambda: False, **options):
    """Run a Python script as if it were polyad; return its end and the lines that came."""
    lines = []
    command = [sys.executable, "-c", script]
    return running.run(command, os.environ, lines.append, canceled, **options), lines


def test_lines_and_bars_come_as_they_are_printed():
    ended, lines = run(
        "import sys\n"
        "print('learned', flush=True)\n"
        "sys.stderr.write('\\rfitting:   0%|  | 0/2\\rfitting:  50%|# | 1/2\\n')\n"
        "print('polyad: warning: few labels', file=sys.stderr)\n"
    )
    assert (ended.code, ended.canceled) == (0, False)
    assert [line.text for line in lines if line.stream == "out"] == ["learned"]
    bars = [running.progress(line.text) for line in lines if line.stream == "err"]
    assert bars == [("fitting", 0), ("fitting", 50), None]
    assert ended.errors == ["polyad: warning: few labels"]


def test_error_of_the_command_is_its_sentence():
    ended, _ = run(
        "from polyad.cli import main\n"
        "main(['map', 'no-such.polyad', 'indian-pines', '--out', 'map.tif'])"
    )
    assert ended.code == 2
    sentence = running.error_sentence(ended.code, ended.errors)
    assert sentence == "no-such.polyad cannot be read: No such file or directory"


def test_option_that_polyad_does_not_know_hints_at_an_older_polyad():
    ended, _ = run("from polyad.cli import main\nmain(['map', '--no-such-option', '--', 'a', 'b'])")
    sentence = running.error_sentence(ended.code, ended.errors)
    assert sentence.startswith("No such option: --no-such-option")
    assert sentence.endswith("upgrade it")


def test_crash_is_told_by_the_end_of_its_traceback():
    ended, _ = run("raise RuntimeError('disk on fire')")
    assert running.error_sentence(ended.code, ended.errors) == "RuntimeError: disk on fire"


def test_bars_come_from_polyad_when_the_environment_asks_for_them(monkeypatch):
    script = "from polyad.terminal import on_terminal\nprint(on_terminal())"
    monkeypatch.delenv("POLYAD_PROGRESS", raising=False)
    assert [line.text for line in run(script)[1]] == ["False"]
    monkeypatch.setenv("POLYAD_PROGRESS", "1")
    assert [line.text for line in run(script)[1]] == ["True"]


class CancelAfter:
    """Wants to cancel once the file exists."""

    def __init__(self, file):
        self.file = file

    def __call__(self):
        return self.file.exists()


SLEEPS = (
    "import pathlib, time\n"
    "try:\n    pathlib.Path({ready!r}).touch(); time.sleep(600)\n"
    "finally:\n    pathlib.Path({cleaned!r}).touch()\n"
)


@pytest.mark.unix
def test_cancel_ends_the_command_and_lets_it_clean_up(tmp_path):
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    script = SLEEPS.format(ready=str(ready), cleaned=str(cleaned))
    ended, _ = run(script, CancelAfter(ready), grace=120)
    assert ended.canceled
    assert cleaned.exists()


@pytest.mark.unix
def test_command_that_does_not_listen_is_ended_by_force(tmp_path):
    ready = tmp_path / "ready"
    script = (
        "import pathlib, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)\n"
    )
    ended, _ = run(script, CancelAfter(ready), grace=0.2)
    assert (ended.canceled, ended.code) == (True, -9)


@pytest.mark.unix
def test_program_that_keeps_the_pipes_open_does_not_hold_up_the_end():
    """As a browser does that the labeling page has opened."""
    script = (
        "import subprocess\n"
        "print(subprocess.Popen(['sleep', '3600'], start_new_session=True).pid, flush=True)\n"
    )
    ended, lines = run(script)
    os.kill(int(lines[0].text), signal.SIGKILL)  # it was still there
    assert ended.code == 0


# --- the plugin's files --------------------------------------------------------------------------


def metadata():
    parser = configparser.ConfigParser()
    parser.read(PLUGIN / "metadata.txt", encoding="utf-8")
    return dict(parser["general"])


def test_metadata_have_what_qgis_asks_for():
    about = metadata()
    wanted = {"name", "qgisminimumversion", "description", "version", "author", "about"}
    assert wanted <= about.keys()
    assert about["hasprocessingprovider"] == "yes"
    assert (PLUGIN / about["icon"]).is_file()


def test_version_of_the_plugin_is_that_of_polyad():
    assert metadata()["version"] == polyad.__version__


@pytest.mark.parametrize("path", sorted(PLUGIN.glob("*.py")), ids=lambda p: p.name)
def test_plugin_is_written_in_the_python_of_the_oldest_qgis(path):
    """QGIS 3.22 comes with Python 3.9 on Windows and macOS."""
    ast.parse(path.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("path", sorted(PLUGIN.glob("*.py")), ids=lambda p: p.name)
def test_plugin_imports_nothing_of_polyad_and_its_packages(path):
    """It runs in the Python of QGIS, where polyad is not."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    names += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and not n.level]
    allowed = {*sys.stdlib_module_names, "qgis", "processing"}
    assert {name.split(".")[0] for name in names} - allowed == set()


def test_zip_has_the_whole_plugin_and_is_the_same_each_time(tmp_path):
    zips = [tmp_path / "a/polyad_qgis.zip", tmp_path / "b/polyad_qgis.zip"]
    for path in zips:
        subprocess.run([sys.executable, ROOT / "tools/qgis_plugin.py", path], check=True)
    assert zips[0].read_bytes() == zips[1].read_bytes()
    with zipfile.ZipFile(zips[0]) as archive:
        names = set(archive.namelist())
    own = {f"polyad_qgis/{path.name}" for path in PLUGIN.iterdir() if path.is_file()}
    assert names == own | {"polyad_qgis/LICENSE"}
