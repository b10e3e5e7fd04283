"""Arguments and options that several commands take, and how the help shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer
from typer.core import TyperCommand

import polyad.scene
from polyad.scene.files.option_values import GOALS, OBJECTIVES, PRESETS, TASKS
from polyad.terminal import fail, on_terminal

if TYPE_CHECKING:
    from polyad.scene import Provenance

# Panels of the help, in the order in which it shows them
DATA, LABELS, MODEL, ACCURACY, SAMPLE, PAGE, RUNS, OUTPUT, ADVANCED = PANELS = (
    "Data", "Labels", "Model", "Accuracy", "Sample", "Page", "Runs", "Output", "Advanced",
)  # fmt: skip
WIDEST = 27  # signs of an option's name and metavar; the text of a longer one begins below it
WIDTH = {"max_content_width": 100}  # context settings: the help of a wide terminal
_EXTRA = re.compile(r"(.*?)  \[(.*)\]")  # what Typer adds to a text


def option(panel: str, help: str, metavar: str | None = None, *names: str, **given: Any) -> Any:  # noqa: A002 - Typer's name
    """Return an option that its command's help shows in a panel."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, **given)


def flag(panel: str, names: str, help: str, **given: Any) -> Any:  # noqa: A002 - Typer's name
    """Return an option without a value, which has names such as ``--adapt/--no-adapt``."""
    return option(panel, help, None, names, **given)


# -- arguments ------------------------------------------------------------------------------------

Model = Annotated[str, typer.Argument(help="Model file written by polyad train.")]
Scene = Annotated[
    str, typer.Argument(help="Scene file, FILE:KEY, or a known scene such as indian-pines.")
]
Labels = Annotated[
    list[str],
    typer.Argument(
        help="Labels: raster, GeoPackage, Shapefile, GeoJSON, CSV, or a known scene; one or more."
    ),
]
ClassMap = Annotated[
    str, typer.Argument(metavar="MAP", help="Class map: GeoTIFF, ENVI, NetCDF, Zarr, .npy or PNG.")
]

# -- options --------------------------------------------------------------------------------------

Mask = Annotated[
    str | None, option(DATA, "Raster or polygons; pixels outside are ignored.", "FILE")
]
BBox = Annotated[
    tuple[float, float, float, float] | None,
    option(
        DATA,
        "Bounding box in the scene's coordinates; pixels outside are ignored.",
        "LEFT BOTTOM RIGHT TOP",
    ),
]
Remote = Annotated[
    bool, flag(DATA, "--remote", "Allow an https:// address as the scene; read in parts.")
]
NoData = Annotated[
    float | None,
    option(DATA, "Value that stands for no data, e.g. -9999. Default: as the file says.", "VALUE"),
]
Bands = Annotated[
    str | None,
    option(DATA, "Wavelengths to use in nm, e.g. 400-1300,1450-1800. Default: all.", "RANGES"),
]
DropNm = Annotated[
    str | None, option(DATA, "Wavelengths to exclude in nm, e.g. 1340-1450,1800-1960.", "RANGES")
]
Layer = Annotated[str | None, option(LABELS, "Layer of the label file, if it has several.", "NAME")]
Field = Annotated[
    str | None, option(LABELS, "Attribute holding the class. Default: the only candidate.", "NAME")
]
Fields = Annotated[
    list[str] | None,
    option(
        LABELS,
        "Attribute holding the class (default: the only candidate) or, for regression, a target. "
        "Repeatable.",
        "NAME",
        "--field",
    ),
]
AllTouched = Annotated[
    bool, flag(LABELS, "--all-touched", "Label every pixel that a line or polygon touches.")
]
Merge = Annotated[
    list[str] | None,
    option(LABELS, "Merge classes by name or id, e.g. 'corn+soy=crops'. Repeatable.", "RULE"),
]
Preset = Annotated[
    str | None,
    option(
        MODEL,
        "best: most accurate with few labels; fast: network only; paper: as published. "
        "Default: best, or fast if best does not fit in memory.",
        "|".join(reversed(PRESETS)),
    ),
]
Goal = Annotated[str, option(MODEL, "Scenes that will be mapped.", "|".join(GOALS))]
Adapt = Annotated[
    bool | None,
    flag(
        MODEL,
        "--adapt/--no-adapt",
        "Radiometric normalization. Default: if the model was trained for other-scenes.",
    ),
]
Coverage = Annotated[
    float | None,
    option(ACCURACY, "Prediction sets with this guaranteed coverage, e.g. 0.9.", "FRACTION"),
]
Strata = Annotated[
    str, option(SAMPLE, "Strata: the classes of the map, or a raster or polygons.", "map|FILE")
]
Report = Annotated[Path | None, option(OUTPUT, "Write a report as .html.", "FILE", "--report")]
Colors = Annotated[
    Path | None,
    option(OUTPUT, "Class colors: CSV (corn,#ffdd00), QGIS style or GDAL color table.", "FILE"),
]
Force = Annotated[bool, flag(OUTPUT, "--force", "Overwrite existing files not written by polyad.")]
AsJson = Annotated[bool, flag(OUTPUT, "--json", "Print the result as one JSON object.")]
Seed = Annotated[
    int, option(ADVANCED, "Seed of the random number generator.", "N", min=0, max=2**32 - 1)
]
MaxBytes = Annotated[
    int | None,
    option(
        ADVANCED,
        "Memory limit for reading, and for training. Default: half of the machine's memory, a "
        "quarter for training.",
        "BYTES",
    ),
]
Hash = Annotated[
    bool | None,
    flag(
        ADVANCED,
        "--hash/--no-hash",
        "List the SHA-256 of all files in the report. Default: of files up to 16 GiB.",
    ),
]
Cluster = Annotated[
    str | None,
    option(
        ADVANCED,
        "Dask cluster: local[:N] (over TLS), tls://HOST:PORT, tcp://HOST:PORT, or a scheduler "
        "file.",
        "ADDRESS",
    ),
]
Task = Annotated[str, option(MODEL, "Predict classes or continuous values.", "|".join(TASKS))]
Objective = Annotated[
    str,
    option(
        MODEL, "Accuracy to optimize: overall, or average over the classes.", "|".join(OBJECTIVES)
    ),
]


# -- what several commands do ---------------------------------------------------------------------


class Reading(TypedDict):
    """How labels and values are read from files."""

    layer: str | None
    all_touched: bool
    max_bytes: int | None


def refuse(options: Mapping[str, object], why: str) -> None:
    """End with an error message if an option is given that goes with another command or task."""
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        fail(f"{given} {why}")


def record_run(
    context: typer.Context, hashes: bool | None, **inputs: str | Path | Sequence[str] | None
) -> Provenance:
    """Return the record of the command that runs, as it was typed, for its report."""
    files = {what: str(file) if isinstance(file, Path) else file for what, file in inputs.items()}
    words = ["polyad", *(context.find_root().obj or ())]
    return polyad.scene.record_run(words, files, hashes=hashes, progress=on_terminal())


# -- help -----------------------------------------------------------------------------------------


class Command(TyperCommand):
    """A command whose help has the panels of `PANELS`, in plain text.

    Typer draws panels with rich, which takes longer to import than the help takes to read, and
    whose boxes do not survive being copied or put on a page.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return arguments in capitals, as the help calls them, and then the options."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [*map(_argument, arguments), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each panel's in the order of the function's parameters."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in ("Arguments", *PANELS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            name, text = record
            panel = getattr(parameter, "rich_help_panel", None) or ADVANCED
            if parameter.param_type_name == "argument":
                name, panel = _argument(parameter), "Arguments"
            panels[panel].append((name, _in_words(text)))
        longest = max(len(name) for rows in panels.values() for name, _ in rows)
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    width = min(longest, WIDEST)
                    formatter.write_dl([(n.ljust(width), text) for n, text in rows], WIDEST)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the example on one line, so that it can be copied."""
        formatter.write_paragraph()
        formatter.write(f"  {self.epilog}\n")


def repeat_options(arguments: Sequence[str], names: Set[str]) -> list[str]:
    """Give each further value of an option in ``names`` an option of its own.

    Examples
    --------
    >>> repeat_options(["--model", "rank-1", "cnn", "--jobs", "2"], {"--model"})
    ['--model', 'rank-1', '--model', 'cnn', '--jobs', '2']
    """
    out: list[str] = []
    option, has_value = "", False
    for argument in arguments:
        if argument.startswith("-"):
            option, equals, _ = argument.partition("=")
            has_value = bool(equals)
        else:
            out += [option] * (has_value and option in names)
            has_value = True
        out.append(argument)
    return out


class Lists(Command):
    """A command without arguments, whose options take one value or several."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse as Typer does, after giving each further value its option."""
        names = {name for option in self.params for name in option.opts if option.multiple}
        return super().parse_args(ctx, repeat_options(args, names))


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return name + "..." * (parameter.nargs == -1)


def _in_words(text: str) -> str:
    """Return a text with its default and its limit as a sentence each.

    Examples
    --------
    >>> _in_words("Port to listen on.  [default: 0; x<=65535]")
    'Port to listen on. Default: 0. At most 65535.'
    """
    found = _EXTRA.fullmatch(text)
    if found is None:
        return text
    sentences = [found[1]]
    for extra in found[2].split("; "):
        what, _, value = extra.partition(": ")
        if what == "default":
            sentences.append(f"Default: {value}.")
        if extra.startswith("x<="):  # the range of seeds limits nobody
            sentences.append(f"At most {extra.removeprefix('x<=')}.")
    return " ".join(sentences)
