"""Files and models that the tests of several commands share."""

import numpy as np
import pytest

from land import QUICK, pixels, run, truth, write_csv, write_envi, write_geojson, write_tiff


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with one scene in several kinds, labels in several kinds, and a model."""
    folder = tmp_path_factory.mktemp("land")
    for interleave in ("bsq", "bil"):
        write_envi(folder / f"{interleave}.hdr", pixels(), interleave)
    write_tiff(folder / "scene.tif", pixels())
    np.save(folder / "scene.npy", pixels())
    write_geojson(folder / "labels.geojson")
    write_csv(folder / "labels.csv")
    write_tiff(folder / "truth.tif", truth(), dtype="uint8")
    run(
        "train", folder / "bil.hdr", folder / "labels.geojson", "--out", folder / "m.polyad", *QUICK
    )
    return folder


@pytest.fixture(scope="session")
def best(place, tmp_path_factory):
    """A model of the best preset, made for this one scene."""
    path = tmp_path_factory.mktemp("best") / "best.polyad"
    run("train", place / "bil.hdr", place / "labels.csv", "--preset", "best", "--out", path)
    return path
