"""``polyad export``: a model as ONNX, for runtimes without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyad.cli.options import OUTPUT, AsJson, Force, Model, option
from polyad.scene.arguments import check_arguments
from polyad.terminal import say


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(help="ONNX file to write.")],
    whole_scene: Annotated[
        bool,
        option(
            OUTPUT,
            "--whole-scene",
            help="Export a graph that maps a tile instead of single windows.",
        ),
    ] = False,
    network_only: Annotated[
        bool,
        option(
            OUTPUT,
            "--network-only",
            help="Export the network only, without label propagation and filter.",
        ),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as ONNX, for onnxruntime, a browser or a device."""
    check_arguments(model=model, outputs={"ONNX file": out}, force=force)
    from polyad.scene import export_file

    told = export_file(model, out, whole_scene=whole_scene, network_only=network_only)
    takes = ", ".join(str(size) for size in told["input"])
    padding = "" if told["p"] is None else f" with p = {told['p']}"
    say(
        told,
        as_json,
        f"takes ({takes}){padding} in single precision; {told['bytes'] / 1000:,.0f} kB; "
        f"ONNX: {out}",
    )
