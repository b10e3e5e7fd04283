"""Models of values that several tests share."""

import pytest
from plots import QUICK, measured, scene, write_geojson, write_plots, write_scene

from polyad.scene import train_regression


@pytest.fixture(scope="session")
def model():
    """Two targets, windows of 3 x 3 pixels."""
    return train_regression(scene(), measured(), window=3, **QUICK)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with the scene, and its plots in two kinds of file."""
    folder = tmp_path_factory.mktemp("plots")
    write_scene(folder / "scene.tif")
    write_plots(folder / "plots.csv")
    write_plots(folder / "others.csv", n=40, seed=9)
    write_geojson(folder / "plots.geojson")
    return folder
