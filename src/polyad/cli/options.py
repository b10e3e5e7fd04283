"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random choice.")]
MaxBytes = Annotated[
    int | None,
    typer.Option(help="Bytes that may be read at once; by default half of the machine's memory."),
]
Cluster = Annotated[
    str | None, typer.Option(help="Dask: local[:N] (by TLS), tls:// or tcp://host:port, or a file.")
]
Model = Annotated[str, typer.Argument(help="Model file made by `polyad train`.")]
Scene = Annotated[
    str, typer.Argument(help="Scene file, file:key, or a known name such as indian-pines.")
]
Labels = Annotated[
    list[str],
    typer.Argument(
        help="Labels: raster, GeoPackage, Shapefile, GeoJSON, CSV, or a known name; one or more."
    ),
]
Layer = Annotated[
    str | None, typer.Option(help="Layer of the labels, where their file has several.")
]
Field = Annotated[
    str | None, typer.Option(help="Field of the labels that is the class, where it is not plain.")
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field", help="Field that is the class, where it is not plain; or that is a value, each."
    ),
]
Task = Annotated[str, typer.Option(help="What is learned: classes, or regression: values.")]
Units = Annotated[list[str] | None, typer.Option(help="Unit of the values; once for each --field.")]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Between which all values lie, as 0 1 of a fraction."),
]
Groups = Annotated[
    str | None,
    typer.Option(help="Field of the labels whose values are held out together, as a plot or day."),
]
AllTouched = Annotated[
    bool,
    typer.Option("--all-touched", help="Label every pixel that a line or polygon touches."),
]
Reports = Annotated[
    list[Path] | None,
    typer.Option("--report", help="Write a page to mail or print; .json: its content. Repeatable."),
]
Hash = Annotated[
    bool | None,
    typer.Option(
        "--hash/--no-hash", help="SHA-256 of all files in the report; by default up to 16 GiB each."
    ),
]
Mask = Annotated[
    str | None,
    typer.Option(help="Raster or polygons: outside is neither trained on nor mapped."),
]
BBox = Annotated[
    tuple[float, float, float, float] | None,
    typer.Option(
        metavar="LEFT BOTTOM RIGHT TOP", help="The same by a rectangle in the scene's coordinates."
    ),
]
Preset = Annotated[
    str, typer.Option(help="fast, paper, or best: the most accurate map from a few labels.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace outputs that are there and are something else.")
]
Merge = Annotated[
    list[str] | None,
    typer.Option(help="Make one class of several: 'corn+soy=crops', by name or id. Repeatable."),
]
Colors = Annotated[
    Path | None,
    typer.Option(help="Class colors: CSV (corn,#ffdd00), QGIS style or GDAL color table."),
]
Objective = Annotated[
    str,
    typer.Option(help="Accuracy that counts: overall, or average over the classes, rare ones too."),
]
Adapt = Annotated[
    bool | None,
    typer.Option(
        "--adapt/--no-adapt",
        help="Adapt the model to the scene's light; by default, if trained for other-scenes.",
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(help="Prediction sets, of which this share is to hold the true class: 0.9."),
]
Goal = Annotated[str, typer.Option(help="What best is to be best at: this-scene or other-scenes.")]
Remote = Annotated[
    bool, typer.Option("--remote", help="Read the scene from an https:// address, by parts.")
]
Bands = Annotated[
    str | None, typer.Option(help="Wavelengths to use, in nm, as in 400-1300,1450-1800; else all.")
]
DropNm = Annotated[
    str | None, typer.Option(help="Wavelengths to leave out, in nm, as in 1340-1450,1800-1960.")
]
ClassMap = Annotated[
    str, typer.Argument(metavar="MAP", help="Class map: GeoTIFF, ENVI, NetCDF, Zarr, .npy or PNG.")
]
Strata = Annotated[
    str, typer.Option(help="map: its classes; or a raster or polygons that the sample is drawn by.")
]


def typed_command(context: typer.Context) -> list[str]:
    """Return the words of the command that runs, as they were typed."""
    return ["polyad", *(context.find_root().obj or ())]


def source_title(source: str) -> str:
    """Return what a report calls its scene or map: the file's name without folder and ending."""
    return Path(source).stem
