"""Zarr maps: what they hold, who reads them, and that they appear whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine

from polyad.errors import OutputError
from polyad.scene.files.paths import check_kind
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.labels import open_labels
from polyad.scene.write.writers import MapWriter, write_map

CLASSES = [ClassInfo(1, "Corn, no till", "#FFDD00"), ClassInfo(700, "Forêt <b>", "#117733")]
PLACE = Affine(30, 0, 400000, 0, -30, 5800000)


def small_map(shape: tuple[int, int] = (700, 530)) -> xr.DataArray:
    ids = np.array([0, 1, 700], np.uint16)[np.indices(shape).sum(axis=0) // 40 % 3]
    raster = xr.DataArray(ids, dims=("y", "x"))
    return with_classes(raster.rio.write_crs(32633).rio.write_transform(PLACE), CLASSES)


def files(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in store.rglob("*") if p.is_file()}


def test_gdal_reads_ids_nodata_and_place(tmp_path: Path) -> None:
    write_map(tmp_path / "map.zarr", small_map())
    with rasterio.open(tmp_path / "map.zarr") as dataset:
        np.testing.assert_array_equal(dataset.read(1), small_map().values)
        assert dataset.nodata == 0
        assert dataset.crs.to_epsg() == 32633
        assert dataset.transform == PLACE


def test_xarray_reads_the_attributes_of_cf(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    write_map(tmp_path / "map.zarr", small_map())
    with xr.open_zarr(tmp_path / "map.zarr", decode_coords="all", mask_and_scale=False) as found:
        assert found.attrs["Conventions"] == "CF-1.8"
        assert found.class_map.attrs["flag_values"] == [1, 700]
        assert found.class_map.attrs["flag_meanings"] == "Corn_no_till Foret_b"
        assert found.class_map.attrs["_FillValue"] == 0
        assert found.rio.crs.to_epsg() == 32633
        assert found.x.attrs["standard_name"] == "projection_x_coordinate"
        np.testing.assert_array_equal(found.class_map.values, small_map().values)


def test_map_of_a_swath_keeps_its_positions_and_may_be_replaced(tmp_path: Path) -> None:
    ids = xr.DataArray(np.ones((5, 6), np.uint8), dims=("y", "x"))
    positions = {"lat": (("y", "x"), np.random.default_rng(0).random((5, 6)))}
    positions["lon"] = (("y", "x"), np.random.default_rng(1).random((5, 6)))
    pytest.importorskip("zarr")
    write_map(tmp_path / "map.zarr", ids.assign_coords(positions))
    with xr.open_zarr(tmp_path / "map.zarr") as found:
        np.testing.assert_array_equal(found.coords["lat"].values, positions["lat"][1])
    np.testing.assert_array_equal(open_labels(tmp_path / "map.zarr").values, 1)
    check_kind(tmp_path / "map.zarr", "map")


@pytest.mark.parametrize("side", [100, 512])
def test_order_of_the_windows_leaves_no_trace(tmp_path: Path, side: int) -> None:
    given = small_map()
    write_map(tmp_path / "whole.zarr", given)
    place = {"crs": given.rio.crs, "transform": PLACE}
    with MapWriter(tmp_path / "tiled.zarr", given.shape, CLASSES, **place) as out:
        for y in reversed(range(0, given.shape[0], side)):
            for x in range(0, given.shape[1], side):
                window = slice(y, min(y + side, given.shape[0])), slice(x, x + side)
                out.write(window, given.values[window])
        assert not (tmp_path / "tiled.zarr").exists()
    assert files(tmp_path / "tiled.zarr") == files(tmp_path / "whole.zarr")


def test_missing_window_is_an_error_and_leaves_the_old_map(tmp_path: Path) -> None:
    write_map(tmp_path / "map.zarr", small_map((40, 30)))
    before = files(tmp_path / "map.zarr")
    with (
        pytest.raises(OutputError, match=r"expected 1,200 pixels, got 600"),
        MapWriter(tmp_path / "map.zarr", (40, 30), CLASSES) as out,
    ):
        out.write((slice(0, 20), slice(0, 30)), np.ones((20, 30), int))
    assert files(tmp_path / "map.zarr") == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.zarr"]


def test_map_is_replaced_by_the_next_one_but_not_with_notes_in_it(tmp_path: Path) -> None:
    write_map(tmp_path / "map.zarr", small_map((40, 30)))
    check_kind(tmp_path / "map.zarr", "map")
    (tmp_path / "map.zarr" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="is no map of polyad"):
        check_kind(tmp_path / "map.zarr", "map")


def test_map_is_written_and_read_without_a_package_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("zarr", "numcodecs"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write_map(tmp_path / "map.zarr", small_map())
    np.testing.assert_array_equal(open_labels(tmp_path / "map.zarr").values, small_map().values)
