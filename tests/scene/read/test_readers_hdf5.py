"""HDF5 and MATLAB read within bounds: the values are those of a plain reading."""

import h5py
import numpy as np
import pytest
import scipy.io
from numpy.testing import assert_array_equal

from polyad.errors import SceneError
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.read.formats import emit
from polyad.scene.read.scenes import open_scene

RNG = np.random.default_rng(5)


# Lookup tables


def write_swath(path, swath, line, sample):
    with h5py.File(path, "w") as file:
        file.create_dataset("reflectance", data=swath, chunks=(4, 4, 3), compression="gzip")
        file["location/glt_y"], file["location/glt_x"] = line, sample
    return path


def test_emit_read_in_small_parts_equals_pixel_by_pixel(tmp_path, monkeypatch):
    monkeypatch.setattr(emit, "_BOX_SIDE", 3)
    swath = RNG.random((40, 30, 5)).astype(np.float32)
    line, sample = RNG.integers(-40, 41, (25, 20)), RNG.integers(-30, 31, (25, 20))
    scene = open_scene(write_swath(tmp_path / "e.nc", swath, line, sample), max_bytes=100_000)
    wanted = np.full((25, 20, 5), -9999, np.float32)
    for place in np.ndindex(line.shape):
        if line[place] and sample[place]:
            wanted[place] = swath[abs(line[place]) - 1, abs(sample[place]) - 1]
    assert_array_equal(scene.values, wanted)
    assert_array_equal(scene[3:9, 2:5, [4, 1]].values, wanted[3:9, 2:5][..., [4, 1]])


# Chunks


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip", "shuffle": True, "fletcher32": True},
        {"compression": "gzip"},
        {"compression": "lzf", "shuffle": True},
        {"shuffle": True},
        {},
    ],
)
def test_packed_chunks_come_back_under_a_tight_budget(tmp_path, options):
    values = RNG.integers(0, 9, (20, 20, 12)).astype(np.int16)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        cube = file.create_dataset("cube", (30, 20, 12), "i2", chunks=(8, 8, 5), **options)
        cube[:20] = values  # the last chunks are never written
    scene = open_scene(tmp_path / "s.h5", max_bytes=50_000)
    assert_array_equal(scene[:20].values, values)
    assert not scene[24:].values.any()
    assert_array_equal(scene[3:9, 7:9, 2:7].values, values[3:9, 7:9, 2:7])


# Types of values


@pytest.mark.parametrize("kind", ["f2", "f4", ">f8", "g", "?", "u8", ">i2"])
def test_any_real_type_is_read_in_a_type_that_torch_takes(tmp_path, kind):
    values = RNG.integers(0, 2, (4, 5, 3)).astype(kind)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["cube"] = values
    np.save(tmp_path / "s.npy", values)
    for name in ("s.h5", "s.npy"):
        scene = open_scene(tmp_path / name)
        assert_array_equal(scene.values, values)
        assert scene.dtype.isnative
        assert scene.dtype.itemsize <= 8


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g"])
def test_what_float32_cannot_hold_is_no_measurement(kind):
    with np.errstate(over="ignore"):
        values = np.array([[1, 2], [1e300, 1], [3, -1e300], [np.nan, 0], [6e4, 6e4]]).astype(kind)
    assert valid_pixels(values).tolist() == [True, False, False, False, True]
    assert valid_pixels(values[[0, 4]] * 1.0).all()


# Contents


def test_groups_that_hold_each_other_end(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as file:
        group = file
        for _ in range(40):
            group["root"], group["values"] = file["/"], np.zeros((2, 3))
            group = group.create_group("g")
        group["cube"] = np.ones((2, 3, 4))
        file["other"] = h5py.SoftLink("/nowhere")
    assert open_scene(tmp_path / "s.h5").shape == (2, 3, 4)


def test_a_file_that_has_changed_is_read_anew_and_told_if_it_no_longer_fits(tmp_path):
    for name, write in (
        ("s.h5", lambda path, cube: h5py.File(path, "w").create_dataset("cube", data=cube)),
        ("s.mat", lambda path, cube: scipy.io.savemat(path, {"cube": cube})),
    ):
        path, cube = tmp_path / name, RNG.random((5, 4, 3))
        write(path, cube)
        scene = open_scene(path)
        write(path, cube + 1)
        assert_array_equal(scene.values, cube + 1)
        write(path, cube[:4])
        with pytest.raises(SceneError, match="has changed since it was opened"):
            scene.copy().load()
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(SceneError, match="damaged"):
            scene[:2].load()
