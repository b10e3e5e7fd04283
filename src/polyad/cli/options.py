"""Arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from polyad.scene.files.option_values import TASKS
from polyad.scene.learn.recipe import GOALS, OBJECTIVES, PRESETS

# Panels of the help, in the order in which it shows them
DATA, LABELS, MODEL, ACCURACY, SAMPLE, PAGE, RUNS, OUTPUT, ADVANCED = PANELS = (
    "Data", "Labels", "Model", "Accuracy", "Sample", "Page", "Runs", "Output", "Advanced",
)  # fmt: skip


def option(panel: str, *names: str, help: str, **given: Any) -> Any:  # noqa: A002 - Typer's name
    """Return an option that its command's help shows in a panel."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **given)


def choices(values: Iterable[str]) -> str:
    """Return the metavar of an option that takes one of a few values."""
    return "|".join(values)


AsJson = Annotated[bool, option(OUTPUT, "--json", help="Print the result as one JSON object.")]
Seed = Annotated[
    int,
    option(
        ADVANCED, help="Seed of the random number generator.", metavar="N", min=0, max=2**32 - 1
    ),
]
MaxBytes = Annotated[
    int | None,
    option(
        ADVANCED,
        help="Memory limit for reading, and for training. Default: half of the machine's memory, "
        "a quarter for training.",
        metavar="BYTES",
    ),
]
Cluster = Annotated[
    str | None,
    option(
        ADVANCED,
        help="Dask cluster: local[:N] (over TLS), tls://HOST:PORT, tcp://HOST:PORT, or a "
        "scheduler file.",
        metavar="ADDRESS",
    ),
]
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
Layer = Annotated[
    str | None,
    option(LABELS, help="Layer of the label file, if it has several.", metavar="NAME"),
]
Field = Annotated[
    str | None,
    option(
        LABELS, help="Attribute holding the class. Default: the only candidate.", metavar="NAME"
    ),
]
Fields = Annotated[
    list[str] | None,
    option(
        LABELS,
        "--field",
        help="Attribute holding the class (default: the only candidate) or, for regression, a "
        "target. Repeatable.",
        metavar="NAME",
    ),
]
Task = Annotated[
    str, option(MODEL, help="Predict classes or continuous values.", metavar=choices(TASKS))
]
Units = Annotated[
    list[str] | None,
    option(LABELS, help="Unit of the target (regression); once for each --field.", metavar="UNIT"),
]
Bounds = Annotated[
    tuple[float, float] | None,
    option(
        LABELS,
        help="Valid range of the target (regression), e.g. 0 1 for a fraction.",
        metavar="LOW HIGH",
    ),
]
Groups = Annotated[
    str | None,
    option(
        ACCURACY,
        help="Attribute whose values are held out together, such as a plot or a date.",
        metavar="NAME",
    ),
]
AllTouched = Annotated[
    bool,
    option(LABELS, "--all-touched", help="Label every pixel that a line or polygon touches."),
]
Reports = Annotated[
    list[Path] | None,
    option(
        OUTPUT,
        "--report",
        help="Write a report as .html.",
        metavar="FILE",
    ),
]
Hash = Annotated[
    bool | None,
    option(
        ADVANCED,
        "--hash/--no-hash",
        help="List the SHA-256 of all files in the report. Default: of files up to 16 GiB.",
    ),
]
Mask = Annotated[
    str | None,
    option(
        DATA,
        help="Raster or polygons; pixels outside are ignored.",
        metavar="FILE",
    ),
]
BBox = Annotated[
    tuple[float, float, float, float] | None,
    option(
        DATA,
        help="Bounding box in the scene's coordinates; pixels outside are ignored.",
        metavar="LEFT BOTTOM RIGHT TOP",
    ),
]
Preset = Annotated[
    str | None,
    option(
        MODEL,
        help="best: most accurate with few labels; fast: network only; paper: as published. "
        "Default: best, or fast if best does not fit in memory.",
        metavar=choices(reversed(PRESETS)),
    ),
]
Force = Annotated[
    bool, option(OUTPUT, "--force", help="Overwrite existing files not written by polyad.")
]
Merge = Annotated[
    list[str] | None,
    option(
        LABELS,
        help="Merge classes by name or id, e.g. 'corn+soy=crops'. Repeatable.",
        metavar="RULE",
    ),
]
Colors = Annotated[
    Path | None,
    option(
        OUTPUT,
        help="Class colors: CSV (corn,#ffdd00), QGIS style or GDAL color table.",
        metavar="FILE",
    ),
]
Objective = Annotated[
    str,
    option(
        MODEL,
        help="Accuracy to optimize: overall, or average over the classes.",
        metavar=choices(OBJECTIVES),
    ),
]
Adapt = Annotated[
    bool | None,
    option(
        MODEL,
        "--adapt/--no-adapt",
        help="Radiometric normalization. Default: if the model was trained for other-scenes.",
    ),
]
Coverage = Annotated[
    float | None,
    option(
        ACCURACY,
        help="Prediction sets with this guaranteed coverage, e.g. 0.9.",
        metavar="FRACTION",
    ),
]
Goal = Annotated[str, option(MODEL, help="Scenes that will be mapped.", metavar=choices(GOALS))]
Remote = Annotated[
    bool,
    option(DATA, "--remote", help="Allow an https:// address as the scene; read in parts."),
]
Bands = Annotated[
    str | None,
    option(
        DATA,
        help="Wavelengths to use in nm, e.g. 400-1300,1450-1800. Default: all.",
        metavar="RANGES",
    ),
]
DropNm = Annotated[
    str | None,
    option(
        DATA,
        help="Wavelengths to exclude in nm, e.g. 1340-1450,1800-1960.",
        metavar="RANGES",
    ),
]
ClassMap = Annotated[
    str, typer.Argument(metavar="MAP", help="Class map: GeoTIFF, ENVI, NetCDF, Zarr, .npy or PNG.")
]
Strata = Annotated[
    str,
    option(
        SAMPLE,
        help="Strata: the classes of the map, or a raster or polygons.",
        metavar="map|FILE",
    ),
]


def typed_command(context: typer.Context) -> list[str]:
    """Return the words of the command that runs, as they were typed."""
    return ["polyad", *(context.find_root().obj or ())]


def source_title(source: str) -> str:
    """Return what a report calls its scene or map: the file's name without folder and ending."""
    return Path(source).stem
