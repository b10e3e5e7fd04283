"""The program ``polyad``: its commands, and how each of them ends.

A command checks its arguments before what does the work is imported: a mistyped path is answered at
once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import polyad
from polyad.cli import options as opt
from polyad.cli.options import DATA, WIDTH, Command, Lists, option
from polyad.errors import PolyadError
from polyad.terminal import brief, fail, misuse, on_terminal, put, say, warn

MOST_FIELDS = 24  # of a table that are listed in text; in JSON all of them


def info(
    file: Annotated[
        str, typer.Argument(help="Scene, class map, labels, spectral library or model.")
    ],
    nodata: opt.NoData = None,
    max_bytes: opt.MaxBytes = None,
    remote: opt.Remote = False,
    as_json: opt.AsJson = False,
) -> None:
    """Show what a file holds: scene, map, labels, spectra or a model."""
    from polyad.scene.info import describe

    description = describe(file, max_bytes=max_bytes, remote=remote, nodata=nodata)
    width = max(map(len, description)) + 2
    flat = {name: value for name, value in description.items() if name != "cross_validation"}
    if len(fields := flat.get("fields", ())) > MOST_FIELDS:
        flat["fields"] = [*fields[:MOST_FIELDS], f"{len(fields) - MOST_FIELDS:,} more"]
    lines = [f"{name.replace('_', ' '):<{width}}{brief(v)}" for name, v in flat.items()]
    if "cross_validation" in description and not as_json:
        from polyad.scene import CrossValidation

        lines += ["", str(CrossValidation.from_data(description["cross_validation"], "accuracy"))]
    say(description, as_json, "\n".join(lines))


def scenes(as_json: opt.AsJson = False) -> None:
    """List the known scenes, and whether they are on this machine."""
    from polyad.scene.files.benchmark_scenes import list_known

    rows = list_known()
    lines = [
        f"{row['name']:<18}{row['size']:<38}{row['classes']:>3} classes   "
        f"{'ready' if row['here'] else 'polyad fetch ' + row['name']}"
        for row in rows
    ]
    say({"scenes": rows}, as_json, "\n".join(lines))


def fetch(
    name: Annotated[str, typer.Argument(help="A name listed by polyad scenes.")],
    from_file: Annotated[
        list[Path] | None,
        option(DATA, "Use a file downloaded by hand. Repeatable.", "FILE", "--from"),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Download a known scene, or use files downloaded by hand."""
    from polyad.scene.files.benchmark_scenes import known_scene

    known_scene(name)
    from polyad.scene.read.scenes import fetch as fetch_scene

    paths = fetch_scene(name, from_file, progress=on_terminal())
    say(
        {"name": name, "files": [str(p) for p in paths]},
        as_json,
        "\n".join(f"{p} is in place" for p in paths) or f"{name} ships with polyad: nothing to do",
    )


WITHOUT_DASK = {"area", "demo", "evaluate", "export", "info", "sample", "train"}
INTERRUPTED = 130  # what Typer returns of Ctrl-C

# In the order in which help lists them: module and function, which are imported when a command is
# used, and an example
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("map:demo", "demo --out polyad-demo"),
    "train": ("train:train", "train scene.hdr labels.geojson --out model.polyad --rank 2"),
    "map": ("map:map_command", "map model.polyad scene.hdr --out map.tif"),
    "evaluate": (
        "train:evaluate", "evaluate model.polyad scene.hdr truth.tif --report page.html",
    ),
    "sample": ("label:sample", "sample map.tif --size 200 --out sample.gpkg"),
    "area": ("label:area", "area map.tif checked.csv --out areas.csv --report areas.html"),
    "export": ("train:export", "export model.polyad model.onnx --whole-scene"),
    "label": ("label:label", "label indian-pines --truth indian-pines"),
    "info": ("program:info", "info model.polyad"),
    "scenes": ("program:scenes", "scenes"),
    "reproduce": ("reproduce:reproduce", "reproduce --model rank-1 cnn --runs 3 --jobs 2"),
    "fetch": ("program:fetch", "fetch salinas"),
}  # fmt: skip


def command(name: str) -> Callable[..., None]:
    """Return the function of a command."""
    module, _, function = COMMANDS[name][0].partition(":")
    found: Callable[..., None] = getattr(import_module(f"polyad.cli.{module}"), function)
    return found


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the program with some of its commands."""
    app = typer.Typer(
        name="polyad",
        help="From a hyperspectral scene and a few labeled pixels to a georeferenced class map.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in names:
        kind: type[Command] = Lists if name == "reproduce" else Command
        epilog = f"Example:  polyad {COMMANDS[name][1]}"
        app.command(name, cls=kind, context_settings=WIDTH, epilog=epilog)(command(name))
    app.callback(invoke_without_command=True)(_options)
    return app


def _options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show_version:
        put(polyad.__version__)
        raise typer.Exit


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """Yield a list that gets an item with each Ctrl+C, which interrupts as ever."""
    came: list[int] = []
    usual, main_thread = signal.getsignal(signal.SIGINT), threading.main_thread()
    if usual is not signal.default_int_handler or threading.current_thread() is not main_thread:
        yield came
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, usual)


def _fail_with(error: Exception) -> NoReturn:
    """End with one message on an error; raise it again if it is a bug."""
    if isinstance(error, PolyadError):
        fail(str(error))
    if isinstance(error, BrokenPipeError):  # as in `polyad scenes | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    if isinstance(error, OSError):
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    if isinstance(error, MemoryError):
        fail("out of memory; map with a smaller --tile or train with fewer --samples-per-class")
    if hasattr(error, "show"):  # how Typer's errors of usage are known, whoever raises them
        misuse(error)
    raise error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; bad input ends with exit code 2 and one sentence."""
    logging.getLogger("rasterio").addHandler(logging.NullHandler())
    os.environ.setdefault("GDAL_CACHEMAX", "64")  # MB; its default is a twentieth of all memory
    os.environ["PROJ_NETWORK"] = "OFF"  # no grid of a reference system is fetched
    given = sys.argv[1:] if arguments is None else list(arguments)
    if arguments is None and WITHOUT_DASK.intersection(given[:1]):
        # xarray imports dask wherever it is installed, which takes longer than `polyad info`; in a
        # process of a command that has no use for it, it counts as not installed.
        sys.modules.setdefault("dask", None)  # type: ignore[arg-type]
    shown: set[str] = set()

    def warn_once(message: Warning | str, *place: Any, **more: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            warn(message, *place, **more)

    with _noting_interrupts() as interrupts:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = warn_once
                app = make_app(given[:1] if {*given[:1]} & {*COMMANDS} else COMMANDS)
                code = app(args=given, obj=given, standalone_mode=False)  # for `typed_command`
        except (typer.Abort, KeyboardInterrupt):  # the second where Typer has handed over already
            code = INTERRUPTED
        except Exception as error:
            # A library may turn an interrupt into an error of its own. The page ends with Ctrl+C,
            # so an error after that is the page's.
            if not interrupts or given[:1] == ["label"]:
                _fail_with(error)
            code = INTERRUPTED
    if code == INTERRUPTED:
        put("polyad: interrupted; no partial files were left, run it again", sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)
