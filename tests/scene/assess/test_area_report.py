"""The page about areas, and its picture."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from polyad.scene.assess.areas import AreaEstimates, estimate_areas
from polyad.scene.assess.pages import record_run
from polyad.scene.assess.report import About, area_page, write_area_report
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.samples import SamplePoints
from tests.pages import Page

HOSTILE = "<script>alert('x')</script> & \"Corn\""


def estimates(seen: tuple[int, ...] = (1, 1, 1, 2, 2, 2, 2, 2)) -> AreaEstimates:
    ids = np.repeat([[1, 2]], [60, 40], axis=1).repeat(50, axis=0)
    table = [ClassInfo(1, HOSTILE, ""), ClassInfo(2, "Oats", ""), ClassInfo(3, "Rye", "")]
    land = with_classes(xr.DataArray(ids, dims=("y", "x")), table)
    places = np.array([[0, 0], [9, 9], [30, 30], [44, 50], [0, 60], [9, 69], [30, 80], [44, 99]])
    return estimate_areas(land, SamplePoints(places, np.array(seen)))


def test_the_page_is_whole_and_escapes_every_name():
    page = area_page(estimates(), About("map", record_run("polyad area map.tif <points>")))
    parsed = Page(page)
    assert parsed.open == []
    assert "<script>" not in page
    assert HOSTILE in "".join(parsed.words)
    assert "polyad area map.tif <points>" in "".join(parsed.words)


def test_the_page_says_what_a_table_of_a_paper_says():
    words = "".join(Page(area_page(estimates(), About("map", record_run("")))).words)
    for said in (
        "85.0",
        "95 % interval",
        "user's %",
        "producer's %",
        "Stehman",
        "areas are in pix",
    ):
        assert said in words


def test_a_class_that_the_map_does_not_have_gets_an_area():
    found = estimates((1, 1, 1, 3, 2, 2, 2, 2))
    row = found.to_dict()["classes"][2]
    assert row["name"] == "Rye"
    assert row["area_pixels"] == pytest.approx(3000 / 4)
    assert row["users_accuracy"] is None
    assert "No point is mapped as 3 Rye: no user's accuracy." in found.notes()


@pytest.mark.parametrize(("left", "uneven"), [(6, False), (4, True)])
def test_uneven_points_are_said_to_be_no_shares_of_the_area(tmp_path, left, uneven):
    ids = np.repeat([[1, 2]], [60, 40], axis=1).repeat(50, axis=0)
    land = xr.DataArray(ids, dims=("y", "x"))
    pixels = np.array([[k, 10] for k in range(left)] + [[k, 80] for k in range(4)])
    points = SamplePoints(pixels, np.repeat([1, 2], [left, 4]))
    found = estimate_areas(land, points)
    write_area_report(tmp_path / "r.html", found, title="map", class_map=land, points=points)
    told = "shares of points are not shares"
    assert (told in (tmp_path / "r.html").read_text()) == uneven
    assert told not in area_page(found, About("map", record_run("")))  # no picture, no legend


def test_an_interval_that_is_cut_off_at_nothing_says_so():
    rare = estimates((1, 1, 1, 1, 2, 2, 2, 1))
    assert not any("cut off" in note for note in rare.notes())
    rare = estimates((1, 1, 1, 1, 1, 1, 1, 2))
    assert any("Oats is cut off at 0" in note for note in rare.notes())
