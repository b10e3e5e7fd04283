"""``polyad label``, ``sample`` and ``area``: what people label, and what it says of a map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import polyad.scene
from polyad.cli import options as opt
from polyad.cli.options import LABELS, OUTPUT, PAGE, SAMPLE, flag, option
from polyad.scene.arguments import check_arguments
from polyad.terminal import fail, say


def label(
    scene: opt.Scene,
    labels: Annotated[str | None, option(LABELS, "Labels to start with.", "FILE")] = None,
    truth: Annotated[
        str | None, option(LABELS, "Reference labels that score the map as it grows.", "FILE")
    ] = None,
    check: Annotated[
        str | None,
        option(SAMPLE, "Instead of labeling, check the points of polyad sample.", "FILE"),
    ] = None,
    class_map: Annotated[
        str | None, option(SAMPLE, "With --check: map whose classes are offered.", "FILE", "--map")
    ] = None,
    classes: Annotated[
        str | None,
        option(SAMPLE, "With --check and without --map: classes, e.g. 'Corn, Soil'.", "NAMES"),
    ] = None,
    blind: Annotated[
        bool | None,
        flag(
            SAMPLE,
            "--blind/--show-map",
            "With --check: hide the class of the map (default), or show it.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            SAMPLE, "With --check: checked points to write. Default: beside the sample.", "FILE"
        ),
    ] = None,
    layer: opt.Layer = None,
    field: opt.Field = None,
    all_touched: opt.AllTouched = False,
    mask: opt.Mask = None,
    bbox: opt.BBox = None,
    nodata: opt.NoData = None,
    port: Annotated[int, option(PAGE, "Port to listen on; 0 takes a free one.", "N")] = 0,
    host: Annotated[
        str, option(PAGE, "Address to listen on; 127.0.0.1 is this machine only.", "ADDRESS")
    ] = "127.0.0.1",
    journal: Annotated[
        Path | None,
        option(PAGE, "File that stores every label. Default: beside the scene.", "FILE"),
    ] = None,
    preset: opt.Preset = None,
    goal: opt.Goal = "this-scene",
    browser: Annotated[bool, option(PAGE, "Open the page in the browser.")] = True,
) -> None:
    """Label pixels on a web page, or check a sample of a map."""
    if check is None:
        checking: dict[str, object] = {"--map": class_map, "--classes": classes, "--out": out}
        checking |= {"--blind": blind is True, "--show-map": blind is False}
        opt.refuse(checking, "is for checking a sample; name its points with --check")
    else:
        labeling: dict[str, object] = {"--labels": labels, "--truth": truth, "--mask": mask}
        labeling |= {"--bbox": bbox, "--all-touched": all_touched}
        opt.refuse(labeling, "is for labeling; leave it out, or leave out --check")
    given = [labels, truth, check, class_map]
    check_arguments(preset=(preset, goal), scene=scene, labels=given, mask=mask, bbox=bbox)
    try:
        import polyad.app as app

        check_page, label_page = app.check, app.serve
    except ModuleNotFoundError as error:
        fail(f"the labeling page needs {error.name}; install it with: pip install 'polyad[app]'")
    page: dict[str, Any] = {"host": host, "port": port, "journal": journal, "browser": browser}
    page |= {"layer": layer, "field": field, "nodata": nodata}
    if check is not None:
        names = [] if classes is None else classes.split(",")
        check_page(
            scene, check, class_map, classes=names, blind=blind is not False, out=out, **page
        )
        return
    settings = app.TrainSettings.of(preset=preset or "best", goal=goal)
    page |= {"all_touched": all_touched, "mask": mask, "bbox": bbox}
    label_page(scene, labels, truth, settings=settings, **page)


def sample(
    class_map: opt.ClassMap,
    size: Annotated[int | None, option(SAMPLE, "Number of pixels to draw.", "N")] = None,
    margin: Annotated[
        float | None,
        option(
            SAMPLE,
            "Instead of --size: margin of error of the overall accuracy, e.g. 0.03.",
            "FRACTION",
        ),
    ] = None,
    strata: opt.Strata = "map",
    allocation: Annotated[
        str, option(SAMPLE, "Allocation of the points to the strata.", "proportional|equal|optimal")
    ] = "proportional",
    minimum: Annotated[int, option(SAMPLE, "Minimum number of points per stratum.", "N")] = 2,
    accuracy: Annotated[
        list[str] | None,
        option(
            SAMPLE,
            "Expected accuracy, e.g. 0.8, or Corn=0.9 for one stratum. Repeatable.",
            "[NAME=]FRACTION",
        ),
    ] = None,
    deviation: Annotated[
        list[str] | None,
        option(
            SAMPLE,
            "Instead of --accuracy: standard deviation in the strata. Repeatable.",
            "[NAME=]NUMBER",
        ),
    ] = None,
    blind: Annotated[
        bool, flag(OUTPUT, "--blind", "Leave the class of the map out of the file.")
    ] = False,
    seed: opt.Seed = 0,
    out: Annotated[
        Path, option(OUTPUT, "Points to write: .gpkg, .geojson or .csv.", "FILE")
    ] = Path("sample.gpkg"),
    max_bytes: opt.MaxBytes = None,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Draw a random sample of the pixels of a map to be checked."""
    raster = None if strata == "map" else strata
    check_arguments(outputs={"sample": out}, labels=[class_map, raster], force=force)
    mapped = polyad.open_labels(class_map, max_bytes=max_bytes)
    drawn = polyad.scene.draw_sample(
        mapped,
        size,
        margin=margin,
        strata=polyad.scene.open_strata(raster, mapped, max_bytes=max_bytes),
        allocation=allocation,
        minimum=minimum,
        accuracy=polyad.scene.parse_by_stratum(accuracy or ()),
        deviations=polyad.scene.parse_by_stratum(deviation or ()),
        random_state=seed,
    )
    drawn.save(out, blind=blind, source=class_map, strata=raster)
    say({"sample": str(out)} | drawn.to_dict(), as_json, f"{drawn}\nsample: {out}")


def area(
    context: typer.Context,
    class_map: opt.ClassMap,
    points: Annotated[
        str, typer.Argument(help="Checked points: CSV (x,y,reference), GeoJSON or GeoPackage.")
    ],
    strata: opt.Strata = "map",
    field: Annotated[
        str, option(SAMPLE, "Attribute holding the true class.", "NAME")
    ] = "reference",
    layer: Annotated[
        str | None, option(SAMPLE, "Layer of the points, if their file has several.", "NAME")
    ] = None,
    design: Annotated[
        str, option(SAMPLE, "How the points were drawn.", "stratified|random")
    ] = "stratified",
    skip_empty: Annotated[
        bool, flag(SAMPLE, "--skip-empty", "Leave out points without a class.")
    ] = False,
    out: Annotated[
        Path | None, option(OUTPUT, "Also write the table to a .csv or .json file.", "FILE")
    ] = None,
    report: opt.Report = None,
    hashes: opt.Hash = None,
    max_bytes: opt.MaxBytes = None,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Estimate the area of each class from checked points."""
    raster = None if strata == "map" else strata
    sources = [class_map, points, raster]
    check_arguments(outputs={"table of areas": out}, report=report, labels=sources, force=force)
    mapped = polyad.open_labels(class_map, max_bytes=max_bytes)
    checked = polyad.scene.open_points(
        points, mapped, field=field, layer=layer, skip_empty=skip_empty, max_bytes=max_bytes
    )
    limits = polyad.scene.open_strata(raster, mapped, max_bytes=max_bytes)
    estimates = polyad.scene.estimate_areas(mapped, checked, strata=limits, design=design)
    if report:
        inputs = {"map": class_map, "points": points, "strata": raster}
        polyad.scene.write_area_report(
            report,
            estimates,
            title=Path(class_map).stem,
            record=opt.record_run(context, hashes, **inputs),
            class_map=mapped,
            points=checked,
        )
    if out is not None:
        polyad.scene.write_areas(out, estimates.to_dict())
    files = [("table", out), ("report", report)]
    written = "".join(f"\n{what}: {path}" for what, path in files if path)
    say(estimates.to_dict(), as_json, f"{estimates}{written}")
