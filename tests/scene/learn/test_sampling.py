import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polyad.errors import InputError, SceneMismatch
from polyad.scene.learn.sampling import blocks, fraction, from_labels, no_overlap, per_class
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.scenes import open_known_labels

seeds = st.integers(0, 10**6)
rasters = hnp.arrays(
    np.uint16, st.tuples(st.integers(4, 20), st.integers(4, 20)), elements=st.integers(0, 3)
).map(lambda a: np.where(np.isin(a, [v for v in range(4) if (a == v).sum() > 1]), a, 0))
labeled = rasters.filter(lambda a: a.any())


@pytest.fixture(scope="module")
def indian_pines():
    return open_known_labels("indian-pines")


def pixels(rows):
    return {tuple(p) for p in rows.tolist()}


def no_overlap_slowly(split, window):
    """Slow reference: list the pixels of every window and look for common ones."""
    half = window // 2
    offsets = [(i, j) for i in range(-half, half + 1) for j in range(-half, half + 1)]
    seen = {(r + i, c + j) for r, c in split.train.tolist() for i, j in offsets}
    return [all((r + i, c + j) not in seen for i, j in offsets) for r, c in split.test.tolist()]


@settings(deadline=None)
@given(labels=labeled, n=st.integers(1, 12), seed=seeds)
def test_per_class_takes_n_or_half_and_tests_on_all_others(labels, n, seed):
    split = per_class(labels, n, seed)
    train, test = split.classes_of(labels)
    assert (train > 0).all()
    assert (test > 0).all()
    assert not pixels(split.train) & pixels(split.test)
    for value in np.unique(labels[labels > 0]):
        size = int((labels == value).sum())
        wanted = n if size > n else max(size // 2, 1)
        assert (train == value).sum() == wanted
        assert (test == value).sum() == size - wanted


@settings(deadline=None)
@given(labels=labeled, share=st.floats(0.01, 0.99), seed=seeds)
def test_fraction_takes_its_share_of_each_class(labels, share, seed):
    split = fraction(labels, share, seed)
    train, test = split.classes_of(labels)
    assert pixels(split.train) | pixels(split.test) == pixels(np.argwhere(labels))
    assert not pixels(split.train) & pixels(split.test)
    for value in np.unique(labels[labels > 0]):
        size = int((labels == value).sum())
        taken = (train == value).sum()
        assert 1 <= taken <= size - 1
        assert abs(taken - share * size) <= 1
        assert (test == value).any()


@pytest.mark.filterwarnings("ignore:these classes train")
@settings(deadline=None, max_examples=60)
@given(labels=labeled, seed=seeds, size=st.integers(1, 8), window=st.sampled_from([1, 3, 5]))
def test_blocks_share_no_window_and_train_every_class(labels, seed, size, window):
    try:
        split = blocks(labels, 0.5, seed, size=size, window=window)
    except InputError as error:
        assert "no test pixel is left outside the training blocks" in str(error)  # noqa: PT017
        return
    assert all(no_overlap_slowly(split, window))
    train, test = split.classes_of(labels)
    assert set(train) == set(np.unique(labels[labels > 0]))
    assert (test > 0).all()
    assert not pixels(split.train // size) & pixels(split.test // size)


@settings(deadline=None, max_examples=60)
@given(labels=labeled, seed=seeds, window=st.sampled_from([1, 3, 5, 7]))
def test_no_overlap_equals_comparing_windows_pixel_by_pixel(labels, seed, window):
    split = per_class(labels, 1, seed)
    mask = no_overlap(split, labels.shape, window)
    assert mask.tolist() == no_overlap_slowly(split, window)


def test_indian_pines_oats_give_half_as_in_the_paper(indian_pines):
    for n in (10, 50):
        train, test = per_class(indian_pines, n, 0).classes_of(indian_pines)
        assert (train == 9).sum() == 10
        assert (test == 9).sum() == 10
    assert (train == 1).sum() == 23  # Alfalfa: 46 pixels, fewer than 50
    assert (train == 16).sum() == 50


@pytest.mark.parametrize(("n", "touching"), [(10, 0.50), (50, 0.90)])
def test_share_of_indian_pines_test_pixels_that_touch_training(indian_pines, n, touching):
    split = per_class(indian_pines, n, 0)
    apart = no_overlap(split, indian_pines.shape, 5)
    assert 1 - apart.mean() == pytest.approx(touching, abs=0.05)


def test_blocks_split_indian_pines_and_keep_about_the_share(indian_pines):
    with pytest.warns(UserWarning, match="no test pixel left: .*9 'Oats'; their"):
        split = blocks(indian_pines, 0.3, random_state=1)
    assert no_overlap(split, indian_pines.shape, 5).all()
    train, test = split.classes_of(indian_pines)
    assert set(train) == set(range(1, 17))
    assert 0.2 < len(train) / (indian_pines.values > 0).sum() < 0.45
    assert len(test) > 2000


def test_drop_leaves_out_pixels_whose_window_leaves_the_scene():
    labels = np.ones((9, 9), dtype=int)
    split = per_class(labels, 5, 0, border="drop", window=5)
    both = np.concatenate([split.train, split.test])
    assert len(both) == 25
    assert both.min() == 2
    assert both.max() == 6


@pytest.mark.parametrize(
    ("train", "test", "error", "message"),
    [
        ([[1, 0]], [[1, 0]], InputError, "1 pixels are labeled .* first at row 0, col 0"),
        ([[1, 0]], [[0, 2]], SceneMismatch, "class 2, which has no training pixel"),
        ([[1, 0]], [[0], [1]], SceneMismatch, r"are \(1, 2\) pixels and test labels \(2, 1\)"),
        ([[1, 0]], [[0, 0]], InputError, "the test labels hold no labeled pixel"),
    ],
)
def test_from_labels_refuses_rasters_that_do_not_fit(train, test, error, message):
    with pytest.raises(error, match=message):
        from_labels(np.array(train), np.array(test))


def test_a_class_with_one_pixel_is_named_with_a_remedy():
    labels = xr.DataArray(np.array([[1, 1, 2]], dtype=np.uint16), dims=("y", "x"))
    labels = with_classes(
        labels, [ClassInfo(1, "Corn", "#000000"), ClassInfo(2, "Oats", "#FFFFFF")]
    )
    for draw in (lambda a: per_class(a, 1, 0), lambda a: fraction(a, 0.5, 0)):
        with pytest.raises(InputError, match=r"class 2 'Oats' has 1 labeled pixel, but at least 2"):
            draw(labels)
    remedied = labels.where(labels != 2, 0)  # the remedy that the message gives
    assert len(per_class(remedied, 1, 0).train) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: per_class(a, 0, 0), "n must be a whole number of at least 1, got 0"),
        (lambda a: per_class(a, 1, 0, border="x"), "border must be 'reflect' or 'drop', got 'x'"),
        (lambda a: per_class(a, 1, 0, window=2), "window must be an odd"),
        (lambda a: per_class(a * 0, 1, 0), "no pixel is labeled"),
        (lambda a: per_class(a * 1.5, 1, 0), "labels must be a 2-D integer raster .* float64"),
        (lambda a: per_class(-a, 1, 0), "class ids must be 0 .* got -1"),
        (lambda a: fraction(a, 1.0, 0), "share must lie between 0 and 1, both excluded, got 1.0"),
        (lambda a: blocks(a, 0, 0), "share must lie between 0 and 1"),
        (lambda a: blocks(a, 0.5, 0, size=0), "size must be a whole number"),
        (lambda a: blocks(a, 0.5, 0, n=0), "n must be a whole number"),
    ],
)
def test_bad_input_gets_one_clear_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call(np.ones((6, 6), dtype=int))
