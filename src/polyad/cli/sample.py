"""``polyad sample``: pixels of a map to be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import polyad.scene
from polyad.cli.options import AsJson, ClassMap, Force, MaxBytes, Seed, Strata
from polyad.scene.arguments import check_arguments
from polyad.terminal import say


def sample(
    class_map: ClassMap,
    size: Annotated[int | None, typer.Option(help="How many pixels to draw.")] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="Or: as many as overall accuracy needs to be known to, such as 0.03."),
    ] = None,
    strata: Strata = "map",
    allocation: Annotated[
        str, typer.Option(help="How strata share the points: proportional, equal or optimal.")
    ] = "proportional",
    minimum: Annotated[int, typer.Option(help="Points of each stratum at least.")] = 2,
    accuracy: Annotated[
        list[str] | None,
        typer.Option(help="Accuracy expected: 0.8, or Corn=0.9 for one stratum. Repeatable."),
    ] = None,
    deviation: Annotated[
        list[str] | None,
        typer.Option(help="Or its standard deviation, of a quantity of yours. Repeatable."),
    ] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Leave the class of the map out of the file.")
    ] = False,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The points: .gpkg, .geojson or .csv.")] = Path(
        "sample.gpkg"
    ),
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw a random sample of a map's pixels to be checked on the ground."""
    raster = None if strata == "map" else strata
    check_arguments(outputs={"sample": out}, labels=[class_map, raster], force=force)
    from polyad.scene import draw_sample, open_strata, parse_by_stratum

    mapped = polyad.open_labels(class_map, max_bytes=max_bytes)
    drawn = draw_sample(
        mapped,
        size,
        margin=margin,
        strata=open_strata(raster, mapped, max_bytes=max_bytes),
        allocation=allocation,
        minimum=minimum,
        accuracy=parse_by_stratum(accuracy or ()),
        deviations=parse_by_stratum(deviation or ()),
        random_state=seed,
    )
    drawn.save(out, blind=blind)
    say({"sample": str(out)} | drawn.to_dict(), as_json, f"{drawn}\nsample: {out}")
