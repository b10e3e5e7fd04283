"""``polyad label``: the labeling page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polyad.cli.options import AllTouched, BBox, Field, Goal, Layer, Mask, Preset, Scene
from polyad.scene.arguments import check_arguments
from polyad.terminal import fail


def label(
    scene: Scene,
    labels: Annotated[str | None, typer.Option(help="Labels to begin with.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="Labels to score the map against as it grows.")
    ] = None,
    layer: Layer = None,
    field: Field = None,
    all_touched: AllTouched = False,
    mask: Mask = None,
    bbox: BBox = None,
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on; by default this machine alone.")
    ] = "127.0.0.1",
    journal: Annotated[
        Path | None, typer.Option(help="File that keeps every label; by default beside the scene.")
    ] = None,
    preset: Preset = "best",
    goal: Goal = "this-scene",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Label pixels on a web page and watch the map grow."""
    where: dict[str, Any] = {"mask": mask, "bbox": bbox}
    check_arguments(preset=(preset, goal), scene=scene, labels=[labels, truth], **where)
    try:
        from polyad.app import Settings, serve
    except ModuleNotFoundError as error:
        fail(f"the labeling page needs {error.name}; install it with: pip install 'polyad[app]'")
    settings = Settings(preset=preset, goal=goal)
    place: dict[str, Any] = {"host": host, "port": port, "journal": journal}
    reading: dict[str, Any] = {"layer": layer, "field": field, "all_touched": all_touched}
    serve(scene, labels, truth, settings=settings, browser=browser, **reading, **where, **place)
