from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
import rioxarray  # noqa: F401
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.image import imread

from polyad.errors import InputError, SceneMismatch
from polyad.scene.draw.color import BLANK, class_picture, color_bands, false_color
from polyad.scene.draw.figures import (
    comparison,
    map_figure,
    to_png,
)
from polyad.scene.raster.classes import ClassInfo, palette, with_classes

CLASSES = [ClassInfo(k + 1, f"class number {k + 1}", c) for k, c in enumerate(palette(3))]


def make_scene(
    shape: tuple[int, int, int] = (20, 30, 8), wavelength: npt.ArrayLike | None = None
) -> xr.DataArray:
    values = np.random.default_rng(0).normal(100, 10, shape).astype("float32")
    scene = xr.DataArray(values, dims=("y", "x", "band"))
    if wavelength is None:
        return scene
    return scene.assign_coords(wavelength=("band", np.asarray(wavelength, dtype=float)))


def make_labels(shape: tuple[int, int] = (20, 30)) -> xr.DataArray:
    ids = np.random.default_rng(1).integers(0, 4, shape)
    return with_classes(xr.DataArray(ids, dims=("y", "x")), CLASSES)


def texts(figure: Figure) -> list[str]:
    found = [axes.get_title(loc) for axes in figure.axes for loc in ("center", "left")]
    found += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return [text for text in found if text]


def overlapping_labels(figure: Figure) -> list[tuple[str, str]]:
    to_png(figure)  # lays the figure out
    texts = [t for axes in figure.axes for t in [axes.title, *axes.texts] if t.get_text()]
    texts += [t for legend in figure.legends for t in legend.get_texts()]
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts]
    return [
        (a, b)
        for k, (a, box) in enumerate(boxes)
        for b, other in boxes[:k]
        if box.overlaps(other)
    ]  # fmt: skip


def test_false_color_takes_near_infrared_red_and_green() -> None:
    scene = make_scene(wavelength=[450, 550, 645, 660, 760, 858, 1600, 2200])
    assert color_bands(scene) == (5, 2, 1)
    assert color_bands(scene, true_color=True) == (2, 1, 0)


def test_false_color_stretches_between_percentiles() -> None:
    ramp = np.linspace(0, 1, 101, dtype="float32").reshape(1, 101, 1).repeat(3, axis=2)
    picture = false_color(xr.DataArray(ramp, dims=("y", "x", "band")), bands=(0, 1, 2))
    assert picture.shape == (1, 101, 3)
    assert picture.dtype == np.uint8
    assert picture[0, :3].max() == 0
    assert picture[0, 98:].min() == 255
    assert (np.diff(picture[0, :, 0].astype(int)) >= 0).all()


@pytest.mark.parametrize("missing", [np.nan, -9999.0, np.inf])
def test_pixels_without_measurement_are_blank_and_do_not_stretch(missing: float) -> None:
    scene = make_scene()
    clean = false_color(scene)
    scene.values[0, 0] = missing
    scene = scene.assign_attrs(_FillValue=-9999.0)
    picture = false_color(scene)
    assert tuple(picture[0, 0]) == BLANK
    assert np.abs(picture[1:].astype(int) - clean[1:]).max() <= 3


def test_band_outside_the_scene_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 7"):
        false_color(make_scene(), bands=(0, 1, 8))


def test_class_picture_shows_each_class_in_its_color() -> None:
    picture = class_picture(np.array([[1, 2], [0, 3]]), CLASSES)
    assert "#{:02X}{:02X}{:02X}".format(*picture[0, 1]) == CLASSES[1].color
    assert tuple(picture[1, 0]) == BLANK


def test_comparison_names_every_class_and_panel() -> None:
    figure = comparison(make_scene(), make_labels(), make_labels(), map_title="Map of ten labels")
    found = texts(figure)
    assert {"False color", "Ground truth", "Map of ten labels", "no class"} <= set(found)
    assert {f"{c.value} {c.name}" for c in CLASSES} <= set(found)


@pytest.mark.parametrize("shape", [(145, 145), (30, 200), (200, 30), (610, 340)])
def test_no_text_lies_over_another(shape: tuple[int, int]) -> None:
    many = [ClassInfo(k + 1, "Grass-pasture-mowed" * (k % 2) + str(k), c)
            for k, c in enumerate(palette(16))]  # fmt: skip
    labels = with_classes(make_labels(shape), many)
    figure = comparison(make_scene((*shape, 3)), labels, labels, map_title="Map, 92.31 % right")
    assert overlapping_labels(figure) == []


def test_comparison_of_another_scene_is_refused() -> None:
    with pytest.raises(SceneMismatch, match=r"map of .*\(20, 30\).*got \(10, 30\)"):
        comparison(make_scene(), make_labels(), make_labels((10, 30)))


def test_large_map_is_thinned() -> None:
    ids = xr.DataArray(np.ones((6000, 100), dtype="uint8"), dims=("y", "x"))
    image = map_figure(with_classes(ids, CLASSES)).axes[0].get_images()[0]
    assert image.get_array().shape[0] == 1500  # type: ignore[union-attr]


def test_map_in_meters_has_a_scale_bar_of_round_length() -> None:
    labels = make_labels((100, 100)).assign_coords(
        y=4_000_000 - 30.0 * np.arange(100), x=500_000 + 30.0 * np.arange(100)
    )
    figure = map_figure(labels.rio.write_crs("EPSG:32616"))
    assert [t.get_text() for t in figure.axes[0].texts] == ["500 m"]


def test_png_is_a_picture() -> None:
    picture = imread(io.BytesIO(to_png(map_figure(make_labels(), "A map"))))
    assert picture.ndim == 3
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 5


def test_pyplot_and_its_global_state_are_left_alone() -> None:
    code = "import sys, polyad.scene.draw.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
