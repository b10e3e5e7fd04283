"""Pixels and band tags of a real EnMAP scene, laid out as other archives and programs do it."""

import shutil

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from numpy.testing import assert_allclose, assert_array_equal

from polyad.cli import main
from polyad.scene.raster.bands import Bands
from polyad.scene.read.scenes import open_scene

pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

SIX = "6 of 224: 130-135 (1331-1391 nm) flagged as bad"
NAME = "ENMAP01-____L2A-DT0000001867_20220724T104526Z_008_V010302_20230628T165614Z"


@pytest.fixture(scope="module")
def product(potsdam):
    return potsdam / "potsdam_train.tif"


@pytest.fixture(scope="module")
def scene(product):
    return open_scene(product)


def same(made, scene, order=slice(None)):
    """Assert that two scenes have the same bands, in one order or another, and the same place."""
    assert Bands.of(made).note == SIX
    assert_array_equal(made.wavelength, scene.wavelength[order])
    assert_array_equal(made.fwhm, scene.fwhm[order])
    assert made.rio.crs == scene.rio.crs
    assert made.rio.transform() == scene.rio.transform()


def by_wavelength(scene):
    """The bands of this export stand detector by detector: SWIR begins before VNIR ends."""
    order = np.argsort(scene.wavelength.values, kind="stable")
    assert (np.diff(order) < 0).any()
    return order


def test_vrt_of_the_scene_is_the_scene(product, scene, tmp_path):
    shutil.copy(product, tmp_path / "potsdam.tif")
    with rasterio.open(tmp_path / "potsdam.tif") as file:
        rasterio.shutil.copy(file, tmp_path / "potsdam.vrt", driver="VRT")
    made = open_scene(tmp_path / "potsdam.vrt")
    same(made, scene)
    assert_array_equal(made[40:60, 50:90].values, scene[40:60, 50:90].values)


def test_folder_of_224_files_is_the_scene(product, scene, tmp_path):
    with rasterio.open(product) as file:
        about = file.profile | {"count": 1}
        for band in file.indexes:
            with rasterio.open(tmp_path / f"B{band}.tif", "w", **about) as out:
                out.write(file.read(band), 1)
                out.update_tags(1, **file.tags(band))
    made, order = open_scene(tmp_path), by_wavelength(scene)
    same(made, scene, order)
    assert_array_equal(made[40:60, 50:90].values, scene[40:60, 50:90].values[..., order])


def enmap_xml(tags):
    """Return metadata with the centers, widths and statistics that the bands' own tags give."""
    bands = "".join(
        f'<bandID number="{n}"><wavelengthCenterOfBand>{t["wavelength"]}</wavelengthCenterOfBand>'
        f"<FWHMOfBand>{t['fwhm']}</FWHMOfBand><GainOfBand>0.0001</GainOfBand>"
        "<OffsetOfBand>0</OffsetOfBand></bandID>"
        for n, t in enumerate(tags, 1)
    )
    figures = "".join(
        f'<bandID number="{n}"><mean>{"100" if t["bbl"] == "1" else "-1000000"}</mean>'
        f"<stdDeviation>{'5' if t['bbl'] == '1' else '0'}</stdDeviation></bandID>"
        for n, t in enumerate(tags, 1)
    )
    return (
        f"<level_X><specific><bandCharacterisation>{bands}</bandCharacterisation></specific>"
        f"<product><bandStatistics>{figures}</bandStatistics></product></level_X>"
    )


def write_product(product, folder):
    """Write the scene as DLR's archive delivers it: a COG of whole numbers beside its metadata."""
    with rasterio.open(product) as file:
        stored = file.read().astype(np.int16)  # the export holds reflectance times 10000
        tags = [file.tags(band) for band in file.indexes]
        about = {"crs": file.crs, "transform": file.transform, "nodata": -32768}
        height, width = file.shape
    with rasterio.open(
        folder / f"{NAME}-SPECTRAL_IMAGE_COG.TIF", "w", driver="COG", width=width, height=height,
        count=224, dtype="int16", compress="deflate", blocksize=128, **about,
    ) as out:  # fmt: skip
        out.write(stored)
    (folder / f"{NAME}-METADATA.XML").write_text(enmap_xml(tags))


def test_enmap_cog_with_its_metadata_is_the_scene_as_reflectance(product, scene, tmp_path):
    write_product(product, tmp_path)
    made, order = open_scene(tmp_path), by_wavelength(scene)
    same(made, scene, order)
    assert_array_equal(made.number, scene.number[order])
    part = scene[40:60, 50:90].values[..., order]
    wanted = np.where(part == -32768, np.nan, part * 1e-4)
    assert_allclose(made[40:60, 50:90].values, wanted, rtol=1e-4, atol=1e-4)


def test_product_folder_is_enough_to_train_and_map(potsdam, product, tmp_path, capsys):
    folder = tmp_path / "product"
    folder.mkdir()
    write_product(product, folder)
    labels, model, out = (
        potsdam / "potsdam_train_labels.tif", tmp_path / "m.polyad", tmp_path / "map.tif",
    )  # fmt: skip
    for command in (
        ["train", folder, labels, "--samples-per-class", 10, "--out", model],
        ["map", model, folder, "--out", out],
    ):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in command])
        assert stop.value.code == 0, capsys.readouterr().err
    with rasterio.open(out) as file:
        assert file.crs.to_epsg() == 32633
        assert set(np.unique(file.read(1))) > {0, 1, 2, 3, 4}
