import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from xarray.backends import BackendArray
from xarray.core import indexing

from polyad.errors import InputError
from polyad.scene.raster.windows import extract_patches, interior, reflect_index


def bounce(index: int, size: int) -> int:
    """Slow reference: walk step by step from 0, turning round at either end."""
    position, direction = 0, 1
    for _ in range(abs(index)):  # reflection at 0 makes the walk to -i the walk to +i
        if size == 1:
            return 0
        if not 0 <= position + direction < size:
            direction = -direction
        position += direction
    return position


class Recording(BackendArray):
    """A lazy array that remembers which windows were read of it."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.reads = values, values.shape, values.dtype, []

    def __getitem__(self, key):
        def read(where):
            self.reads.append(self.values[where].shape)
            return self.values[where]

        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, read
        )


def lazy(values):
    backend = Recording(values)
    variable = xr.Variable(("y", "x", "band"), indexing.LazilyIndexedArray(backend))
    return xr.DataArray(variable), backend


@settings(deadline=None)
@given(index=st.integers(-200, 200), size=st.integers(1, 12))
def test_reflect_index_equals_a_walk_that_turns_round_at_both_ends(index, size):
    assert reflect_index(index, size) == bounce(index, size)


@settings(deadline=None, max_examples=50)
@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    window=st.sampled_from([1, 3, 5, 7]),
    seed=st.integers(0, 10**6),
)
def test_every_patch_entry_is_the_reflected_pixel(height, width, window, seed):
    rng = np.random.default_rng(seed)
    cube = rng.normal(size=(height, width, 3))
    rows, cols = rng.integers(height, size=6), rng.integers(width, size=6)
    patches = extract_patches(cube, rows, cols, window)
    half = window // 2
    for k in range(6):
        for i in range(window):
            for j in range(window):
                r, c = bounce(rows[k] + i - half, height), bounce(cols[k] + j - half, width)
                np.testing.assert_array_equal(patches[k, i, j], cube[r, c])


def test_lazy_scene_gives_the_same_patches_as_the_array():
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(300, 280, 4)).astype(np.float32)
    rows, cols = rng.integers(300, size=200), rng.integers(280, size=200)
    scene, _ = lazy(cube)
    expected = extract_patches(cube, rows, cols, 5)
    np.testing.assert_array_equal(extract_patches(scene, rows, cols, 5), expected)
    chunked = xr.DataArray(cube, dims=("y", "x", "band")).transpose("band", "y", "x")
    np.testing.assert_array_equal(extract_patches(chunked, rows, cols, 5), expected)
    assert extract_patches(scene, rows, cols, 5).dtype == np.float32


def test_dask_chunks_give_the_same_patches():
    pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(50, 40, 2))
    scene = xr.DataArray(cube, dims=("y", "x", "band")).chunk(y=16, x=7)
    rows, cols = np.array([0, 15, 16, 49, 49]), np.array([0, 6, 7, 39, 0])
    np.testing.assert_array_equal(
        extract_patches(scene, rows, cols, 5), extract_patches(cube, rows, cols, 5)
    )


def test_lazy_scene_is_read_only_around_the_asked_pixels():
    scene, backend = lazy(np.zeros((1000, 1000, 3)))
    extract_patches(scene, [10, 12, 990], [20, 25, 990], window=5)
    assert sorted(backend.reads) == [(5, 5, 3), (7, 10, 3)]


def test_interior_is_where_reflection_changes_nothing():
    cube = np.arange(7 * 6).reshape(7, 6, 1)
    rows, cols = (a.ravel() for a in np.indices((7, 6)))
    whole = interior(rows, cols, cube.shape, 5)
    assert whole.sum() == (7 - 4) * (6 - 4)
    padded = np.pad(cube, ((2, 2), (2, 2), (0, 0)), constant_values=-1)
    patches = extract_patches(padded, rows + 2, cols + 2, 5)
    assert ((patches >= 0).all(axis=(1, 2, 3)) == whole).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 4}, "window must be an odd positive number of pixels, got 4"),
        ({"rows": [9]}, r"pixel \(row 9, col 3\) lies outside the scene of 9 rows and 8 columns"),
        ({"cube": np.zeros((9, 8))}, r"an array \(height, width, bands\), got shape \(9, 8\)"),
        (
            {"cube": xr.DataArray(np.zeros((9, 8, 2)), dims=("up", "across", "band"))},
            r"expected a scene with dims \(y, x, band\), got dims \(up, across, band\)",
        ),
    ],
)
def test_bad_input_gets_one_clear_sentence(change, message):
    good = {"cube": np.zeros((9, 8, 2)), "rows": [4], "cols": [3], "window": 5}
    with pytest.raises(InputError, match=message):
        extract_patches(**{**good, **change})
