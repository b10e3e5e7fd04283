"""The `polyad` command: where it is, the environment it needs, and its arguments.

Nothing of QGIS is imported here. Options come first and files last, behind ``--``, so that no
file's name is read as an option. An option that is not set, or a choice that is left as it was, is
left to polyad's own default: the preset best then becomes fast where it does not fit in memory.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from .dialogs import DIALOGS, Option

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


def words(name: str, given: Mapping[str, object]) -> list[str]:
    """Return the words after ``polyad``.

    Parameters
    ----------
    name : str
        Key of `DIALOGS`.
    given : mapping
        What was chosen, by name of the option. None and False are not chosen; a list repeats the
        option, a tuple is one option of several words.

    Raises
    ------
    ValueError
        If of several ways to give a file not exactly one was taken; its message is for the user.

    Examples
    --------
    >>> " ".join(words("map", {"MODEL": "m.polyad", "SCENE": "scene.hdr", "OUTPUT": "map.tif"}))
    'map --out map.tif -- m.polyad scene.hdr'
    """
    dialog = DIALOGS[name]
    options, files = [dialog.command, *dialog.fixed], []
    for group in _alternatives(dialog.options).values():
        chosen = [o for o in group if given.get(o.name) not in (None, False)]
        chosen = [o for o in chosen if o.kind != "choice" or given[o.name] != o.default]
        if len(chosen) > 1 or (not chosen and group[0].needed):
            ways = " or as a ".join(option.way for option in group)
            got = "both" if chosen else "none"
            raise ValueError(f"expected {group[0].what} as a {ways}, got {got}; choose one")
        for option in chosen:
            value = given[option.name]
            if not option.flag.startswith("-"):
                files.append(str(value))
                continue
            for one in value if isinstance(value, list) else [value]:
                options.append(option.flag)
                if one is not True:
                    options += map(str, one) if isinstance(one, tuple) else [str(one)]
    return [*options, "--", *files]


def _alternatives(options: tuple[Option, ...]) -> dict[str, list[Option]]:
    """Return the options by their place on the command line."""
    groups: dict[str, list[Option]] = {}
    for option in options:
        groups.setdefault(option.flag, []).append(option)
    return groups
