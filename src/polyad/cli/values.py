"""How ``polyad train`` and ``polyad evaluate`` deal with models of values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polyad.scene
from polyad.scene.files.option_values import CLASSES, check_bounds, check_task
from polyad.terminal import fail, on_terminal, replaced_line, report_lines, say, steps


def one_field(field: Sequence[str] | None) -> str | None:
    """Return the field of the classes; end with a sentence if several are named."""
    if field is not None and len(field) > 1:
        fail(f"a class comes from one --field, got {', '.join(field)}; name one of them")
    return field[0] if field else None


def asks_for_values(
    task: str, units: Sequence[str] | None, bounds: tuple[float, float] | None, **of_classes: Any
) -> bool:
    """Return whether values are to be learned; end with a sentence if options contradict that."""
    check_task(task)
    of_values = {"--units": units, "--bounds": bounds}
    if task == CLASSES:
        odd = [name for name, value in of_values.items() if value]
        if odd:
            fail(f"{odd[0]} is for values; add --task regression, or leave it out")
        return False
    if bounds is not None:
        check_bounds(bounds)
    odd = [f"--{name.replace('_', '-')}" for name, value in of_classes.items() if value]
    if odd:
        fail(f"{odd[0]} is for classes; leave it out, or train with --task classes")
    return True


def train_values(
    cube: Any,
    labels: Sequence[str],
    out: Path,
    *,
    reading: dict[str, Any],
    learning: dict[str, Any],
    reports: Sequence[Path] | None,
    told: dict[str, Any],
    files: dict[str, Any],
    hashes: bool | None,
    as_json: bool,
) -> None:
    """Learn values, keep the model and say how well it does; see `polyad.cli.train`."""
    values = polyad.scene.open_values(labels, cube, **reading)
    bar = on_terminal()
    model = polyad.scene.train_values(cube, values, verbose=int(bar), **learning)
    model.save(out)
    if reports:
        from polyad.scene import write_value_training_report  # draws, a second to import

        record = polyad.scene.record_run(told["command"], files, hashes=hashes, progress=bar)
        about: dict[str, Any] = {"title": told["title"], "facts": told["facts"]}
        write_value_training_report(reports, model, cube, values, record=record, **about)
    fit, learned = model.value_fit, model.training
    result = {
        "model": str(out),
        "task": "regression",
        "n_train": len(learned.pixels),
        "bands": model.bands,
        "bands_left_out": model.spectral.left_out,
        "targets": [t._asdict() for t in fit.targets],
        "values_without_data": learned.without_data,
        "values_incomplete": learned.incomplete,
        "pixels_replaced": learned.replaced,
        "fit_seconds": model.fit_seconds,
        "preset": None if model.recipe is None else model.recipe.preset,
        "goal": None if model.recipe is None else model.recipe.goal,
        "steps": None if model.recipe is None else model.recipe.line,
        "spatial_scores": [score.to_dict() for score in fit.scores],
    }
    lost = learned.without_data
    more = f"; {lost:,} more lie where the scene has no data" if lost else ""
    lost = learned.incomplete
    more += f"; {lost:,} more lack one of the targets" if lost else ""
    say(
        result,
        as_json,
        steps(result["steps"])
        + "".join(f"{line}\n" for line in fit.score_lines)
        + (
            ""
            if model.spectral.left_out is None
            else f"bands left out: {model.spectral.left_out}\n"
        )
        + replaced_line(learned.replaced)
        + f"{result['n_train']} pixels with values learned in {learned.seconds or 0:.2f} s{more}; "
        f"model: {out}" + report_lines(reports),
    )


def evaluate_values(
    model: Any,
    cube: Any,
    labels: Sequence[str],
    *,
    reading: dict[str, Any],
    outputs: dict[str, Any],
    told: dict[str, Any],
    files: dict[str, Any],
    hashes: bool | None,
    adapt: bool | None,
    as_json: bool,
) -> None:
    """Compare predictions with what was measured; see `polyad.cli.evaluate`."""
    if not reading.get("field"):
        reading = reading | {"field": [target.name for target in model.value_fit.targets]}
    bar = on_terminal()
    values = polyad.scene.open_values(labels, cube, **reading)
    found = polyad.scene.examine_values(model, cube, values, adapt=adapt, progress=bar)
    result, out, reports = found.to_dict(), outputs["out"], outputs["report"]
    if out is not None:
        polyad.scene.write_scores(out, result)
    if reports:
        record = polyad.scene.record_run(told["command"], files, hashes=hashes, progress=bar)
        title = told["title"]
        polyad.scene.write_value_report(reports, found, title=title, record=record, model=model)
    written = report_lines(reports)
    adapted = "" if found.adapted is None else f"{found.adapted}\n\n"
    replaced = replaced_line(found.replaced)
    say(result, as_json, adapted + replaced + str(found) + written)
