"""Bands that are left out, chosen by wavelength, and matched with those of a model."""

import warnings

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.errors import InputError, PolyadWarning, SceneError, SceneMismatch
from polyad.scene import map_scene, select_bands, train, usable_bands
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import TrainingBands
from polyad.scene.learn.outputs import Classes
from polyad.scene.raster.bands import Bands, band_numbers, band_widths
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import LOOKS, match_bands, parse_ranges, scene_in_bands

NM = np.array([450.0, 550.0, 650.0, 750.0, 850.0, 950.0])


def made(bands=6, side=20, wavelength=NM, seed=0):
    """A scene of two classes, left and right, and its labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([[1] * (side // 2) + [2] * (side // 2)], side, axis=0)
    spectra = np.stack([np.linspace(0, 1, bands), np.linspace(1, 0, bands)])
    values = spectra[labels - 1] + rng.normal(0, 0.1, (side, side, bands))
    scene = xr.DataArray(values.astype(np.float32), dims=("y", "x", "band"))
    if wavelength is not None:
        scene = scene.assign_coords(wavelength=("band", wavelength))
    return scene, xr.DataArray(labels, dims=("y", "x"))


def without(scene, *bands, value=np.nan):
    values = scene.values.copy()
    values[..., list(bands)] = value
    return scene.copy(data=values)


def test_band_without_data_is_left_out_and_named():
    scene = usable_bands(without(made()[0], 2, 3))
    assert Bands.of(scene).note == "2 of 6: 3-4 (650-750 nm) without data in any pixel"
    assert band_numbers(scene).tolist() == [1, 2, 5, 6]


def test_scene_without_any_data_and_bands_with_a_single_value_are_left_as_they_are():
    scene = without(made()[0], 2)
    scene.values[19, 0, 2] = 1.0
    assert usable_bands(scene).sizes["band"] == 6
    assert usable_bands(without(made()[0], *range(6))).sizes["band"] == 6


class Counting:
    """A lazy scene that counts the pixels that were read of it."""

    def __init__(self, shape, empty):
        self.shape, self.dtype, self.path = shape, np.dtype(np.float32), "made"
        self.empty, self.pixels = empty, 0

    def read(self, rows, cols, bands):
        self.pixels += (rows.stop - rows.start) * (cols.stop - cols.start)
        window = np.ones((rows.stop - rows.start, cols.stop - cols.start, len(bands)), np.float32)
        window[..., np.isin(bands, self.empty)] = np.nan
        return window


@pytest.mark.parametrize("empty", [[], [7]])
def test_no_more_than_a_few_strips_of_a_large_scene_are_read(empty):
    from polyad.scene.raster.scene import lazy_scene

    source = Counting((100_000, 1000, 100), empty)
    scene = usable_bands(lazy_scene(source, nodata=np.nan))
    assert scene.sizes["band"] == 100 - len(empty)
    assert source.pixels <= (1 if not empty else LOOKS) * 7 * 2**20 / 400
    before = source.pixels
    usable_bands(scene)
    assert source.pixels == before  # looked at once


def test_model_trained_without_empty_bands_maps_the_scene_as_one_of_the_others():
    scene, labels = made()
    whole = without(scene, 2)
    model = train(whole, labels, epochs=20)
    same = train(scene.isel(band=[0, 1, 3, 4, 5]), labels, epochs=20)
    assert (model.spectral.kept, model.spectral.in_file) == ((1, 2, 4, 5, 6), 6)
    assert model.spectral.left_out == "1 of 6: 3 (650 nm) without data in any pixel"
    assert model.learned_from(whole)
    assert (map_scene(model, whole).values == map_scene(same, scene).values).all()


@pytest.mark.parametrize("wavelength", [NM, None])
def test_model_file_keeps_which_bands_were_left_out(tmp_path, wavelength):
    scene, labels = made(wavelength=wavelength)
    scene = without(scene, 0)
    if wavelength is not None:
        scene = scene.assign_coords(fwhm=("band", np.full(6, 9.0)))
    model = train(scene, labels, epochs=3)
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert again.spectral == model.spectral
    assert again.spectral.fwhm == (None if wavelength is None else (9.0,) * 5)
    assert (map_scene(again, scene).values == map_scene(model, scene).values).all()


def test_bands_of_a_scene_without_wavelengths_are_found_by_their_numbers():
    scene, labels = made(wavelength=None)
    model = train(without(scene, 2), labels, epochs=5)
    viewed = model.view(scene)  # the same sensor on a day when band 3 worked
    assert np.array_equal(viewed.array.values, scene.isel(band=[0, 1, 3, 4, 5]).values)


def test_scene_with_more_bands_in_another_order_gives_the_same_map():
    scene, labels = made()
    part = scene.isel(band=[1, 2, 4])
    model = train(part, labels, epochs=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed = map_scene(model, scene.isel(band=[5, 4, 3, 2, 1, 0]))
    assert (mixed.values == map_scene(model, part).values).all()


def test_bands_half_a_width_away_are_interpolated_and_told():
    ramp = np.linspace(0, 1, 6, dtype=np.float32)
    scene = xr.DataArray(np.tile(ramp, (2, 2, 1)), dims=("y", "x", "band"))
    scene = scene.assign_coords(wavelength=("band", NM))
    bands = TrainingBands(count=3, wavelength=(580.0, 680.0, 780.0), fwhm=(80.0, 80.0, 80.0))
    model = SceneModel(None, 1, Classes.of(()), bands)
    with pytest.warns(PolyadWarning, match=r"3 of 3 bands are interpolated .* up to 30.0 nm"):
        viewed = model.view(scene)
    assert viewed.array.values[0, 0] == pytest.approx(0.2 * (np.array([580, 680, 780]) - 450) / 100)
    assert model.view(viewed) is viewed


def test_interpolated_pixel_without_data_in_one_of_two_bands_has_none():
    values = np.ones((1, 2, 2), np.int16)
    values[0, 1, 1] = -9
    scene = xr.DataArray(values, dims=("y", "x", "band"), attrs={"_FillValue": -9})
    scene = scene.assign_coords(wavelength=("band", [500.0, 510.0]))
    match = match_bands(np.array([504.0]), np.array([10.0]), scene["wavelength"].values)
    viewed = scene_in_bands(Scene.of(scene), match, np.array([504.0])).array
    assert np.array_equal(viewed.values, [[[1.0], [np.nan]]], equal_nan=True)


def test_interpolated_scene_keeps_its_place():
    from affine import Affine

    from polyad.scene import grid_of, scene_from_array

    transform = Affine(30, 0, 5e5, 0, -30, 4e6)
    nm = np.array([500.0, 510.0])
    scene = scene_from_array(np.ones((3, 2, 2)), wavelength=nm, crs=32633, transform=transform)
    match = match_bands(np.array([504.0]), np.array([10.0]), nm)
    assert scene_in_bands(Scene.of(scene), match, np.array([504.0])).grid == grid_of(scene)


@given(
    centers=st.lists(st.integers(400, 2500), min_size=2, max_size=40, unique=True),
    data=st.data(),
)
@settings(deadline=None)
def test_any_choice_and_order_of_bands_is_found_again(centers, data):
    chosen = data.draw(st.lists(st.sampled_from(centers), min_size=1, unique=True))
    wanted, have = np.array(chosen, float), np.array(centers, float)
    match = match_bands(wanted, band_widths(wanted, None), have)
    assert (have[match.first] == wanted).all()
    assert match.interpolated == 0
    assert match.shift == 0


@given(shift=st.floats(-4.9, 4.9), width=st.just(10.0))
def test_interpolation_is_exact_for_a_straight_spectrum(shift, width):
    have = np.arange(400.0, 500.0, 10.0)
    wanted = have[1:-1] + shift
    match = match_bands(wanted, np.full(len(wanted), width), have)
    made_up = (1 - match.share) * have[match.first] + match.share * have[match.second]
    tolerance = 1e-9 if abs(shift) > 1 else 1.0  # within a tenth of the width: as it is
    assert np.abs(made_up - wanted).max() <= tolerance


def test_band_half_a_width_or_more_away_is_refused_with_both_ranges():
    with pytest.raises(SceneMismatch, match=r"400 to 500 nm\), scene has 2 \(405 to 500 nm\)"):
        match_bands(np.array([400.0, 500.0]), np.array([10.0, 10.0]), np.array([405.0, 500.0]))


def test_select_bands_keeps_some_wavelengths_and_drops_others():
    scene = select_bands(made()[0], "500-900", drop_nm="640-660")
    assert scene["wavelength"].values.tolist() == [550, 750, 850]
    assert Bands.of(scene).note == ("3 of 6: 1 (450 nm), 3 (650 nm), 6 (950 nm) not chosen")


@pytest.mark.parametrize("text", ["", "400", "900-400", "400-900;", "400-", "a-b", "4..0-5"])
def test_ranges_that_cannot_be_understood_are_refused(text):
    with pytest.raises(InputError, match="400-1300,1450-1800"):
        parse_ranges(text)


def test_no_band_left_is_told_with_the_range():
    with pytest.raises(
        SceneError, match=r"no band of the scene is left of 6: 1-6 \(450-950 nm\) not chosen"
    ):
        select_bands(made()[0], "1000-2000")


def test_scene_without_wavelengths_has_no_bands_to_choose_by_them():
    with pytest.raises(SceneError, match="the scene has none"):
        select_bands(made(wavelength=None)[0], "400-900")


def test_two_bands_of_one_center_are_told_apart_by_their_numbers():
    nm = NM.copy()
    nm[3] = nm[2]  # a rounded header
    scene, labels = made(wavelength=nm)
    chosen = select_bands(scene, "500-900")
    model = train(chosen, labels, epochs=20)
    assert model.learned_from(scene)
    assert (map_scene(model, scene).values == map_scene(model, chosen).values).all()


def test_two_bands_that_would_be_one_of_another_scene_are_refused():
    with pytest.raises(SceneMismatch, match=r"at 500.0 and 504.0 nm, are nearest to one band"):
        match_bands(np.array([500.0, 504.0]), np.array([10.0, 10.0]), np.array([502.0, 600.0]))


def test_band_without_data_in_another_scene_leaves_a_warning_and_no_class(tmp_path):
    from polyad import map_file

    scene, labels = made()
    model = train(scene, labels, preset="fast", epochs=3)
    with pytest.warns(PolyadWarning, match="no pixel of the map has a class"):
        assert map_file(model, without(scene, 2), tmp_path / "map.npy") == 0
    assert map_file(model, scene, tmp_path / "map.npy") == 400
