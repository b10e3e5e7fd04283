"""``polyad demo``: Indian Pines from ten labels per class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from polyad.cli.options import OUTPUT, AsJson, Force, Goal, Preset, Seed, option
from polyad.scene.arguments import check_arguments
from polyad.scene.files.paths import make_folder
from polyad.terminal import on_terminal, say, steps


def demo(
    out: Annotated[Path, option(OUTPUT, help="Folder for the results.", metavar="FOLDER")] = Path(
        "polyad-demo"
    ),
    preset: Preset = None,
    goal: Goal = "this-scene",
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Map Indian Pines from ten labels per class, with a report."""
    check_arguments(preset=(preset, goal))
    make_folder(out)
    outputs = {"model": out / "model.polyad", "map": out / "map.tif", "report": out / "report.html"}
    check_arguments(outputs=outputs | {"file of scores": out / "scores.json"}, force=force)
    check_arguments(outputs={"map": out / "map.png"}, force=force)
    from polyad.scene.demo import run_demo

    result = run_demo(out, seed=seed, preset=preset, goal=goal, progress=on_terminal())
    say(
        result,
        as_json,
        steps(result["steps"])
        + _accuracy(result)
        + f"\n{result['n_train']} training pixels, fitted in {result['fit_seconds']:.2f} s, "
        f"mapped in {result['map_seconds']:.3f} s\nreport: {out / 'report.html'}",
    )


def _accuracy(result: Mapping[str, Any]) -> str:
    return (
        f"overall accuracy {100 * result['overall_accuracy']:.1f} % "
        f"({100 * result['overall_accuracy_no_overlap']:.1f} % on windows apart from training), "
        f"average {100 * result['average_accuracy']:.1f} %, kappa {result['kappa']:.3f}"
    )
