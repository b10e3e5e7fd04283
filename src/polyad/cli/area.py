"""``polyad area``: areas and accuracies from a checked sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import polyad.scene
from polyad.cli.options import (
    OUTPUT,
    SAMPLE,
    AsJson,
    ClassMap,
    Force,
    Hash,
    MaxBytes,
    Report,
    Strata,
    option,
    source_title,
    typed_command,
)
from polyad.scene.arguments import check_arguments
from polyad.terminal import on_terminal, say


def area(
    context: typer.Context,
    class_map: ClassMap,
    points: Annotated[
        str, typer.Argument(help="Checked points: CSV (x,y,reference), GeoJSON or GeoPackage.")
    ],
    strata: Strata = "map",
    field: Annotated[
        str, option(SAMPLE, help="Attribute holding the true class.", metavar="NAME")
    ] = "reference",
    layer: Annotated[
        str | None,
        option(SAMPLE, help="Layer of the points, if their file has several.", metavar="NAME"),
    ] = None,
    design: Annotated[
        str,
        option(SAMPLE, help="How the points were drawn.", metavar="stratified|random"),
    ] = "stratified",
    skip_empty: Annotated[
        bool, option(SAMPLE, "--skip-empty", help="Leave out points without a class.")
    ] = False,
    out: Annotated[
        Path | None,
        option(OUTPUT, help="Also write the table to a .csv or .json file.", metavar="FILE"),
    ] = None,
    report: Report = None,
    hashes: Hash = None,
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the area of each class from checked points."""
    raster = None if strata == "map" else strata
    sources = [class_map, points, raster]
    check_arguments(outputs={"table of areas": out}, report=report, labels=sources, force=force)
    from polyad.scene import estimate_areas, open_points, open_strata, write_areas

    mapped = polyad.open_labels(class_map, max_bytes=max_bytes)
    reading: dict[str, Any] = {"field": field, "layer": layer, "skip_empty": skip_empty}
    checked = open_points(points, mapped, **reading, max_bytes=max_bytes)
    limits = open_strata(raster, mapped, max_bytes=max_bytes)
    estimates = estimate_areas(mapped, checked, strata=limits, design=design)
    if report:
        from polyad.scene import record_run, write_area_report  # draws, a second to import

        inputs = {"map": class_map, "points": points, "strata": raster}
        words, bar = typed_command(context), on_terminal()
        record = record_run(words, inputs, hashes=hashes, progress=bar)
        shown: dict[str, Any] = {"class_map": mapped, "points": checked}
        title = source_title(class_map)
        write_area_report(report, estimates, title=title, record=record, **shown)
    if out is not None:
        write_areas(out, estimates.to_dict())
    files = [("table", out), ("report", report)]
    written = "".join(f"\n{what}: {path}" for what, path in files if path)
    say(estimates.to_dict(), as_json, f"{estimates}{written}")
