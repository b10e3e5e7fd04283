"""GeoTIFFs are cloud-optimized: directories first, overviews, blocks in order, marked as such."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine

from polyad.errors import OutputError
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.write import geotiff
from polyad.scene.write.writers import MapWriter, write_map

CLASSES = [ClassInfo(value, f"class {value}", "") for value in (1, 3, 200)]
PLACE = Affine(30, 0, 400000, 0, -30, 5800000)


def fields(shape: tuple[int, int]) -> np.ndarray:
    """Return square fields of ids with a margin that was not mapped."""
    y, x = np.indices(shape)
    ids = np.array([1, 3, 200], np.uint8)[(y // 37 + x // 53) % 3]
    ids[: shape[0] // 8] = 0
    return ids


def placed_map(shape: tuple[int, int]) -> xr.DataArray:
    raster = xr.DataArray(fields(shape), dims=("y", "x"))
    return with_classes(raster.rio.write_crs(32633).rio.write_transform(PLACE), CLASSES)


def shares(shape: tuple[int, int], classes: int = 3) -> xr.DataArray:
    values = np.random.default_rng(0).dirichlet(np.ones(classes), shape).astype(np.float32)
    values[: shape[0] // 8] = np.nan
    raster = xr.DataArray(values, dims=("y", "x", "class"))
    return raster.rio.write_crs(32633).rio.write_transform(PLACE)


def write_probabilities(path: Path, proba: xr.DataArray, dtype: str = "float32") -> None:
    """Write probabilities as they go with a map."""
    classes = [ClassInfo(k, f"class {k}", "") for k in range(1, proba.sizes["class"] + 1)]
    place = {"crs": proba.rio.crs, "transform": PLACE, "probability_dtype": dtype}
    with MapWriter(
        path.with_name("map.tif"), proba.shape[:2], classes, probabilities=path, **place
    ) as out:
        out.write((slice(None), slice(None)), np.zeros(proba.shape[:2], int), proba.values)


def directories(path: Path) -> list[tuple[int, int, list[int]]]:
    """Return of each directory of a classic TIFF its place, its width and its blocks' places."""
    data, found = path.read_bytes(), []
    assert data[:4] == b"II*\0"
    at = struct.unpack_from("<I", data, 4)[0]
    while at:
        count = struct.unpack_from("<H", data, at)[0]
        entries = [struct.unpack_from("<HHII", data, at + 2 + 12 * k) for k in range(count)]
        tags = {tag: (kind, number, value) for tag, kind, number, value in entries}
        kind, number, value = tags[324]  # offsets of the blocks
        assert kind == 4
        places = struct.unpack_from(f"<{number}I", data, value) if number > 1 else (value,)
        found.append((at, tags[256][2] & 0xFFFF, list(places)))
        at = struct.unpack_from("<I", data, at + 2 + 12 * count)[0]
    return found


def check_cog(path: Path) -> None:
    """Check the layout by its bytes, and by what GDAL and rio-cogeo say of it."""
    found = directories(path)
    widths = [width for _, width, _ in found]
    assert widths == sorted(widths, reverse=True)  # the whole picture first, then smaller ones
    assert [at for at, _, _ in found] == sorted(at for at, _, _ in found)
    last = found[-1][0]
    by_size = [places for _, _, places in reversed(found)]  # data: the smallest overview first
    assert all(place > last for place in by_size[0])
    in_file = [place for places in by_size for place in places]
    assert in_file == sorted(in_file)
    with rasterio.open(path) as dataset:
        assert dataset.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert dataset.overviews(1) == geotiff.overview_factors(dataset.shape)
    rio_cogeo = pytest.importorskip("rio_cogeo")
    valid, errors, warnings = rio_cogeo.cog_validate(path, strict=True, quiet=True)
    assert (valid, errors, warnings) == (True, [], [])


@pytest.mark.parametrize("shape", [(1, 1), (100, 90), (256, 257), (1100, 700)])
def test_map_is_a_cog(tmp_path: Path, shape: tuple[int, int]) -> None:
    write_map(tmp_path / "map.tif", placed_map(shape))
    check_cog(tmp_path / "map.tif")


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("shape", [(700, 600)])
def test_probabilities_are_a_cog(tmp_path: Path, shape: tuple[int, int], dtype: str) -> None:
    write_probabilities(tmp_path / "p.tif", shares(shape), dtype)
    check_cog(tmp_path / "p.tif")


def test_probabilities_of_very_many_classes_have_small_blocks(tmp_path: Path) -> None:
    write_probabilities(tmp_path / "p.tif", shares((60, 70), 600))
    check_cog(tmp_path / "p.tif")
    with rasterio.open(tmp_path / "p.tif") as dataset:
        side = dataset.block_shapes[0][0]
        np.testing.assert_array_equal(
            np.moveaxis(dataset.read(), 0, -1), shares((60, 70), 600).values
        )
    assert side**2 * 600 * 4 <= 8 * 2**20


def test_overviews_hold_no_id_that_the_map_does_not(tmp_path: Path) -> None:
    given = placed_map((1100, 700))
    write_map(tmp_path / "map.tif", given)
    for level in range(3):
        with rasterio.open(tmp_path / "map.tif", overview_level=level) as dataset:
            ids = dataset.read(1)
            assert dataset.colormap(1)[3] == (*(17, 119, 51), 255)
        assert set(np.unique(ids)) == {0, 1, 3, 200}
        whole = given.values[:: 2 ** (level + 1), :: 2 ** (level + 1)]
        assert (ids == whole[: ids.shape[0], : ids.shape[1]]).mean() > 0.8


def test_overviews_of_probabilities_are_means_without_unmapped_pixels(tmp_path: Path) -> None:
    given = shares((600, 600))
    write_probabilities(tmp_path / "p.tif", given)
    with rasterio.open(tmp_path / "p.tif", overview_level=0) as dataset:
        reduced = np.moveaxis(dataset.read(), 0, -1)
    blocks = given.values.reshape(300, 2, 300, 2, 3)
    assert np.isnan(reduced[:37]).all()
    np.testing.assert_allclose(reduced[38:], blocks.mean(axis=(1, 3))[38:], atol=1e-6)


@pytest.mark.parametrize("cut", ["working", "finished"])
@pytest.mark.parametrize("part", ["map", "overview"])
def test_block_that_is_missing_in_either_file_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str, part: str
) -> None:
    """As after a full disk, of which GDAL says nothing: bytes of a block are zero."""
    real = geotiff.open_quietly
    done = []

    def damage(path: Path) -> None:
        places = directories(path)[0 if part == "map" else -1][2]
        with path.open("r+b") as file:
            file.seek(places[0])
            file.write(b"\0" * 20)
        done.append(path)

    def spoiled(path: Path, mode: str, **options: Any) -> Any:
        if mode == "r" and not done and path.name.endswith((".0", ".1")) == (cut == "working"):
            damage(path)
        return real(path, mode, **options)

    monkeypatch.setattr(geotiff, "open_quietly", spoiled)
    with pytest.raises(OutputError, match="expected room for the whole file"):
        write_map(tmp_path / "map.tif", placed_map((600, 500)))
    assert len(done) == 1
    assert list(tmp_path.iterdir()) == []


def test_working_file_is_gone_and_nobody_else_could_read_it(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    write_map(target, placed_map((50, 40)))
    target.chmod(0o600)
    with MapWriter(target, (50, 40), CLASSES) as out:
        hidden = [path for path in tmp_path.iterdir() if path.name.startswith(".map.tif.part")]
        assert {path.stat().st_mode & 0o777 for path in hidden} == {0o600}
        out.write((slice(None), slice(None)), fields((50, 40)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "map.qml",
        "map.tif",
        "map.tif.aux.xml",
    ]
