"""The QGIS plugin's parts that know nothing of QGIS: command lines, sources, the command's run.

What needs QGIS is in integrations/qgis/tests, and is run by `make test-qgis`.
"""

import ast
import configparser
import doctest
import importlib
import os
import re
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import typer

import polyad
from polyad.cli.program import make_app
from polyad.scene.files.option_values import GOALS, PRESETS

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "integrations/qgis/polyad_qgis"


def module(name):
    """Return a module of the plugin; its folder stands in `sys.path` only meanwhile."""
    sys.path.insert(0, str(PLUGIN.parent))
    try:
        return importlib.import_module(f"polyad_qgis.{name}")
    finally:
        sys.path.remove(str(PLUGIN.parent))


commands, dialogs, running, sources = map(module, ("commands", "dialogs", "running", "sources"))


@pytest.mark.parametrize("part", [commands, running, sources], ids=lambda m: m.__name__)
def test_examples_of_the_plugin_run(part):
    failed, tried = doctest.testmod(part)
    assert (failed, tried > 0) == (0, True)


# --- command lines -------------------------------------------------------------------------------


def understood(words):
    """Return what polyad's own command line makes of the words, without running it."""
    command = typer.main.get_command(make_app()).commands[words[0]]
    return command.make_context(words[0], list(words[1:])).params


def given(name, **chosen):
    """Return the words of a dialog in which the needed rows are filled in, and what is chosen."""
    files = {
        "SCENE": "s.hdr", "LABELS": "p.gpkg", "MODEL": "m", "MAP": "map.tif", "POINTS": "p.gpkg",
        "OUTPUT": "out",
    }  # fmt: skip
    rows = {option.name for option in dialogs.DIALOGS[name].options if option.needed}
    return commands.words(name, {k: v for k, v in files.items() if k in rows} | chosen)


VALUES = {"integer": 3, "number": 0.5, "range": (0.0, 1.0), "flag": True, "unless": True}


@pytest.mark.parametrize("name", dialogs.DIALOGS)
def test_polyad_understands_every_row_of_a_dialog(name):
    rows = dialogs.DIALOGS[name].options
    for row in rows:
        value = row.limits[-1] if row.kind == "choice" else VALUES.get(row.kind, "chosen")
        others = {o.name: None for o in rows if o.flag == row.flag}
        words = given(name, **(others | {row.name: value}))
        understood(words)  # ends with an error of usage otherwise
        if row.flag.startswith("-"):
            assert row.flag in words
        else:
            assert "chosen" in words[words.index("--") :]


def test_dialogs_say_what_was_chosen():
    words = given("train", LABELS=None, LABEL_RASTER="t.tif", PRESET="fast", RANK=2, FORCE=True)
    known = understood(words)
    expected = {"scene": "s.hdr", "labels": ["t.tif"], "out": Path("out"), "preset": "fast",
                "rank": 2, "force": True, "task": "classes"}  # fmt: skip
    assert {name: known[name] for name in expected} == expected


@pytest.mark.parametrize("name", dialogs.DIALOGS)
def test_choices_that_are_left_are_polyads_defaults_and_not_passed_on(name):
    choices = [row for row in dialogs.DIALOGS[name].options if row.kind == "choice"]
    words = given(name, **{row.name: row.default for row in choices})
    assert words == given(name)
    known = understood(words)
    for row in choices:
        default = None if row.default == "best" else row.default  # polyad's preset if it fits
        assert known[row.flag.lstrip("-")] == default


def test_regression_says_its_task_fields_and_range():
    known = understood(given("train_regression", FIELD=["cover", "biomass"], BOUNDS=(0.0, 1.0)))
    assert (known["task"], known["field"]) == ("regression", ["cover", "biomass"])
    assert tuple(known["bounds"]) == (0.0, 1.0)


def test_what_was_not_chosen_is_left_to_polyad():
    assert given("train") == ["train", "--out", "out", "--", "s.hdr", "p.gpkg"]
    assert given("area", FIELD="truth") == ["area", "--field", "truth", "--", "map.tif", "p.gpkg"]
    assert (set(dialogs.PRESETS), set(dialogs.GOALS)) == (set(PRESETS), set(GOALS))


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"SCENE": None}, "expected scene as a raster layer or as a file, got none; choose one"),
        ({"SCENE_FILE": "a.he5"}, "expected scene as a raster layer or as a file, got both"),
        ({"LABELS": None}, "expected labels as a vector layer or as a raster layer, got none"),
    ],
)
def test_of_alternatives_one_is_to_be_chosen(chosen, sentence):
    with pytest.raises(ValueError, match=sentence):
        given("train", **chosen)


def test_file_whose_name_looks_like_an_option_stays_a_file():
    assert understood(given("map", MODEL="--help", SCENE="-s.hdr"))["scene"] == ["-s.hdr"]


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


def test_setting_comes_before_the_environment_and_that_before_the_path(tool):
    elsewhere = {"POLYAD_COMMAND": "/nowhere/polyad", "PATH": ""}
    assert commands.program(f" {tool} ", elsewhere) == [str(tool)]
    assert commands.program("", {"POLYAD_COMMAND": str(tool), "PATH": ""}) == [str(tool)]
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
    with pytest.raises(ValueError, match="expected a plain file on this machine; save it"):
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
    assert (ended.code, ended.interrupted) == (0, False)
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
    sentence = running.error_sentence(ended)
    assert sentence == "no-such.polyad cannot be read: No such file or directory; check the path"


def test_option_that_polyad_does_not_know_hints_at_an_older_polyad():
    ended, _ = run("from polyad.cli import main\nmain(['map', '--no-such-option', '--', 'a', 'b'])")
    sentence = running.error_sentence(ended)
    assert sentence.startswith("No such option: --no-such-option")
    assert sentence.endswith("upgrade it")


def test_bars_come_from_polyad_when_the_environment_asks_for_them(monkeypatch):
    script = "from polyad.terminal import on_terminal\nprint(on_terminal())"
    monkeypatch.delenv("POLYAD_PROGRESS", raising=False)
    assert [line.text for line in run(script)[1]] == ["False"]
    monkeypatch.setenv("POLYAD_PROGRESS", "1")
    assert [line.text for line in run(script)[1]] == ["True"]


SLEEPS = (
    "import pathlib, time\n"
    "try:\n    pathlib.Path({ready!r}).touch(); time.sleep(600)\n"
    "finally:\n    pathlib.Path({cleaned!r}).touch()\n"
)


@pytest.mark.unix
def test_cancel_ends_the_command_and_lets_it_clean_up(tmp_path):
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    script = SLEEPS.format(ready=str(ready), cleaned=str(cleaned))
    ended, _ = run(script, ready.exists, grace=120)
    assert ended.interrupted
    assert cleaned.exists()
    assert running.error_sentence(ended) == "canceled; no partial files were left"


@pytest.mark.unix
def test_command_that_swallows_the_first_wish_to_end_gets_a_second(tmp_path, monkeypatch):
    """As Python does while it imports a module that catches everything."""
    ready = tmp_path / "ready"
    script = (
        f"import pathlib, time\ntry:\n    pathlib.Path({str(ready)!r}).touch(); time.sleep(600)\n"
        "except BaseException:\n    pass\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(running, "_AGAIN", 0.2)
    ended, _ = run(script, ready.exists, grace=120)
    assert ended.code == -signal.SIGINT


@pytest.mark.unix
def test_command_that_does_not_listen_is_ended_by_force(tmp_path):
    ready = tmp_path / "ready"
    script = (
        "import pathlib, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)\n"
    )
    ended, _ = run(script, ready.exists, grace=0.2)
    assert (ended.interrupted, ended.code) == (True, -9)
    assert running.error_sentence(ended).endswith("polyad had to be ended by force")


@pytest.mark.unix
def test_cancel_after_the_end_interrupts_nothing(tmp_path):
    """All is written, and only then the last line is read."""
    asked = []

    def canceled():
        asked.append(True)
        return len(asked) > 1

    def wait(line):
        with suppress(ChildProcessError):  # it has ended, and that was seen already
            os.waitid(os.P_PID, int(line.text), os.WEXITED | os.WNOWAIT)

    command = [sys.executable, "-c", "import os; print(os.getpid())"]
    ended = running.run(command, os.environ, wait, canceled)
    assert (ended.code, ended.interrupted) == (0, False)


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
    wanted = {"name", "qgisminimumversion", "description", "author", "about"}
    assert wanted <= about.keys()
    assert (PLUGIN / about["icon"]).is_file()
    # Without a maximum, QGIS takes the last version with the same first number as the minimum
    fixed = {"hasprocessingprovider": "yes", "qgismaximumversion": "4.99", "supportsqt6": "True"}
    assert about.items() >= (fixed | {"version": polyad.__version__}).items()


@pytest.mark.parametrize("path", sorted(PLUGIN.glob("*.py")), ids=lambda p: p.name)
def test_plugin_runs_in_the_python_of_every_qgis_and_without_polyad(path):
    # QGIS 3.22 comes with Python 3.9 on Windows and macOS
    nodes = list(ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))))
    names = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    names += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and not n.level]
    allowed = {*sys.stdlib_module_names, "qgis", "processing"}
    assert {name.split(".")[0] for name in names} - allowed == set()
    for node in nodes:  # Qt 6 knows `Class.Enumeration.Member` only, not `Class.Member`
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of_qgis = re.match(r"(Qgs?|Q)[A-Z]|Qt$|Qgis$", node.value.id)
            is_member = re.match(r"(Type|Flag|Origin)[A-Z]|Any$|Integer$|Double$", node.attr)
            assert not (of_qgis and is_member), f"{node.value.id}.{node.attr}"


def test_zip_has_the_whole_plugin_and_is_the_same_each_time(tmp_path):
    zips = [tmp_path / "a/polyad_qgis.zip", tmp_path / "b/polyad_qgis.zip"]
    for path in zips:
        subprocess.run([sys.executable, ROOT / "tools/qgis_plugin.py", path], check=True)
    assert zips[0].read_bytes() == zips[1].read_bytes()
    with zipfile.ZipFile(zips[0]) as archive:
        names = set(archive.namelist())
    own = {f"polyad_qgis/{path.name}" for path in PLUGIN.iterdir() if path.is_file()}
    assert names == own | {"polyad_qgis/LICENSE"}
