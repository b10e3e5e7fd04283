"""``polyad evaluate``: scores and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import polyad
from polyad.cli.options import (
    OUTPUT,
    Adapt,
    AllTouched,
    AsJson,
    BBox,
    Coverage,
    Fields,
    Force,
    Hash,
    Labels,
    Layer,
    Mask,
    MaxBytes,
    Model,
    Remote,
    Report,
    Scene,
    option,
    source_title,
    typed_command,
)
from polyad.cli.values import evaluate_values, one_field
from polyad.scene.arguments import check_arguments
from polyad.terminal import on_terminal, replaced_line, report_line, say


def evaluate(
    context: typer.Context,
    model: Model,
    scene: Scene,
    labels: Labels,
    out: Annotated[
        Path | None,
        option(OUTPUT, help="Also write the scores to a .json or .csv file.", metavar="FILE"),
    ] = None,
    report: Report = None,
    hashes: Hash = None,
    layer: Layer = None,
    field: Fields = None,
    all_touched: AllTouched = False,
    mask: Mask = None,
    bbox: BBox = None,
    adapt: Adapt = None,
    coverage: Coverage = None,
    max_bytes: MaxBytes = None,
    remote: Remote = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on labeled pixels that it was not trained on."""
    files: dict[str, Any] = {"model": model, "scene": scene, "labels": labels, "mask": mask}
    outputs = {"file of scores": out}
    options: dict[str, Any] = {"bbox": bbox, "force": force, "remote": remote}
    options["coverage"] = coverage
    check_arguments(outputs=outputs, report=report, **options, **files)
    from polyad.scene import examine, restrict_scene, write_scores

    fitted = polyad.SceneModel.load(model)
    cube = polyad.open_scene(scene, max_bytes=max_bytes, remote=remote)
    cube = restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
    reading: dict[str, Any] = {"layer": layer, "all_touched": all_touched, "max_bytes": max_bytes}
    bar = on_terminal()
    if fitted.values is not None:
        evaluate_values(
            fitted,
            cube,
            labels,
            reading=reading | {"field": field},
            outputs={"out": out, "report": report},
            told={"title": source_title(scene), "command": typed_command(context)},
            files=files,
            hashes=hashes,
            adapt=adapt,
            as_json=as_json,
        )
        return
    marks = polyad.open_labels(labels, cube, field=one_field(field), **reading)
    if not report:
        examination = examine(fitted, cube, marks, adapt=adapt, coverage=coverage, progress=bar)
    else:
        from polyad.scene import record_run, write_report  # draws, which takes a second to import

        record = record_run(typed_command(context), files, hashes=hashes, progress=bar)
        told: dict[str, Any] = {"title": source_title(scene), "record": record, "progress": bar}
        told["coverage"] = coverage
        examination = write_report(report, fitted, cube, marks, adapt=adapt, **told)
    result = examination.to_dict()
    if out is not None:
        write_scores(out, result)
    written = report_line(report)
    adapted = "" if examination.adapted is None else f"{examination.adapted}\n\n"
    sets = "" if examination.sets is None else f"\n\n{examination.sets}"
    replaced = replaced_line(examination.replaced)
    say(result, as_json, adapted + replaced + str(examination.scores) + sets + written)
