"""``polyad reproduce``: the paper's experiments again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from polyad.cli.options import AsJson, Cluster, Force
from polyad.scene.files.paths import check_kind
from polyad.terminal import say


def repeat_options(arguments: Sequence[str], names: Set[str]) -> list[str]:
    """Give each further value of an option in ``names`` an option of its own.

    Examples
    --------
    >>> repeat_options(["--model", "rank-1", "cnn", "--jobs", "2"], {"--model"})
    ['--model', 'rank-1', '--model', 'cnn', '--jobs', '2']
    """
    out: list[str] = []
    option, has_value = "", False
    for argument in arguments:
        if argument.startswith("-"):
            option, equals, _ = argument.partition("=")
            has_value = bool(equals)
        else:
            out += [option] * (has_value and option in names)
            has_value = True
        out.append(argument)
    return out


class Lists(TyperCommand):
    """A command without arguments, whose options take one value or several."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse as Typer does, after giving each further value its option."""
        names = {name for option in self.params for name in option.opts if option.multiple}
        return super().parse_args(ctx, repeat_options(args, names))


def reproduce(
    scene: Annotated[list[str] | None, typer.Option(help="One or more scenes.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="One or more of rank-1 to rank-5, cnn, dense, svm-...")
    ] = None,
    samples_per_class: Annotated[
        list[int] | None, typer.Option(help="Training pixels of each class; one or more numbers.")
    ] = None,
    noise: Annotated[
        list[str] | None, typer.Option(help="One or more of none, pixel, band-offset.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="One or more of random, other-fields, blocks.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Seeds; 0 writes the report alone.")] = 10,
    epochs: Annotated[int, typer.Option(help="Epochs of each run.")] = 500,
    jobs: Annotated[int, typer.Option(help="Processes, one thread each.")] = 1,
    cluster: Cluster = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("polyad-paper"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Ranks 1 and 2 and the CNN, 3 runs of 50 epochs.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments again: records, tables, figures, report."""
    if not force:
        check_kind(out / "report.html", "report")
    from polyad import experiments

    names = ("scenes", "models", "samples_per_class", "noises", "protocols")
    asked = zip(names, (scene, model, samples_per_class, noise, protocol), strict=True)
    given: dict[str, Any] = {name: values for name, values in asked if values}
    given |= {"runs": runs, "epochs": epochs, "out": out, "quick": quick, "progress": not as_json}
    if cluster is None:
        done = experiments.reproduce(**given, jobs=jobs)
    else:
        from polyad.distributed import reproduce_on

        done = reproduce_on(cluster, **given)
    lost = "".join(f"\nmissing scene: {why}" for why in done.missing.values())
    say(
        done.to_dict(),
        as_json,
        f"{done.runs_done} runs done, {done.runs_there} in the report{lost}\nreport: {done.report}",
    )
