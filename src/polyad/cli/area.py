"""``polyad area``: areas and accuracies from a checked sample."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

import polyad.scene
from polyad.cli.options import AsJson, ClassMap, Force, Layer, MaxBytes, Strata
from polyad.scene.arguments import check_arguments
from polyad.terminal import options, say


def area(
    class_map: ClassMap,
    points: Annotated[
        str, typer.Argument(help="Checked points: CSV (x,y,reference), GeoJSON, GeoPackage.")
    ],
    strata: Strata = "map",
    field: Annotated[
        str, typer.Option(help="Field of the points that is the true class.")
    ] = "reference",
    layer: Layer = None,
    design: Annotated[
        str, typer.Option(help="How the points were drawn: stratified or random.")
    ] = "stratified",
    out: Annotated[
        Path | None, typer.Option(help="Write the table to this .csv or .json file too.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with a picture.")] = None,
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the area of each class of a map, with intervals, from checked points."""
    raster = None if strata == "map" else strata
    outputs = {"table of areas": out, "report": report}
    check_arguments(outputs=outputs, labels=[class_map, points, raster], force=force)
    from polyad.scene import estimate_areas, open_points, open_strata, write_areas

    mapped = polyad.open_labels(class_map, max_bytes=max_bytes)
    checked = open_points(points, mapped, field=field, layer=layer, max_bytes=max_bytes)
    limits = open_strata(raster, mapped, max_bytes=max_bytes)
    estimates = estimate_areas(mapped, checked, strata=limits, design=design)
    if report is not None:
        from polyad.scene import write_area_report  # draws, which takes a second to import

        given = options(strata=raster, field=field, layer=layer, design=design, report=report)
        command = shlex.join(["polyad", "area", class_map, points, *given])
        write_area_report(report, estimates, title=Path(class_map).stem, command=command)
    if out is not None:
        write_areas(out, estimates.to_dict())
    written = "".join(
        f"\n{what}: {path}" for what, path in (("table", out), ("report", report)) if path
    )
    say(estimates.to_dict(), as_json, f"{estimates}{written}")
