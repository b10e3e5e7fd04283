"""The report about areas: a table to publish, a picture, the error matrix, and how it was done."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from polyad.scene.assess.area_estimates import AreaEstimates
from polyad.scene.assess.areas import interval
from polyad.scene.assess.documents import Document, Reports, check_reports, write_document
from polyad.scene.assess.pages import PageImage, page_image, percent, render
from polyad.scene.assess.provenance import RunRecord, record_run
from polyad.scene.assess.report import thinned
from polyad.scene.draw.color import RIGHT, WRONG, class_picture, see_through
from polyad.scene.draw.marks import overlay_points
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.scene import as_labels
from polyad.scene.read.sample_points import SamplePoints, look_up


def write_area_report(
    path: Reports,
    estimates: AreaEstimates,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    class_map: xr.DataArray | None = None,
    points: SamplePoints | None = None,
) -> None:
    """Write a report about the areas of a map's classes; one file, nothing fetched.

    Parameters
    ----------
    path : path-like or sequence of path-like
        The report: a name ending in ``.json`` gets its content as JSON, any other the page, by
        custom ``.html``.
    estimates : AreaEstimates
    title : str
        Name of the map.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files as `polyad.scene.record_run` records them, instead of
        ``command`` alone.
    class_map, points : optional
        The map and its checked points, for a picture of both.
    """
    check_reports(path)
    given: dict[str, Any] = {"title": title, "command": command, "record": record}
    write_document(path, area_document(estimates, **given, class_map=class_map, points=points))


def area_document(
    estimates: AreaEstimates,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    class_map: xr.DataArray | None = None,
    points: SamplePoints | None = None,
) -> Document:
    """Return the report; see `write_area_report`."""
    record = record_run(command) if record is None else record
    shares = estimates.shares
    content = {
        "title": title,
        "summary": (
            f"Estimated from {estimates.points:,} checked points. {estimates.estimator[0].upper()}"
            f"{estimates.estimator[1:]}. Areas are those of the reference, not of the map."
        ),
        "areas": estimates.to_dict(),
        "table": estimates.table(),
        "error_matrix_sums": {
            "map": shares.matrix.sum(axis=1).tolist(),
            "reference": shares.matrix.sum(axis=0).tolist(),
        },
        "record": record.to_dict(),
    }
    return Document(
        "areas", content, lambda: _page(content, estimates, _picture(class_map, points))
    )


def area_page(estimates: AreaEstimates, **given: Any) -> str:
    """Return the page as HTML; see `area_document`."""
    return area_document(estimates, **given).page()


def _page(content: dict[str, Any], estimates: AreaEstimates, picture: PageImage | None) -> str:
    shares = estimates.shares
    low, high = interval(shares.overall, shares.overall_se)
    head, *rows = content["table"]
    return render(
        "area_report.html",
        heading=f"{content['title']}: areas of {len(estimates.classes)} classes",
        summary=content["summary"],
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
        bars=_bars(estimates, rows),
        unit=estimates.unit,
        picture=picture,
        point_colors=(RIGHT, WRONG),
        right=int(np.trace(estimates.counts)),
        points=estimates.points,
        uneven=_uneven(estimates),
        classes=estimates.classes,
        matrix=shares.matrix.tolist(),
        counts=estimates.counts.tolist(),
        column_sums=content["error_matrix_sums"]["reference"],
        row_sums=content["error_matrix_sums"]["map"],
        strata=estimates.strata,
        record=content["record"],
    )


def _uneven(estimates: AreaEstimates) -> bool:
    """Whether one stratum has clearly more points for its pixels than another."""
    density = [points / pixels for _, pixels, points in estimates.strata if pixels]
    return bool(density) and max(density) > 1.1 * min(density)


def _bars(estimates: AreaEstimates, rows: list[list[str]]) -> list[dict[str, Any]]:
    """Return estimate, interval and mapped area of each class in percent of the longest."""
    longest = max(float(estimates.intervals.max()), float(estimates.mapped.max())) or 1.0
    return [
        {
            "info": info,
            "area": 100 * float(estimates.areas[k]) / longest,
            "low": 100 * float(estimates.intervals[k][0]) / longest,
            "high": 100 * float(estimates.intervals[k][1]) / longest,
            "mapped": 100 * float(estimates.mapped[k]) / longest,
            "words": f"{rows[k][2]} ({rows[k][4]})",
        }
        for k, info in enumerate(estimates.classes)
    ]


def _picture(class_map: xr.DataArray | None, points: SamplePoints | None) -> PageImage | None:
    """Return the map with its points: where it is right, and where wrong."""
    if class_map is None or points is None:
        return None
    whole = as_labels(class_map).transpose("y", "x")
    wrong = look_up(whole, points.pixels) != points.reference
    shape = (whole.sizes["y"], whole.sizes["x"])
    marks = overlay_points(points.pixels, wrong, {0: RIGHT, 1: WRONG}, shape)  # the wrong above
    ids = thinned(whole).values
    picture = see_through(class_picture(ids, class_table(whole)), ids == 0)
    return page_image(picture, "Map with the checked points", points=marks)
