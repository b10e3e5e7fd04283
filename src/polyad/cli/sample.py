"""``polyad sample``: pixels of a map to be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polyad.scene
from polyad.cli.options import (
    OUTPUT,
    SAMPLE,
    AsJson,
    ClassMap,
    Force,
    MaxBytes,
    Seed,
    Strata,
    option,
)
from polyad.scene.arguments import check_arguments
from polyad.terminal import say


def sample(
    class_map: ClassMap,
    size: Annotated[
        int | None, option(SAMPLE, help="Number of pixels to draw.", metavar="N")
    ] = None,
    margin: Annotated[
        float | None,
        option(
            SAMPLE,
            help="Instead of --size: margin of error of the overall accuracy, e.g. 0.03.",
            metavar="FRACTION",
        ),
    ] = None,
    strata: Strata = "map",
    allocation: Annotated[
        str,
        option(
            SAMPLE,
            help="Allocation of the points to the strata.",
            metavar="proportional|equal|optimal",
        ),
    ] = "proportional",
    minimum: Annotated[
        int, option(SAMPLE, help="Minimum number of points per stratum.", metavar="N")
    ] = 2,
    accuracy: Annotated[
        list[str] | None,
        option(
            SAMPLE,
            help="Expected accuracy, e.g. 0.8, or Corn=0.9 for one stratum. Repeatable.",
            metavar="[NAME=]FRACTION",
        ),
    ] = None,
    deviation: Annotated[
        list[str] | None,
        option(
            SAMPLE,
            help="Instead of --accuracy: standard deviation in the strata. Repeatable.",
            metavar="[NAME=]NUMBER",
        ),
    ] = None,
    blind: Annotated[
        bool, option(OUTPUT, "--blind", help="Leave the class of the map out of the file.")
    ] = False,
    seed: Seed = 0,
    out: Annotated[
        Path, option(OUTPUT, help="Points to write: .gpkg, .geojson or .csv.", metavar="FILE")
    ] = Path("sample.gpkg"),
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw a random sample of the pixels of a map to be checked."""
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
    drawn.save(out, blind=blind, source=class_map, strata=raster)
    say({"sample": str(out)} | drawn.to_dict(), as_json, f"{drawn}\nsample: {out}")
