"""Arguments and options that several commands take."""

from __future__ import annotations

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
    str,
    typer.Argument(help="Labels: raster, PNG, CSV, GeoJSON, or the name of a known scene."),
]
Preset = Annotated[
    str, typer.Option(help="fast, paper, or best: the most accurate map from a few labels.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace outputs that are there and are something else.")
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
