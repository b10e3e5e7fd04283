"""EnMAP and DESIS: tiny products with the file names, elements and oddities of the real ones."""

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.testing import assert_allclose, assert_array_equal

from polyad.errors import SceneError
from polyad.scene.raster.selection import valid_mask
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

ENMAP = "ENMAP01-____L2A-DT0000001867_20220724T104526Z_008_V010302_20230628T165614Z"
DESIS = "DESIS-HSI-L2A-DT0483531728_001-20200628T153803-V0210"
GRID = Affine(30, 0, 300000, 0, -30, 5800000)
# Level 2A orders bands by wavelength, the detectors interleaved; band 6 lies in water absorption.
LEVEL_2A = (418.2, 902.3, 911.6, 934.1, 943.2, 1331.0, 2445.5)
# Level 1C gives one detector after the other.
LEVEL_1C = (418.2, 902.3, 934.1, 911.6, 943.2, 1331.0, 2445.5)
EMPTY = 6


def pixels(count=7):
    stored = np.arange(1, count * 8 * 6 + 1).reshape(count, 8, 6).astype(np.int16)
    stored[:, 0, 0] = -32768
    if count >= EMPTY:
        stored[EMPTY - 1] = -32768
    return stored


def write_image(path, stored, **options):
    count, height, width = stored.shape
    options = {"compress": "deflate", "nodata": -32768, **options}
    with rasterio.open(
        path, "w", driver="GTiff", width=width, height=height, count=count, dtype="int16",
        crs="EPSG:32633", transform=GRID, **options,
    ) as file:  # fmt: skip
        file.write(stored)
    return path


def enmap_xml(centers, *, expected=True, statistics=True, numbers=None):
    """Return metadata as the processor writes it; older versions leave parts of it out."""
    numbers = numbers or range(1, len(centers) + 1)
    bands = "".join(
        f'<bandID number="{n}"><wavelengthCenterOfBand>{nm}</wavelengthCenterOfBand>'
        f"<FWHMOfBand>8.5</FWHMOfBand><GainOfBand>0.0001</GainOfBand>"
        f"<OffsetOfBand>0</OffsetOfBand></bandID>"
        for n, nm in zip(numbers, centers, strict=True)
    )
    figures = "".join(
        f'<bandID number="{n}"><mean>{"-1000000" if n == EMPTY else "1234.5"}</mean>'
        f"<stdDeviation>{'0' if n == EMPTY else '88.1'}</stdDeviation></bandID>"
        for n in numbers
    )
    lists = (
        "<vnirProductQuality><numChannelsExpected>3</numChannelsExpected>"
        "<expectedChannelsList>1,2,4</expectedChannelsList></vnirProductQuality>"
        "<swirProductQuality><numChannelsExpected>4</numChannelsExpected>"
        "<expectedChannelsList>3,5,6,7</expectedChannelsList></swirProductQuality>"
    )
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>'
        '<level_X xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        "<metadata><schema><version>01.02.00</version></schema></metadata>"
        "<base><level>L2A</level></base><specific><backgroundValue>-32768</backgroundValue>"
        f"<bandCharacterisation>{bands}</bandCharacterisation>"
        + (lists if expected else "<vnirProductQuality/><swirProductQuality/>")
        + "</specific><product>"
        + (f"<bandStatistics>{figures}</bandStatistics>" if statistics else "")
        + "</product></level_X>"
    )


def write_enmap(
    folder, image="-SPECTRAL_IMAGE.TIF", metadata="-METADATA.XML", centers=LEVEL_2A, **parts
):
    write_image(folder / (ENMAP + image), pixels(len(centers)))
    (folder / (ENMAP + metadata)).write_text(enmap_xml(centers, **parts))
    return folder / (ENMAP + metadata)


def test_enmap_is_reflectance_without_the_band_of_water_absorption(tmp_path):
    scene = open_scene(write_enmap(tmp_path))
    assert_array_equal(scene.wavelength, [418.2, 902.3, 911.6, 934.1, 943.2, 2445.5])
    assert_array_equal(scene.fwhm, [8.5] * 6)
    wanted = np.moveaxis(pixels()[[0, 1, 2, 3, 4, 6]], 0, -1) * np.float32(1e-4)
    wanted[0, 0] = np.nan
    assert_allclose(scene.values, wanted, rtol=1e-6)
    assert_allclose(scene.isel(y=slice(2, 4), band=[5]).values, wanted[2:4, :, [5]], rtol=1e-6)
    assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 0]])
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == GRID


def test_enmap_bands_of_two_detectors_are_put_in_order(tmp_path):
    """Level 1C: the last bands of VNIR lie beyond the first ones of SWIR."""
    scene = open_scene(write_enmap(tmp_path, centers=LEVEL_1C))
    assert_array_equal(scene.wavelength, [418.2, 902.3, 911.6, 934.1, 943.2, 2445.5])
    assert_array_equal(scene.number, [1, 2, 4, 3, 5, 7])  # as they stand in the file
    wanted = pixels()[[0, 1, 3, 2, 4, 6], 5, 3] * np.float32(1e-4)
    assert_allclose(scene[5, 3], wanted, rtol=1e-6)


@pytest.mark.parametrize("image", ["-SPECTRAL_IMAGE_COG.TIF", "-SPECTRAL_IMAGE_COG.tiff"])
@pytest.mark.parametrize("metadata", ["-METADATA.XML", "-METADATA.xml", "-METADATA.XML.XML"])
def test_enmap_opens_under_the_names_of_every_archive(tmp_path, image, metadata):
    named = write_enmap(tmp_path, image, metadata)
    for path in (tmp_path, named, tmp_path / (ENMAP + image)):
        assert open_scene(path).shape == (8, 6, 6)


def test_enmap_cog_is_the_same_scene_as_the_plain_tiff(tmp_path):
    for name in ("plain", "cog"):
        (tmp_path / name).mkdir()
    plain = open_scene(write_enmap(tmp_path / "plain"))
    metadata = write_enmap(tmp_path / "cog", "-SPECTRAL_IMAGE_COG.TIF")
    image = tmp_path / "cog" / f"{ENMAP}-SPECTRAL_IMAGE_COG.TIF"
    with rasterio.open(tmp_path / "plain" / f"{ENMAP}-SPECTRAL_IMAGE.TIF") as file:
        profile = {"nodata": -32768, "crs": file.crs, "transform": file.transform}
        with rasterio.open(
            image, "w", driver="COG", width=6, height=8, count=7, dtype="int16",
            compress="deflate", **profile,
        ) as out:  # fmt: skip
            out.write(file.read())
    cog = open_scene(metadata)
    assert_array_equal(cog.values, plain.values)
    assert cog.rio.transform() == plain.rio.transform()


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("statistics", [True, False])
def test_enmap_metadata_of_every_generation_gives_the_same_bands(tmp_path, expected, statistics):
    metadata = write_enmap(tmp_path, expected=expected, statistics=statistics)
    assert_array_equal(open_scene(metadata).wavelength, [418.2, 902.3, 911.6, 934.1, 943.2, 2445.5])


def test_enmap_leaves_out_bands_that_the_metadata_does_not_expect(tmp_path):
    metadata = write_enmap(tmp_path)
    metadata.write_text(enmap_xml(LEVEL_2A).replace("3,5,6,7", "3,5,6"))
    assert open_scene(metadata).wavelength.max() == 943.2


def test_enmap_folder_of_two_scenes_asks_for_one(tmp_path):
    metadata = write_enmap(tmp_path)
    other = ENMAP.replace("_008_", "_009_")
    write_image(tmp_path / f"{other}-SPECTRAL_IMAGE.TIF", pixels())
    (tmp_path / f"{other}-METADATA.XML").write_text(metadata.read_text())
    with pytest.raises(
        SceneError, match=r"expected one EnMAP or DESIS scene, got 2: .*_008_.*_009_"
    ):
        open_scene(tmp_path)
    assert open_scene(metadata).shape == (8, 6, 6)


def test_enmap_metadata_of_another_scene_is_refused(tmp_path):
    metadata = write_enmap(tmp_path, numbers=(1, 2, 3, 4, 5, 6, 8))
    with pytest.raises(SceneError, match="describes band 8, the image has 7 bands"):
        open_scene(metadata)


def test_enmap_metadata_with_entities_is_refused(tmp_path):
    metadata = write_enmap(tmp_path)
    metadata.write_text('<!DOCTYPE a [<!ENTITY b "bbbb">]>' + "<level_X>&b;</level_X>")
    with pytest.raises(SceneError, match=r"EnMAP or DESIS metadata, .* has a DOCTYPE"):
        open_scene(metadata)


# DESIS: a gain and an offset of its own for each band in level 1, and a second list of bands.

DESIS_BANDS = ((401.9, 0.0051, -0.2), (404.2, 0.0049, 0.1), (406.8, 0.0047, 0.3))


def write_desis(folder):
    bands = "".join(
        f"<band><bandNumber>{n}</bandNumber>"
        f'<wavelengthCenterOfBand unit="nm">{nm}</wavelengthCenterOfBand>'
        f'<wavelengthWidthOfBand unit="nm">3.5</wavelengthWidthOfBand>'
        f"<response>0.1,1.0,0.1</response><wavelengths>400,402,404</wavelengths>"
        f"<gainOfBand>{gain}</gainOfBand><offsetOfBand>{offset}</offsetOfBand>"
        f"<deadPixels>0</deadPixels><suspiciousPixel>2</suspiciousPixel></band>"
        for n, (nm, gain, offset) in enumerate(DESIS_BANDS, 1)
    )
    inner = "".join(f"<band><bandNumber>{n}</bandNumber><x>1</x></band>" for n in range(1, 9))
    metadata = folder / f"{DESIS}-METADATA.xml"
    metadata.write_text(
        '<?xml version="1.0" encoding="UTF-8"?><hsi_doc><base/><specific>'
        f"<interiorOrientation>{inner}</interiorOrientation>"
        f"<bandCharacterisation>{bands}</bandCharacterisation></specific></hsi_doc>"
    )
    # Pixel-interleaved, and its nodata value stands in the description of the format alone.
    image = folder / f"{DESIS}-SPECTRAL_IMAGE.tif"
    write_image(image, pixels(3), interleave="pixel", nodata=None)
    return metadata, image


def test_desis_is_scaled_by_the_gain_and_offset_of_each_band(tmp_path):
    metadata, image = write_desis(tmp_path)
    gain, offset = np.array(DESIS_BANDS)[:, 1:].T
    wanted = np.moveaxis(pixels(3), 0, -1) * gain + offset
    wanted[0, 0] = np.nan
    for path in (metadata, image, tmp_path):
        scene = open_scene(path)
        assert_allclose(scene.values, wanted, rtol=1e-5, atol=1e-6)
        assert_array_equal(scene.wavelength, [401.9, 404.2, 406.8])
        assert_array_equal(scene.fwhm, [3.5] * 3)
        assert scene.rio.crs.to_epsg() == 32633
