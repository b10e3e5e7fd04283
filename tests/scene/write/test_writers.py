from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
import pytest
import rasterio
import rasterio.shutil
import rioxarray  # noqa: F401
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.errors import InputError, OutputError, SceneMismatch
from polyad.scene.raster.classes import ClassInfo, palette, with_classes
from polyad.scene.write import geotiff
from polyad.scene.write.writers import MapWriter, write_map
from tests.waiting import PATIENCE

CLASSES = (
    ClassInfo(1, "Corn, no till", "#4477AA"),
    ClassInfo(2, "Soy & <clover>", "#EE7733"),
    ClassInfo(4, "Forêt", "#117733"),
)
UTM = CRS.from_epsg(32616)
NORTH_UP = Affine(20.0, 0.0, 500000.0, 0.0, -20.0, 4470000.0)
ROTATED = Affine(18.12615574, 8.45236523, 500000.0, 8.45236523, -18.12615574, 4470000.0)


def make_map(
    shape: tuple[int, int] = (300, 270),
    crs: CRS | None = UTM,
    transform: Affine | None = NORTH_UP,
    classes: tuple[ClassInfo, ...] = CLASSES,
) -> xr.DataArray:
    rng = np.random.default_rng(0)
    ids = rng.choice([0, *(c.value for c in classes)], size=shape).astype("int64")
    ids[:40] = 0
    raster = with_classes(xr.DataArray(ids, dims=("y", "x")), classes)
    if transform is not None:
        if transform.b == 0:
            raster = raster.assign_coords(
                y=transform.f + transform.e * (np.arange(shape[0]) + 0.5),
                x=transform.c + transform.a * (np.arange(shape[1]) + 0.5),
            )
        raster = raster.rio.write_transform(transform)
    return raster if crs is None else raster.rio.write_crs(crs)


def as_gdal_sees_it(path: Path) -> ET.Element:
    """GDAL's own description of a raster, names and attribute table included."""
    vrt = path.with_name("seen.vrt")
    rasterio.shutil.copy(path, vrt, driver="VRT")
    root = ET.fromstring(vrt.read_text())
    vrt.unlink()
    return root


def check_palette(dataset: Any, classes: tuple[ClassInfo, ...] = CLASSES) -> None:
    colors = dataset.colormap(1)
    for c in classes:
        assert "#{:02X}{:02X}{:02X}".format(*colors[c.value][:3]) == c.color


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_geotiff_keeps_ids_crs_transform_nodata_and_palette(tmp_path: Path) -> None:
    class_map = make_map()
    write_map(tmp_path / "map.tif", class_map)
    with rasterio.open(tmp_path / "map.tif") as written:
        assert written.dtypes == ("uint8",)
        assert written.crs == UTM
        assert written.transform == NORTH_UP
        assert written.nodata == 0
        assert written.profile["compress"] == "deflate"
        assert written.profile["tiled"]
        np.testing.assert_array_equal(written.read(1), class_map.values)
        check_palette(written)
        assert written.colormap(1)[0][3] == 0  # pixels without a class are transparent
    assert names(tmp_path) == ["map.qml", "map.tif", "map.tif.aux.xml"]


def test_gdal_finds_category_names_and_attribute_table(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", make_map())
    root = as_gdal_sees_it(tmp_path / "map.tif")
    categories = [c.text for c in root.findall(".//CategoryNames/Category")]
    assert categories == ["Unclassified", "Corn, no till", "Soy & <clover>", None, "Forêt"]
    columns = [d.findtext("Name") for d in root.findall(".//FieldDefn")]
    assert columns == ["Value", "Class", "Red", "Green", "Blue", "Alpha"]
    rows = [[f.text for f in row] for row in root.findall(".//GDALRasterAttributeTable/Row")]
    assert rows[1] == ["1", "Corn, no till", "68", "119", "170", "255"]
    assert [row[0] for row in rows] == ["0", "1", "2", "4"]


@pytest.mark.parametrize("ending", [".tif", ".hdr"])
def test_rotated_grid_survives(tmp_path: Path, ending: str) -> None:
    write_map(tmp_path / f"map{ending}", make_map(transform=ROTATED))
    data = tmp_path / ("map.tif" if ending == ".tif" else "map.img")
    with rasterio.open(data) as written:
        assert written.transform.almost_equals(ROTATED, precision=1e-6)


@pytest.mark.parametrize("ending", [".tif", ".img", ".png", ".nc", ".npy"])
def test_map_without_georeference_is_written_without_a_warning(tmp_path: Path, ending: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_map(tmp_path / f"map{ending}", make_map((60, 50), crs=None, transform=None))
    if ending in (".tif", ".img"):
        with geotiff.open_quietly(tmp_path / f"map{ending}", "r") as written:
            assert written.crs is None
            assert written.transform == Affine.identity()


@pytest.mark.parametrize("epsg", [32616, 32733, 4326, 3035])
def test_envi_keeps_ids_crs_transform_nodata_palette_and_names(tmp_path: Path, epsg: int) -> None:
    transform = Affine(0.001, 0, -87, 0, -0.001, 40.5) if epsg == 4326 else NORTH_UP
    class_map = make_map(crs=CRS.from_epsg(epsg), transform=transform)
    write_map(tmp_path / "map.hdr", class_map)
    assert names(tmp_path) == ["map.hdr", "map.img"]
    with rasterio.open(tmp_path / "map.img", driver="ENVI") as written:
        assert written.crs == CRS.from_epsg(epsg)
        assert written.transform.almost_equals(transform, precision=1e-9)
        assert written.nodata == 0
        np.testing.assert_array_equal(written.read(1), class_map.values)
        check_palette(written)
    categories = [c.text for c in as_gdal_sees_it(tmp_path / "map.img").findall(".//Category")]
    # ENVI has no way to keep a comma in a list
    assert categories == ["Unclassified", "Corn; no till", "Soy & <clover>", None, "Forêt"]
    assert "file type = ENVI Classification" in (tmp_path / "map.hdr").read_text("utf-8")


@pytest.mark.parametrize(("ending", "data"), [(".tif", "map.tif"), (".hdr", "map.img")])
def test_more_than_255_classes_make_a_16_bit_map(tmp_path: Path, ending: str, data: str) -> None:
    many = tuple(ClassInfo(k + 1, f"class {k + 1}", c) for k, c in enumerate(palette(300)))
    class_map = make_map(classes=many)
    write_map(tmp_path / f"map{ending}", class_map)
    with rasterio.open(tmp_path / data) as written:
        assert written.dtypes == ("uint16",)
        np.testing.assert_array_equal(written.read(1), class_map.values)
        check_palette(written, many)


def test_files_that_described_the_old_map_are_gone(tmp_path: Path) -> None:
    for name in ("map.tif", "map.tif.ovr", "map.tif.aux.xml"):
        (tmp_path / name).write_text("old")
    write_map(tmp_path / "map.tif", make_map())
    assert names(tmp_path) == ["map.qml", "map.tif", "map.tif.aux.xml"]
    assert (tmp_path / "map.tif.aux.xml").read_text().startswith("<PAMDataset>")


def test_unknown_ending_and_id_without_a_class_are_refused_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    class_map = make_map()
    with pytest.raises(OutputError, match=r"\.tif.*\.hdr.*\.png.*'\.jpg'"):
        write_map(tmp_path / "map.jpg", class_map)
    class_map.values[5, 5] = 3
    with pytest.raises(SceneMismatch, match=r"\[3\].*\[1, 2, 4\]"):
        write_map(tmp_path / "map.tif", class_map)
    assert names(tmp_path) == []


def make_probabilities(shape: tuple[int, int] = (300, 270)) -> xr.DataArray:
    proba = np.random.default_rng(1).dirichlet(np.ones(3), size=shape)  # (y, x, class)
    proba[:7] = np.nan
    raster = xr.DataArray(
        proba, dims=("y", "x", "class"), coords={"class": [c.name for c in CLASSES]}
    )
    return raster.rio.write_transform(NORTH_UP).rio.write_crs(UTM)


@pytest.mark.parametrize(("dtype", "step"), [("float32", 1e-7), ("uint8", 0.5 / 254)])
def test_probabilities_keep_values_names_and_georeference(
    tmp_path: Path, dtype: str, step: float
) -> None:
    proba = make_probabilities()
    with MapWriter(
        tmp_path / "m.tif", (300, 270), CLASSES, crs=UTM, transform=NORTH_UP,
        probabilities=tmp_path / "p.tif", probability_dtype=dtype,
    ) as out:  # fmt: skip
        out.write((slice(None), slice(None)), np.zeros((300, 270), int), proba.values)
    with rasterio.open(tmp_path / "p.tif") as written:
        assert written.dtypes == (dtype,) * 3
        assert written.descriptions == tuple(c.name for c in CLASSES)
        assert (written.crs, written.transform) == (UTM, NORTH_UP)
        scale = np.reshape(written.scales, (3, 1, 1))
        back = np.moveaxis((written.read(masked=True) * scale).filled(np.nan), 0, -1)
        assert written.tags()["quantity"] == "class probability"
        if dtype == "uint8":
            assert written.tags()["probability_scale"] == "1/254"
    np.testing.assert_allclose(back, proba.values, rtol=0, atol=step * 1.001)


def tiles(shape: tuple[int, int], side: int) -> list[tuple[slice, slice]]:
    return [
        (slice(y, min(y + side, shape[0])), slice(x, min(x + side, shape[1])))
        for y in range(0, shape[0], side)
        for x in range(0, shape[1], side)
    ]


@pytest.mark.parametrize("side", [100, 256])
@pytest.mark.parametrize("flush_bytes", [1, 10**9])
def test_map_written_tile_by_tile_equals_map_written_whole(
    tmp_path: Path, side: int, flush_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geotiff, "_FLUSH_BYTES", flush_bytes)
    class_map, proba = make_map((520, 300)), make_probabilities((520, 300))
    for name, size in (("tiled", side), ("whole", 520)):
        (tmp_path / name).mkdir()
        with MapWriter(
            tmp_path / name / "map.tif", (520, 300), CLASSES, crs=UTM, transform=NORTH_UP,
            probabilities=tmp_path / name / "p.tif",
        ) as out:  # fmt: skip
            for window in tiles((520, 300), size):
                out.write(window, class_map.values[window], proba.values[window])
            assert all(".part-" in file for file in names(tmp_path / name))
    write_map(tmp_path / "map.tif", class_map)
    for one in ("map.tif", "p.tif"):
        tiled, whole = ((tmp_path / name / one).read_bytes() for name in ("tiled", "whole"))
        assert tiled == whole
    assert (tmp_path / "map.tif").read_bytes() == (tmp_path / "tiled/map.tif").read_bytes()


def test_missing_tile_is_an_error_and_not_a_hole(tmp_path: Path) -> None:
    def write_all_but_one() -> None:
        with MapWriter(tmp_path / "map.tif", (300, 300), CLASSES) as out:
            for window in tiles((300, 300), 100)[:-1]:
                out.write(window, np.ones((100, 100), int))

    with pytest.raises(OutputError, match=r"90,000 pixels, got 80,000"):
        write_all_but_one()
    assert names(tmp_path) == []


def test_probabilities_must_be_passed_when_promised(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="if and only if"),
        MapWriter(tmp_path / "m.tif", (5, 5), CLASSES, probabilities=tmp_path / "p.tif") as out,
    ):
        out.write((slice(0, 5), slice(0, 5)), np.ones((5, 5), int))
    assert names(tmp_path) == []


KILLED_WRITER = """
import sys, time
import numpy as np
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.write.writers import MapWriter
with MapWriter(sys.argv[1], (512, 512), [ClassInfo(1, "Corn", "#4477AA")]) as out:
    out.write((slice(0, 256), slice(0, 512)), np.ones((256, 512), dtype="uint8"))
    out._map.flush()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_process_killed_while_mapping_leaves_the_old_map(tmp_path: Path) -> None:
    target = tmp_path / "map.tif"
    write_map(target, make_map())
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    command = [sys.executable, "-c", KILLED_WRITER, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content
    assert all(name in before or name.startswith(".map.") for name in names(tmp_path))


WRITER_WITHOUT_ROOM = """
import resource, signal, sys
import numpy as np, xarray as xr
from polyad.errors import OutputError
from polyad.scene.write.writers import write_map
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # writing beyond fails, as when full
ids = np.random.default_rng(0).integers(1, 200, (800, 800)).astype("uint8")
try:
    write_map(sys.argv[1], xr.DataArray(ids, dims=("y", "x")))
except OutputError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file size are POSIX's")
@pytest.mark.parametrize("name", ["map.tif", "map.img", "map.npy"])
def test_disk_that_fills_while_writing_keeps_the_old_map(tmp_path: Path, name: str) -> None:
    write_map(tmp_path / name, make_map((50, 50)))
    before = {other: (tmp_path / other).read_bytes() for other in names(tmp_path)}
    command = [sys.executable, "-c", WRITER_WITHOUT_ROOM, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "expected room for the whole file" in done.stdout
    assert {other: (tmp_path / other).read_bytes() for other in names(tmp_path)} == before


def test_netcdf_is_not_begun_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(OutputError, match="0 bytes free"):
        write_map(tmp_path / "map.nc", make_map())
    assert names(tmp_path) == []


def test_lazy_map_is_written_strip_by_strip(tmp_path: Path) -> None:
    # An array that refuses to be read whole stands in for a map larger than memory.
    values: npt.NDArray[Any] = make_map((600, 20)).values.astype("uint8")
    np.save(tmp_path / "ids.npy", values)
    on_disk = np.load(tmp_path / "ids.npy", mmap_mode="r")
    lazy = with_classes(xr.DataArray(on_disk, dims=("y", "x")), CLASSES)
    write_map(tmp_path / "map.tif", lazy)
    with geotiff.open_quietly(tmp_path / "map.tif", "r") as written:
        np.testing.assert_array_equal(written.read(1), values)
