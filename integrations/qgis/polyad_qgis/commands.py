"""Command lines of `polyad`, from what is chosen in QGIS; nothing of QGIS is imported here.

Options come first and files last, behind ``--``, so that no file's name is read as an option. What
is None is left to polyad's own default.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence

PRESETS = ("fast", "paper", "best")
GOALS = ("this-scene", "other-scenes")

# QGIS points these at its own Python, GDAL and PROJ, with which another Python does not start, or
# finds tables of another version.
_OF_QGIS = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "GDAL_DATA",
    "GDAL_DRIVER_PATH",
    "PROJ_DATA",
    "PROJ_LIB",
)


def program(setting: str | None, environment: Mapping[str, str]) -> list[str]:
    """Return the words that start polyad: of the setting, of POLYAD_COMMAND, or ``polyad``.

    A path may hold spaces; otherwise the words are those that a shell would see, as in
    ``conda run -n maps polyad``.

    Raises
    ------
    FileNotFoundError
        If there is no such program; its message is for the user.
    """
    text = (setting or "").strip() or environment.get("POLYAD_COMMAND", "").strip() or "polyad"
    path = environment.get("PATH")
    words = [text]
    if shutil.which(text, path=path) is None:
        # On Windows a backslash is part of a path
        words = [w.strip('"') for w in shlex.split(text, posix=os.name != "nt")]
    found = shutil.which(words[0], path=path) if words else None
    if found is None:
        raise FileNotFoundError(
            f"no program {text!r}; install polyad into an environment of its own with pip, and "
            "give the path of its polyad command in Settings > Options > Processing > Providers > "
            "polyad, or in the environment variable POLYAD_COMMAND"
        )
    return [found, *words[1:]]


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for polyad: without QGIS's own Python, with progress, in UTF-8."""
    kept = {name: value for name, value in environment.items() if name not in _OF_QGIS}
    return {**kept, "POLYAD_PROGRESS": "1", "PYTHONIOENCODING": "utf-8"}


def train(
    scene: str,
    labels: Sequence[str],
    model: str,
    *,
    layer: str | None = None,
    field: str | None = None,
    all_touched: bool = False,
    preset: str | None = None,
    goal: str | None = None,
    samples_per_class: int | None = None,
    rank: int | None = None,
    window: int | None = None,
    seed: int | None = None,
    force: bool = False,
) -> list[str]:
    """Return the arguments of ``polyad train``.

    Examples
    --------
    >>> " ".join(train("scene.hdr", ["points.gpkg"], "m.polyad", field="class", preset="best"))
    'train --out m.polyad --field class --preset best -- scene.hdr points.gpkg'
    """
    options = {
        "--out": model,
        "--layer": layer,
        "--field": field,
        "--all-touched": all_touched,
        "--preset": preset,
        "--goal": goal,
        "--samples-per-class": samples_per_class,
        "--rank": rank,
        "--window": window,
        "--seed": seed,
        "--force": force,
    }
    return _words("train", options, scene, *labels)


def map_scene(
    model: str,
    scene: str,
    out: str,
    *,
    probabilities: str | None = None,
    uncertainty: str | None = None,
    force: bool = False,
) -> list[str]:
    """Return the arguments of ``polyad map``.

    Examples
    --------
    >>> " ".join(map_scene("m.polyad", "scene.hdr", "map.tif"))
    'map --out map.tif -- m.polyad scene.hdr'
    """
    options = {
        "--out": out,
        "--probabilities": probabilities,
        "--uncertainty": uncertainty,
        "--force": force,
    }
    return _words("map", options, model, scene)


def evaluate(
    model: str,
    scene: str,
    labels: Sequence[str],
    *,
    out: str | None = None,
    report: str | None = None,
    layer: str | None = None,
    field: str | None = None,
    all_touched: bool = False,
    force: bool = False,
) -> list[str]:
    """Return the arguments of ``polyad evaluate``.

    Examples
    --------
    >>> " ".join(evaluate("m.polyad", "scene.hdr", ["truth.tif"], out="scores.json"))
    'evaluate --out scores.json -- m.polyad scene.hdr truth.tif'
    """
    options = {
        "--out": out,
        "--report": report,
        "--layer": layer,
        "--field": field,
        "--all-touched": all_touched,
        "--force": force,
    }
    return _words("evaluate", options, model, scene, *labels)


def label(
    scene: str,
    labels: Sequence[str] = (),
    *,
    layer: str | None = None,
    field: str | None = None,
    all_touched: bool = False,
    preset: str | None = None,
    goal: str | None = None,
    browser: bool = True,
) -> list[str]:
    """Return the arguments of ``polyad label``; it takes one file of labels at most.

    Examples
    --------
    >>> " ".join(label("scene.hdr", preset="fast", browser=False))
    'label --preset fast --no-browser -- scene.hdr'
    """
    options = {
        "--labels": next(iter(labels), None),
        "--layer": layer,
        "--field": field,
        "--all-touched": all_touched,
        "--preset": preset,
        "--goal": goal,
        "--no-browser": not browser,
    }
    return _words("label", options, scene)


def _words(command: str, options: Mapping[str, object], *files: str) -> list[str]:
    """Return the command, its options that are set, and its files."""
    words = [command]
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words += [name, str(value)]
    return [*words, "--", *files]
