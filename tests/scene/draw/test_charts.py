"""Charts of reports: what their SVG shows is what was measured, in both themes."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import xarray as xr

from polyad.errors import InputError
from polyad.scene.draw.charts import (
    DARK,
    LIGHT,
    ClassSpectra,
    class_spectra,
    reliability_bins,
    reliability_chart,
    spectra_chart,
)
from polyad.scene.raster.classes import ClassInfo

SVG = "{http://www.w3.org/2000/svg}"
AXIS = np.array([400.0, 500.0, 600.0, np.nan, 900.0, 1000.0])


@pytest.fixture
def spectra():
    """Two classes of five bands, with a gap, one of them with a name that is markup."""
    means = np.array([[1.0, 2, 3, np.nan, 2, 1], [3.0, 3, 3, np.nan, 3, 3]])
    classes = [ClassInfo(1, "Corn <b>", "#332288"), ClassInfo(2, "Soil", "#EE7733")]
    return ClassSpectra(classes, AXIS, means, 0.1 + 0 * means, "wavelength (nm)")


def points(path):
    """Return the stretches of a path, each as an array of points."""
    return [
        np.array([pair.split(",") for pair in stretch.split("L")], float)
        for stretch in path.split("M")[1:]
    ]


def lines(svg):
    """Return the lines of the classes, the thick ones."""
    paths = ET.fromstring(svg).iter(f"{SVG}path")
    return [path for path in paths if path.get("stroke-width") == "1.7"]


def test_a_spectrum_is_drawn_to_scale_and_not_across_a_gap(spectra):
    first, second = (points(line.get("d")) for line in lines(spectra_chart(spectra)))
    assert [len(stretch) for stretch in first] == [3, 2]
    across, up = np.concatenate(first).T
    there = np.isfinite(AXIS)
    for drawn, true in ((across, AXIS[there]), (up, spectra.means[0][there])):
        slope, offset = np.polyfit(true, drawn, 1)
        np.testing.assert_allclose(slope * true + offset, drawn, atol=0.1)
    assert np.ptp(np.concatenate(second)[:, 1]) == 0


def test_numbers_at_the_axes_stand_where_they_belong(spectra):
    svg = ET.fromstring(spectra_chart(spectra))
    assert "1 Corn <b>" in [text.text for text in svg.iter(f"{SVG}text")]  # no markup
    side = {t.text: float(t.get("y")) - 4 for t in svg.iter(f"{SVG}text") if t.get("x") == "-6.0"}
    assert {"1", "2", "3"} <= set(side)
    flat = points(lines(spectra_chart(spectra))[1].get("d"))[0][0, 1]
    assert side["3"] == pytest.approx(flat, abs=0.2)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_charts_have_the_colors_of_their_theme(spectra, theme):
    charts = spectra_chart(spectra, theme), reliability_chart([0.9], [True], theme=theme)
    for chart in charts:
        colors = {text.get("fill") for text in ET.fromstring(chart).iter(f"{SVG}text")}
        assert colors == {theme.ink}
    dark_blue = lines(charts[0])[0].get("stroke")
    brightness = [int(dark_blue[k : k + 2], 16) for k in (1, 3, 5)] @ np.array([0.21, 0.72, 0.07])
    assert (brightness > 110) == theme.dark  # it would not be seen on a dark page


def test_reliability_is_drawn_at_its_bins():
    sure, right = [0.91, 0.95, 0.15, 0.11], [True, True, False, True]
    _, mean, accuracy = reliability_bins(sure, right)
    svg = ET.fromstring(reliability_chart(sure, right))
    drawn = [(float(c.get("cx")), float(c.get("cy"))) for c in svg.iter(f"{SVG}circle")]
    wanted = np.c_[350 * mean, 260 * (1 - accuracy)]
    np.testing.assert_allclose(drawn, wanted, atol=0.1)


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_class_of_one_band_and_one_value_is_drawn(value):
    one = np.full((1, 1), value)
    spectra = ClassSpectra([ClassInfo(1, "a", "#112233")], np.array([7.0]), one, 0 * one, "band")
    assert not re.search(r"nan|inf", spectra_chart(spectra))


def scene_of(wavelength, **attrs):
    values = np.random.default_rng(0).normal(100, 10, (20, 30, 8)).astype("float32")
    scene = xr.DataArray(values, dims=("y", "x", "band"), attrs=attrs)
    return scene if wavelength is None else scene.assign_coords(wavelength=("band", wavelength))


LABELS = xr.DataArray(np.random.default_rng(1).integers(0, 4, (20, 30)), dims=("y", "x"))


def test_spectra_are_the_means_of_their_classes_in_order_of_wavelength():
    scene = scene_of([500, 400, 600, 700, 800, 900, 1000, 1100])
    found = class_spectra(scene, LABELS)
    expected = scene.values[LABELS.values == 2].mean(axis=0)[[1, 0, 2, 3, 4, 5, 6, 7]]
    np.testing.assert_allclose(found.means[1], expected, rtol=1e-6)
    np.testing.assert_array_equal(found.axis, np.arange(400, 1101, 100))
    assert found.name == "wavelength (nm)"


def test_no_line_is_drawn_across_bands_that_were_left_out():
    found = class_spectra(scene_of([400, 410, 420, 430, 900, 910, 920, 930]), LABELS)
    assert np.flatnonzero(np.isnan(found.means[0])).tolist() == [4]


def test_spectra_without_wavelengths_count_bands_and_skip_nodata():
    scene = scene_of(None, _FillValue=-1.0)
    scene.values[:, :5, 2] = -1.0
    found = class_spectra(scene, LABELS)
    assert found.name == "band number"
    assert found.means.min() > 90
    with pytest.raises(InputError, match="no labeled pixel"):
        class_spectra(scene, LABELS * 0)
