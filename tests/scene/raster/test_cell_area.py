"""How much ground a pixel covers."""

from __future__ import annotations

import numpy as np
import pyproj
import pytest
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.errors import InputError, PolyadWarning, SceneError
from polyad.scene.raster.classes import class_totals
from polyad.scene.raster.grid import Grid, row_areas

FEET = "EPSG:2263"  # New York, in feet of the US survey


def test_a_projected_pixel_is_as_large_as_its_map_says():
    grid = Grid((3, 4), CRS.from_epsg(32633), Affine(30, 0, 500_000, 0, -20, 5_800_000))
    assert row_areas(grid).tolist() == [600.0] * 3


def test_feet_are_turned_into_meters():
    grid = Grid((2, 2), CRS.from_string(FEET), Affine(10, 0, 1_000_000, 0, -10, 200_000))
    assert row_areas(grid) == pytest.approx([(10 * 1200 / 3937) ** 2] * 2)


@pytest.mark.parametrize("top", [90.0, 52.0, 0.5, -40.0])
@pytest.mark.parametrize("code", [4326, 4314])  # WGS 84, and Bessel's ellipsoid
def test_a_cell_of_degrees_is_as_large_as_its_geodesic_polygon(top, code):
    """Geodesics between corners bend away from the parallels: at 0.01 degrees by nothing."""
    crs = CRS.from_epsg(code)
    grid = Grid((3, 2), crs, Affine(0.01, 0, 14, 0, -0.01, top))
    geod = pyproj.CRS.from_epsg(code).get_geod()
    for row, area in enumerate(row_areas(grid)):
        north, south = top - 0.01 * row, top - 0.01 * (row + 1)
        wanted, _ = geod.polygon_area_perimeter(
            [14, 14.01, 14.01, 14], [south, south, north, north]
        )
        assert area == pytest.approx(abs(wanted), rel=1e-6)


def test_a_projection_that_changes_areas_is_warned_of():
    grid = Grid((10, 10), CRS.from_epsg(3857), Affine(30, 0, 1_500_000, 0, -30, 6_800_000))
    with pytest.warns(PolyadWarning, match=r"EPSG:3857 does not keep areas: .* 900 .* on the grou"):
        row_areas(grid)


def test_without_a_reference_system_no_area_is_known():
    assert row_areas(Grid((2, 2), None, Affine(10, 0, 0, 0, -10, 0))) is None
    assert row_areas(Grid((2, 2), CRS.from_epsg(4326), None)) is None


def test_a_grid_turned_against_its_meridians_is_refused():
    turned = Affine.rotation(10) * Affine.scale(0.01, -0.01)
    with pytest.raises(SceneError, match="rotated against EPSG:4326"):
        row_areas(Grid((2, 2), CRS.from_epsg(4326), turned))


def test_pixels_and_areas_are_counted_by_class_and_by_stratum():
    classes = xr.DataArray([[1, 1, 0], [2, 1, 2]], dims=("y", "x"))
    strata = xr.DataArray([[5, 5, 5], [5, 7, 0]], dims=("y", "x"))
    pixels, total, mapped, mapped_total, outside = class_totals(
        classes, strata, np.array([1.0, 10.0])
    )
    assert (pixels[5], pixels[7], outside) == (3, 1, 1)
    assert (total[5], total[7]) == (12.0, 10.0)
    assert (mapped[1], mapped[2]) == (3, 1)
    assert (mapped_total[1], mapped_total[2]) == (12.0, 10.0)


def test_ids_below_zero_are_refused():
    land = xr.DataArray([[1, -1]], dims=("y", "x"))
    with pytest.raises(InputError, match=r"between 0 \(none\) and 65535, got -1 to 1"):
        class_totals(land, land, np.ones(1))
