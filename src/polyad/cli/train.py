"""``polyad train``: from labeled pixels to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import polyad.scene
from polyad.cli.options import (
    ACCURACY,
    LABELS,
    MODEL,
    OUTPUT,
    AllTouched,
    AsJson,
    Bands,
    BBox,
    Bounds,
    Colors,
    DropNm,
    Fields,
    Force,
    Goal,
    Groups,
    Hash,
    Labels,
    Layer,
    Mask,
    MaxBytes,
    Merge,
    Objective,
    Preset,
    Remote,
    Reports,
    Scene,
    Seed,
    Task,
    Units,
    choices,
    option,
    source_title,
    typed_command,
)
from polyad.cli.values import asks_for_values, one_field, train_values
from polyad.scene.arguments import check_arguments
from polyad.scene.files.option_values import FOLDS_BY, check_folds_by
from polyad.terminal import brief, fail, on_terminal, replaced_line, say, steps


def train(
    context: typer.Context,
    scene: Scene,
    labels: Labels,
    out: Annotated[Path, option(OUTPUT, help="Model file to write.", metavar="FILE")] = Path(
        "model.polyad"
    ),
    field: Fields = None,
    layer: Layer = None,
    all_touched: AllTouched = False,
    samples_per_class: Annotated[
        int | None,
        option(
            LABELS,
            help="Training pixels per class (half of any smaller class). Default: all.",
            metavar="N",
        ),
    ] = None,
    merge: Merge = None,
    units: Units = None,
    bounds: Bounds = None,
    task: Task = "classes",
    preset: Preset = None,
    goal: Goal = "this-scene",
    rank: Annotated[
        int | None,
        option(
            MODEL,
            help="Rank of the weights of each hidden unit. Default: 1.",
            metavar="N",
            max=1000,
        ),
    ] = None,
    hidden: Annotated[
        int | None,
        option(MODEL, help="Number of hidden units. Default: 75.", metavar="N", max=10_000),
    ] = None,
    window: Annotated[
        int | None,
        option(
            MODEL,
            help="Side of the window around a pixel, odd. Default: chosen; preset paper: 5.",
            metavar="PIXELS",
        ),
    ] = None,
    objective: Objective = "overall",
    solver: Annotated[
        str | None,
        option(
            MODEL,
            help="Optimizer; alternating is the paper's. Default: the preset's.",
            metavar="joint|alternating",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        option(
            MODEL, help="Maximum number of epochs. Default: 200; preset paper: 50.", metavar="N"
        ),
    ] = None,
    cross_validate: Annotated[
        bool,
        option(
            ACCURACY,
            "--cross-validate",
            help="Estimate the accuracy by spatial cross-validation; takes ten times as long.",
        ),
    ] = False,
    folds_by: Annotated[
        str | None,
        option(
            ACCURACY,
            help="What --cross-validate holds out together. Default: blocks.",
            metavar=choices(FOLDS_BY),
        ),
    ] = None,
    groups: Groups = None,
    mask: Mask = None,
    bbox: BBox = None,
    bands: Bands = None,
    drop_nm: DropNm = None,
    remote: Remote = False,
    report: Reports = None,
    colors: Colors = None,
    seed: Seed = 0,
    max_bytes: MaxBytes = None,
    hashes: Hash = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on the labeled pixels of a scene."""
    of_classes: dict[str, Any] = {"merge": merge, "colors": colors}
    of_classes |= {"samples_per_class": samples_per_class, "objective": objective != "overall"}
    of_classes |= {"groups": groups, "cross_validate": cross_validate, "folds_by": folds_by}
    values = asks_for_values(task, units, bounds, **of_classes)
    files: dict[str, Any] = {"outputs": {"model": out}, "scene": scene, "labels": labels}
    files |= {"mask": mask, "colors": colors, "window": window, "bbox": bbox, "merge": merge}
    files["reports"] = report
    files["folds_by"] = folds_by
    _check_folds(folds_by, cross_validate, groups)
    check_arguments(preset=(preset, goal, objective), force=force, remote=remote, **files)
    palette = None if colors is None else polyad.scene.read_colors(colors)
    cube = polyad.open_scene(scene, max_bytes=max_bytes, remote=remote)
    cube = polyad.select_bands(cube, bands, drop_nm)
    cube = polyad.scene.restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
    reading: dict[str, Any] = {"layer": layer, "all_touched": all_touched, "max_bytes": max_bytes}
    given: dict[str, Any] = {"rank": rank, "hidden": hidden, "solver": solver, "epochs": epochs}
    inputs = {"scene": scene, "labels": labels, "mask": mask, "model": str(out)}
    inputs["colors"] = None if colors is None else str(colors)
    told: dict[str, Any] = {"title": source_title(scene), "facts": {"Seed": str(seed)}}
    told["command"] = typed_command(context)
    if values:
        learning = {name: value for name, value in given.items() if value is not None}
        learning |= {"preset": preset, "goal": goal, "window": window, "bounds": bounds}
        learning |= {"random_state": seed, "max_bytes": max_bytes}
        reading |= {"field": field, "units": units}
        writing: dict[str, Any] = {"reports": report, "told": told, "files": inputs}
        writing |= {"hashes": hashes, "as_json": as_json}
        train_values(cube, labels, out, reading=reading, learning=learning, **writing)
        return
    reading |= {"field": one_field(field), "groups": groups}
    marks = polyad.open_labels(labels, cube, **reading)
    options: dict[str, Any] = {
        "window": window,
        "random_state": seed,
        "max_bytes": max_bytes,
        "preset": preset,
        "goal": goal,
        "objective": objective,
        "merge": merge or (),
        **{name: value for name, value in given.items() if value is not None},
    }
    seen = on_terminal()
    drawing: dict[str, Any] = {"samples_per_class": samples_per_class, "colors": palette}
    model = polyad.train(cube, marks, verbose=int(seen), **drawing, **options)
    if cross_validate:
        known = {"pixels": model.training.pixels, "statistics": model.statistics}
        options["preset"] = "fast" if model.recipe is None else model.recipe.preset
        found = polyad.cross_validate(
            cube, marks, by=folds_by or "blocks", progress=seen, **known, **options
        )
        model = model.with_accuracy(found)
    model.save(out)
    polyad.scene.keep_shares(model, cube, out, progress=seen)
    if report:
        from polyad.scene import record_run, write_training_report  # draws, a second to import

        record = record_run(told["command"], inputs, hashes=hashes, progress=seen)
        about: dict[str, Any] = {"title": told["title"], "facts": told["facts"], "record": record}
        write_training_report(report, model, cube, marks, merge=merge, **about)
    seconds = model.training.seconds or 0.0
    result = {
        "model": str(out),
        "n_train": len(model.training.pixels),
        "bands": model.bands,
        "bands_left_out": model.spectral.left_out,
        "classes": [c.name for c in model.classes],
        "labels": model.label_counts,
        "labels_without_data": model.training.without_data,
        "pixels_replaced": model.training.replaced,
        "epochs": model.estimator.n_iter_,
        "fit_seconds": seconds,
        "preset": None if model.recipe is None else model.recipe.preset,
        "goal": goal,
        "steps": None if model.recipe is None else model.recipe.line,
        "spatial_accuracy": None if model.choice is None else _scores(model),
        "cross_validation": None if model.accuracy is None else model.accuracy.to_dict(),
    }
    lost = result["labels_without_data"]
    lost = f"; {lost:,} more lie where the scene has no data" if lost else ""
    say(
        result,
        as_json,
        steps(result["steps"])
        + ("" if model.score_line is None else f"by its own labels: {model.score_line}\n")
        + ("" if not model.untested else f"not tested: {model.untested_line}\n")
        + (f"\n{model.accuracy}\n\n" if cross_validate else _class_lines(model.accuracy))
        + (
            ""
            if model.spectral.left_out is None
            else f"bands left out: {model.spectral.left_out}\n"
        )
        + replaced_line(result["pixels_replaced"])
        + f"labels: {brief(result['labels'])}{lost}\n"
        + f"{result['n_train']} pixels of {len(model.classes)} classes learned in {seconds:.2f} s; "
        f"model: {out}" + "".join(f"\nreport: {path}" for path in report or ()),
    )


def _check_folds(folds_by: str | None, cross_validate: bool, groups: str | None) -> None:
    """End with a sentence if nothing would be held out by blocks or clusters."""
    if folds_by is None:
        return
    check_folds_by(folds_by)
    if not cross_validate:
        fail(f"--folds-by {folds_by} is for --cross-validate; add that, or leave it out")
    if groups is not None:
        fail(
            f"labels are held out by --groups {groups} or by --folds-by {folds_by}, wanted one of "
            "the two, got both; leave one out"
        )


def _class_lines(accuracy: Any) -> str:
    """Return what is to be said of each class, a line each."""
    if accuracy is None or accuracy.spatial is None:
        return ""
    said = (f"right of each class: {accuracy.class_line}", accuracy.needed_line)
    return "".join(f"{line}\n" for line in said if line)


def _scores(model: Any) -> dict[str, Any]:
    names = ("overall", "average", "interval", "labels", "groups", "side")
    scores = {name: getattr(model.choice, name) for name in names}
    return scores | {"not_tested": dict(model.untested)}
