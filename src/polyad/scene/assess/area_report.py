"""The page about areas: a table to publish, a picture, the error matrix, and how it was done."""

from __future__ import annotations

import os
from importlib.metadata import version

from polyad.atomic import replacing
from polyad.scene.assess.area_estimates import AreaEstimates
from polyad.scene.assess.areas import interval
from polyad.scene.assess.pages import Themed, page_image, percent, render
from polyad.scene.draw.figures import DARK, LIGHT
from polyad.scene.draw.intervals import area_figure
from polyad.scene.files.paths import check_output
from polyad.scene.raster.classes import class_key


def write_area_report(
    path: str | os.PathLike[str], estimates: AreaEstimates, *, title: str, command: str
) -> None:
    """Write a page about the areas of a map's classes, with a picture; one file, nothing fetched.

    Parameters
    ----------
    path : path-like
        The page, by custom ending in ``.html``.
    estimates : AreaEstimates
    title : str
        Name of the map.
    command : str
        The command that does it all again.
    """
    check_output(path, "report")
    page = area_page(estimates, title=title, command=command)
    with replacing(path) as temporary:  # names of files may be odd
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")


def area_page(estimates: AreaEstimates, *, title: str, command: str) -> str:
    """Return the page as HTML."""
    shares = estimates.shares
    low, high = interval(shares.overall, shares.overall_se)
    names = [class_key(info) for info in estimates.classes]
    themed = Themed(
        *(
            area_figure(
                names, estimates.areas, estimates.intervals, estimates.mapped, estimates.unit, theme
            )
            for theme in (LIGHT, DARK)
        )
    )
    head, *rows = estimates.table()
    return render(
        "area_report.html",
        heading=f"{title}: areas of {len(names)} classes",
        summary=(
            f"Estimated from {estimates.points:,} checked points. {estimates.estimator[0].upper()}"
            f"{estimates.estimator[1:]}. Areas are those of the reference, not of the map."
        ),
        tiles={
            "overall accuracy": percent(shares.overall),
            "its 95 % interval": f"{100 * low:.1f}\N{EN DASH}{percent(high)}",
            f"area, {estimates.unit}": rows[-1][1],
            "checked points": f"{estimates.points:,}",
        },
        notes=estimates.notes()[1:],
        head=head,
        rows=[
            {"info": info, "cells": row[1:]}
            for info, row in zip(estimates.classes, rows[:-1], strict=True)
        ],
        total=rows[-1],
        picture=page_image(themed, "Area of each class with its 95 % interval"),
        classes=estimates.classes,
        matrix=shares.matrix.tolist(),
        counts=estimates.counts.tolist(),
        column_sums=shares.matrix.sum(axis=0).tolist(),
        row_sums=shares.matrix.sum(axis=1).tolist(),
        strata=estimates.strata,
        command=command,
        versions={name: version(name) for name in ("polyad", "numpy")},
    )
