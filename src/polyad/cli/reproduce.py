"""``polyad reproduce``: the paper's experiments again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from polyad.cli import options as opt
from polyad.cli.options import ADVANCED, DATA, OUTPUT, RUNS, flag, option
from polyad.errors import InputError
from polyad.terminal import put, say

NOTHING_RUN = 3  # exit code: the scenes asked for are not on this machine


def reproduce(
    scene: Annotated[list[str] | None, option(RUNS, "Scenes; one or more.", "NAME...")] = None,
    model: Annotated[
        list[str] | None,
        option(
            RUNS,
            "Models: rank-1 to rank-5, cnn, cnn-tuned, dense, svm-...; one or more.",
            "NAME...",
        ),
    ] = None,
    samples_per_class: Annotated[
        list[int] | None, option(RUNS, "Training pixels per class; one or more.", "N...")
    ] = None,
    noise: Annotated[
        list[str] | None,
        option(RUNS, "Noise added to the scene; one or more.", "none|pixel|band-offset..."),
    ] = None,
    noise_level: Annotated[
        list[float] | None,
        option(
            RUNS,
            help="Standard deviation of the noise as a share of each band's maximum; one or more. "
            "Default: 0.2.",
            metavar="SHARE...",
        ),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        option(
            RUNS, "How training pixels are drawn; one or more.", "random|other-fields|blocks..."
        ),
    ] = None,
    train: Annotated[
        Path | None, option(DATA, "Published split: raster of the training classes.", "FILE")
    ] = None,
    test: Annotated[
        Path | None, option(DATA, "Published split: raster of the test classes.", "FILE")
    ] = None,
    runs: Annotated[int, option(RUNS, "Number of seeds; 0 only writes the report.", "N")] = 10,
    epochs: Annotated[int, option(RUNS, "Epochs of each run.", "N")] = 500,
    jobs: Annotated[int, option(ADVANCED, "Number of processes, one thread each.", "N")] = 1,
    cluster: opt.Cluster = None,
    out: Annotated[Path, option(OUTPUT, "Folder for the results.", "FOLDER")] = Path(
        "polyad-paper"
    ),
    quick: Annotated[
        bool, flag(RUNS, "--quick", "Only ranks 1 and 2 and the CNN, 3 runs of 50 epochs.")
    ] = False,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Run the paper's experiments: records, tables, figures, report."""
    if not force and (out / "paper.md").exists() and not (out / "records").is_dir():
        raise InputError(
            f"{out / 'paper.md'} was not written by polyad reproduce and would be lost; use --force"
        )
    from polyad import experiments

    given: dict[str, Any] = {
        "scene": scene,
        "model": model,
        "samples_per_class": samples_per_class,
        "noise": noise,
        "noise_level": noise_level,
        "protocol": protocol,
        "train": None if train is None else str(train),
        "test": None if test is None else str(test),
    }
    options = {name: value for name, value in given.items() if value}
    plan = experiments.Plan(runs=runs, epochs=epochs, **options)
    plan = experiments.QUICK if quick else plan
    try:
        if cluster is None:
            done = experiments.reproduce(plan, out=out, jobs=jobs, progress=not as_json)
        else:
            from polyad.distributed import reproduce_on

            done = reproduce_on(cluster, plan, out=out, progress=not as_json)
    except experiments.NothingToRun as error:
        if as_json:
            say({"runs_done": 0, "missing": error.missing}, True, "")
        for why in error.missing.values():
            put(f"polyad: {why}", sys.stderr)
        put("polyad: nothing was run, and nothing written", sys.stderr)
        raise typer.Exit(NOTHING_RUN) from None
    lost = "".join(f"\nmissing scene: {why}" for why in done.missing.values())
    say(
        done.to_dict(),
        as_json,
        f"{done.runs_done} runs done, {done.runs_there} in the report{lost}\nreport: {done.report}",
    )
