"""``polyad export``: a model as ONNX, for runtimes without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyad.cli.options import AsJson, Force, Model
from polyad.scene.arguments import check_arguments
from polyad.terminal import say


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The ONNX file.")],
    whole_scene: Annotated[
        bool,
        typer.Option("--whole-scene", help="A graph that maps a tile, not one that takes windows."),
    ] = False,
    network_only: Annotated[
        bool,
        typer.Option(
            "--network-only", help="Leave out label propagation and filter instead of refusing."
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
