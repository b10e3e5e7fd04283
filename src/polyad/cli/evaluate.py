"""``polyad evaluate``: scores and a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import polyad
from polyad.cli.options import (
    Adapt,
    AllTouched,
    AsJson,
    BBox,
    Field,
    Force,
    Labels,
    Layer,
    Mask,
    MaxBytes,
    Model,
    Remote,
    Scene,
)
from polyad.scene.arguments import check_arguments
from polyad.terminal import on_terminal, options, say


def evaluate(
    model: Model,
    scene: Scene,
    labels: Labels,
    out: Annotated[
        Path | None, typer.Option(help="Write the scores to this .json or .csv file too.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with pictures: map, spectra, calibration.")
    ] = None,
    layer: Layer = None,
    field: Field = None,
    all_touched: AllTouched = False,
    mask: Mask = None,
    bbox: BBox = None,
    adapt: Adapt = None,
    max_bytes: MaxBytes = None,
    remote: Remote = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on the labeled pixels that it did not learn from."""
    outputs = {"file of scores": out, "report": report}
    files: dict[str, Any] = {"model": model, "scene": scene, "labels": labels, "mask": mask}
    files["bbox"] = bbox
    check_arguments(outputs=outputs, force=force, remote=remote, **files)
    from polyad.scene import examine, restrict_scene, write_scores

    fitted = polyad.SceneModel.load(model)
    cube = polyad.open_scene(scene, max_bytes=max_bytes, remote=remote)
    cube = restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
    marks = polyad.open_labels(
        labels, cube, layer=layer, field=field, all_touched=all_touched, max_bytes=max_bytes
    )
    if report is None:
        examination = examine(fitted, cube, marks, adapt=adapt, progress=on_terminal())
    else:
        from polyad.scene import write_report  # draws, which takes a second to import

        given = options(layer=layer, field=field, all_touched=all_touched, mask=mask, bbox=bbox)
        command = shlex.join(
            ["polyad", "evaluate", model, scene, *labels, *given, *options(report=report)]
        )
        title, bar = Path(scene).stem, on_terminal()
        examination = write_report(
            report, fitted, cube, marks, title=title, command=command, adapt=adapt, progress=bar
        )
    result = examination.to_dict()
    if out is not None:
        write_scores(out, result)
    written = "" if report is None else f"\n\nreport: {report}"
    adapted = "" if examination.adapted is None else f"{examination.adapted}\n\n"
    say(result, as_json, adapted + str(examination.scores) + written)
