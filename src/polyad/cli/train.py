"""``polyad train``, ``evaluate`` and ``export``: a model from labeled pixels, and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import polyad.scene
from polyad.cli import options as opt
from polyad.cli.options import ACCURACY, LABELS, MODEL, OUTPUT, flag, option
from polyad.scene.arguments import check_arguments
from polyad.scene.files.option_values import CLASSES, REGRESSION, check_bounds, check_task
from polyad.terminal import brief, fail, on_terminal, replaced_line, report_line, say, steps

if TYPE_CHECKING:
    from polyad import SceneModel


def train(
    context: typer.Context,
    scene: opt.Scene,
    labels: opt.Labels,
    out: Annotated[Path, option(OUTPUT, "Model file to write.", "FILE")] = Path("model.polyad"),
    field: opt.Fields = None,
    layer: opt.Layer = None,
    all_touched: opt.AllTouched = False,
    samples_per_class: Annotated[
        int | None,
        option(LABELS, "Training pixels per class (half of any smaller class). Default: all.", "N"),
    ] = None,
    merge: opt.Merge = None,
    units: Annotated[
        list[str] | None,
        option(LABELS, "Unit of the target (regression); once for each --field.", "UNIT"),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        option(
            LABELS, "Valid range of the target (regression), e.g. 0 1 for a fraction.", "LOW HIGH"
        ),
    ] = None,
    task: opt.Task = CLASSES,
    preset: opt.Preset = None,
    goal: opt.Goal = "this-scene",
    rank: Annotated[
        int | None,
        option(MODEL, "Rank of the weights of each hidden unit. Default: 1.", "N", max=1000),
    ] = None,
    hidden: Annotated[
        int | None, option(MODEL, "Number of hidden units. Default: 75.", "N", max=10_000)
    ] = None,
    window: Annotated[
        int | None,
        option(
            MODEL,
            "Side of the window around a pixel, odd. Default: chosen; preset paper: 5.",
            "PIXELS",
        ),
    ] = None,
    objective: opt.Objective = "overall",
    solver: Annotated[
        str | None,
        option(
            MODEL,
            "Optimizer; alternating is the paper's. Default: the preset's.",
            "joint|alternating",
        ),
    ] = None,
    epochs: Annotated[
        int | None, option(MODEL, "Maximum number of epochs. Default: 200; preset paper: 50.", "N")
    ] = None,
    cross_validate: Annotated[
        bool,
        flag(
            ACCURACY,
            "--cross-validate",
            "Estimate the accuracy by spatial cross-validation; takes ten times as long.",
        ),
    ] = False,
    groups: Annotated[
        str | None,
        option(
            ACCURACY,
            "Attribute whose values are held out together, such as a plot or a date.",
            "NAME",
        ),
    ] = None,
    mask: opt.Mask = None,
    bbox: opt.BBox = None,
    bands: opt.Bands = None,
    drop_nm: opt.DropNm = None,
    nodata: opt.NoData = None,
    remote: opt.Remote = False,
    report: opt.Report = None,
    colors: opt.Colors = None,
    seed: opt.Seed = 0,
    max_bytes: opt.MaxBytes = None,
    hashes: opt.Hash = None,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Train a model on the labeled pixels of a scene."""
    check_task(task)
    of_classes: dict[str, object] = {
        "--merge": merge, "--colors": colors, "--samples-per-class": samples_per_class,
        "--objective": objective != "overall", "--groups": groups,
        "--cross-validate": cross_validate,
    }  # fmt: skip
    if task == REGRESSION:
        opt.refuse(of_classes, "is for classes; leave it out, or train with --task classes")
    else:
        values = {"--units": units, "--bounds": bounds}
        opt.refuse(values, "is for regression; add --task regression, or leave it out")
    if bounds is not None:
        check_bounds(bounds)
    check_arguments(
        preset=(preset, goal, objective),
        outputs={"model": out},
        report=report,
        scene=scene,
        labels=labels,
        colors=colors,
        mask=mask,
        window=window,
        bbox=bbox,
        merge=merge,
        force=force,
        remote=remote,
    )
    palette = None if colors is None else polyad.scene.read_colors(colors)
    cube = polyad.open_scene(scene, max_bytes=max_bytes, remote=remote, nodata=nodata)
    cube = polyad.select_bands(cube, bands, drop_nm)
    cube = polyad.scene.restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
    reading: opt.Reading = {"layer": layer, "all_touched": all_touched, "max_bytes": max_bytes}
    options: dict[str, Any] = {"rank": rank, "hidden": hidden, "solver": solver, "epochs": epochs}
    options = {name: value for name, value in options.items() if value is not None}
    options |= {"window": window, "random_state": seed, "max_bytes": max_bytes}
    options |= {"preset": preset, "goal": goal}
    bar = on_terminal()
    if task == REGRESSION:
        marks = polyad.scene.open_values(labels, cube, field=field, units=units, **reading)
        model = polyad.scene.train_regression(
            cube, marks, bounds=bounds, verbose=int(bar), **options
        )
    else:
        marks = polyad.open_labels(labels, cube, field=_one(field), groups=groups, **reading)
        options |= {"objective": objective, "merge": merge or ()}
        model = polyad.train(
            cube,
            marks,
            verbose=int(bar),
            samples_per_class=samples_per_class,
            colors=palette,
            **options,
        )
        if cross_validate:
            options["preset"] = "fast" if model.recipe is None else model.recipe.preset
            options |= {"pixels": model.training.pixels, "statistics": model.statistics}
            found = polyad.cross_validate(cube, marks, progress=bar, **options)
            model = model.with_accuracy(found)
    model = model.with_nodata(nodata)
    model.save(out)
    if task != REGRESSION:
        polyad.scene.cache_propagation(model, cube, progress=bar)
    if report:
        record = opt.record_run(
            context, hashes, scene=scene, labels=labels, mask=mask, model=out, colors=colors
        )
        if merge:
            marks = polyad.scene.merge_labels(marks, merge)
        polyad.scene.write_training_report(
            report,
            model,
            cube,
            marks,
            record=record,
            title=Path(scene).stem,
            facts={"Seed": str(seed)},
        )
    result, lines = _described(model, cross_validate)
    text = "".join(lines) + f"; model: {out}" + ("" if report is None else f"\nreport: {report}")
    say({"model": str(out), **result, "goal": goal}, as_json, text)


def _one(field: Sequence[str] | None) -> str | None:
    """Return the field of the classes; end with an error message if several are named."""
    if field is not None and len(field) > 1:
        fail(f"a class comes from one --field, got {', '.join(field)}; name one of them")
    return field[0] if field else None


def _described(model: SceneModel, cross_validated: bool) -> tuple[dict[str, Any], list[str]]:
    """Return what is printed of a trained model, as JSON and as text."""
    training, line = model.training, None if model.recipe is None else model.recipe.line
    count, lost, left_out = len(training.pixels), training.without_data, model.spectral.left_out
    result: dict[str, Any] = {
        "n_train": count,
        "bands": model.bands,
        "bands_left_out": left_out,
        "pixels_replaced": training.replaced,
        "fit_seconds": training.seconds,
        "preset": None if model.recipe is None else model.recipe.preset,
        "steps": line,
    }
    read = "" if left_out is None else f"bands left out: {left_out}\n"
    read += replaced_line(training.replaced)
    without_data = f"; {lost:,} more lie where the scene has no data" if lost else ""
    learned = f"learned in {training.seconds:.2f} s"
    if model.values is not None:
        fit, incomplete = model.value_fit, training.incomplete
        result |= {
            "task": REGRESSION,
            "targets": [t._asdict() for t in fit.targets],
            "values_without_data": lost,
            "values_incomplete": incomplete,
            "spatial_scores": [score.to_dict() for score in fit.scores],
        }
        scores = [f"{score}\n" for score in fit.score_lines]
        lacking = f"; {incomplete:,} more lack one of the targets" if incomplete else ""
        pixels = f"{count} pixels with values {learned}{without_data}{lacking}"
        return result, [steps(line), *scores, read, pixels]
    accuracy = model.accuracy
    result |= {
        "classes": [c.name for c in model.classes],
        "labels": model.label_counts,
        "labels_without_data": lost,
        "epochs": model.estimator.n_iter_,
        "not_tested": None if accuracy is None else accuracy.not_tested,
        "cross_validation": None if accuracy is None else accuracy.to_dict(),
    }
    scores = [] if model.score_line is None else [f"spatial cross-validation: {model.score_line}\n"]
    scores += [f"not tested: {model.untested_line}\n"] if model.untested_line else []
    if cross_validated:
        scores.append(f"\n{accuracy}\n\n")
    elif accuracy is not None and accuracy.spatial is not None:
        scores.append(f"recall by class: {accuracy.class_line}\n")
        scores += [f"{accuracy.needed_line}\n"] if accuracy.needed_line else []
    labels = f"labels: {brief(result['labels'])}{without_data}\n"
    pixels = f"{count} pixels of {len(model.classes)} classes {learned}"
    return result, [steps(line), *scores, read, labels, pixels]


def evaluate(
    context: typer.Context,
    model: opt.Model,
    scene: opt.Scene,
    labels: opt.Labels,
    out: Annotated[
        Path | None, option(OUTPUT, "Also write the scores to a .json or .csv file.", "FILE")
    ] = None,
    report: opt.Report = None,
    hashes: opt.Hash = None,
    layer: opt.Layer = None,
    field: opt.Fields = None,
    all_touched: opt.AllTouched = False,
    mask: opt.Mask = None,
    bbox: opt.BBox = None,
    nodata: opt.NoData = None,
    adapt: opt.Adapt = None,
    coverage: opt.Coverage = None,
    max_bytes: opt.MaxBytes = None,
    remote: opt.Remote = False,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Score a model on labeled pixels that it was not trained on."""
    check_arguments(
        outputs={"file of scores": out},
        report=report,
        model=model,
        scene=scene,
        labels=labels,
        mask=mask,
        bbox=bbox,
        coverage=coverage,
        force=force,
        remote=remote,
    )
    fitted = polyad.SceneModel.load(model)
    cube = polyad.open_scene(scene, max_bytes=max_bytes, remote=remote, nodata=nodata)
    cube = polyad.scene.restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
    reading: opt.Reading = {"layer": layer, "all_touched": all_touched, "max_bytes": max_bytes}
    if fitted.values is None:
        marks = polyad.open_labels(labels, cube, field=_one(field), **reading)
    else:
        marks = polyad.scene.open_values(
            labels,
            cube,
            field=field or [target.name for target in fitted.value_fit.targets],
            **reading,
        )
    options: dict[str, Any] = {"adapt": adapt, "coverage": coverage, "progress": on_terminal()}
    if report:
        record = opt.record_run(context, hashes, model=model, scene=scene, labels=labels, mask=mask)
        found = polyad.scene.write_report(
            report, fitted, cube, marks, title=Path(scene).stem, record=record, **options
        )
    else:
        found = polyad.scene.evaluation_of(fitted, cube, marks, **options)
    result = found.to_dict()
    if out is not None:
        polyad.scene.write_scores(out, result)
    adapted = "" if found.adapted is None else f"{found.adapted}\n\n"
    say(result, as_json, f"{adapted}{replaced_line(found.replaced)}{found}{report_line(report)}")


def export(
    model: opt.Model,
    out: Annotated[Path, typer.Argument(help="ONNX file to write.")],
    whole_scene: Annotated[
        bool,
        flag(OUTPUT, "--whole-scene", "Export a graph that maps a tile instead of single windows."),
    ] = False,
    network_only: Annotated[
        bool,
        flag(
            OUTPUT,
            "--network-only",
            "Export the network only, without label propagation and filter.",
        ),
    ] = False,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Write a model as ONNX, for onnxruntime, a browser or a device."""
    check_arguments(model=model, outputs={"ONNX file": out}, force=force)
    written = polyad.scene.export_file(
        model, out, whole_scene=whole_scene, network_only=network_only
    )
    takes = ", ".join(str(size) for size in written["input"])
    padding = "" if written["p"] is None else f" with p = {written['p']}"
    size = f"{written['bytes'] / 1000:,.0f} kB"
    say(written, as_json, f"takes ({takes}){padding} in single precision; {size}; ONNX: {out}")
