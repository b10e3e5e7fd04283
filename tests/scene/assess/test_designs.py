"""Sizes, allocations and draws of samples."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.errors import InputError, PolyadWarning
from polyad.scene.assess.sample import (
    ALLOCATIONS,
    accuracy_deviations,
    accuracy_error,
    allocate,
    allocation_shares,
    draw_pixels,
    draw_sample,
    parse_by_stratum,
    size_for_error,
)
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.scene import as_labels, lazy_scene

MAPPED = (200_000, 150_000, 3_200_000, 6_450_000)  # Olofsson et al. (2014), section 5.1
EXPECTED = (0.7, 0.6, 0.9, 0.95)


def raster(ids):
    return xr.DataArray(np.asarray(ids, np.uint16), dims=("y", "x"))


def fields():
    """Three classes of 3000, 800 and 200 pixels, and a corner without any."""
    ids = np.repeat([1, 2, 3, 0], [3000, 800, 200, 1000])
    table = [ClassInfo(k, name, "") for k, name in enumerate(("Corn", "Oats", "Rye"), start=1)]
    return with_classes(raster(np.random.default_rng(5).permutation(ids).reshape(50, 100)), table)


@pytest.mark.parametrize("rest", [1e-30, 1e-6, 1.0])
def test_deviations_far_apart_still_give_as_many_points_as_asked_for(rest):
    drawn = draw_sample(
        fields(), 60, allocation="optimal", deviations={"Corn": 1e30, "Oats": rest, "Rye": rest}
    )
    assert len(drawn) == 60


# -- how many --------------------------------------------------------------------------------------


def test_the_example_of_olofsson_takes_641_points_and_shares_them_out_as_the_paper_does():
    assert size_for_error(0.01, MAPPED, accuracy_deviations(EXPECTED)) == 641
    proportional, equal = (
        allocation_shares(rule, MAPPED, [1] * 4) for rule in ("proportional", "equal")
    )
    assert allocate(641, proportional, MAPPED).tolist() == [13, 10, 205, 413]
    assert allocate(641, equal, MAPPED).tolist() == [
        161,
        160,
        160,
        160,
    ]  # the one left over is the first's
    # Rare classes get their minimum, the others the rest by area
    assert allocate(641, proportional, MAPPED, minimum=100).tolist() == [100, 100, 146, 295]


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_the_size_gives_the_error_that_was_asked_for(allocation):
    spread = accuracy_deviations(EXPECTED)
    size = size_for_error(0.01, MAPPED, spread, allocation)
    counts = size * allocation_shares(allocation, MAPPED, spread)
    assert accuracy_error(MAPPED, spread, counts) == pytest.approx(0.01, rel=2e-3)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=12), st.integers(2, 40), st.data())
def test_points_are_shared_out_without_rest(shares, minimum, data):
    size = data.draw(st.integers(minimum * len(shares), 3000))
    own = np.array(shares) / sum(shares)
    counts = allocate(size, own, [10**6] * len(own), minimum)
    assert counts.sum() == size
    assert counts.min() >= minimum
    if (own * size >= minimum).all():
        assert np.abs(counts - own * size).max() < 1 + 1e-6


# -- which -----------------------------------------------------------------------------------------


def plain_draw(ids, counts, strata, rng):
    """Number the pixels of each stratum, and pick numbers."""
    flat = strata.to_numpy().ravel()
    drawn = []
    for value, n in zip(ids, counts, strict=True):
        own = np.flatnonzero(flat == value)
        drawn.append(own[np.sort(rng.choice(len(own), n, replace=False))])
    return np.stack(np.unravel_index(np.concatenate(drawn), strata.shape), axis=1)


@pytest.mark.parametrize("strip", [1, 100, 730, 10**6])
def test_a_draw_by_strips_is_that_of_the_whole_raster(strip):
    land = fields()
    got = draw_pixels(
        land, [1, 2, 3], [50, 40, 30], np.random.default_rng(3), strip_pixels=strip
    )  # fmt: skip
    wanted = plain_draw([1, 2, 3], [50, 40, 30], land, np.random.default_rng(3))
    assert got.tolist() == wanted.tolist()


def test_strata_are_drawn_only_where_the_map_has_a_class():
    land = raster([[0, 0, 1, 1]] * 5)
    pixels = draw_pixels(raster(np.ones((5, 4))), [1], [10], np.random.default_rng(0), where=land)
    assert pixels[:, 1].min() == 2


# -- from a map ------------------------------------------------------------------------------------


def test_points_come_in_no_order_of_their_strata():
    strata = [info.value for info in draw_sample(fields(), 300).strata]
    assert strata != sorted(strata)


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_margin_is_reached_also_with_a_minimum(allocation):
    sample = draw_sample(fields(), margin=0.05, allocation=allocation, minimum=40)
    assert 0.049 < sample.margin <= 0.05
    assert min(points for *_, points, _ in sample.allocation) >= 40


def test_deviations_take_the_place_of_accuracies():
    sample = draw_sample(
        fields(), 200, allocation="optimal", deviations={"Corn": 0.1, "Oats": 0.3, "Rye": 0.4}
    )
    weights = np.array([3000 * 0.1, 800 * 0.3, 200 * 0.4])
    counts = [points for *_, points, _ in sample.allocation]
    assert counts == pytest.approx(200 * weights / weights.sum(), abs=1)


def test_strata_of_their_own_are_drawn_from():
    halves = raster(np.repeat([[1] * 50 + [2] * 50], 50, axis=0))
    sample = draw_sample(fields(), 100, strata=halves, allocation="equal")
    assert [(info.value, n) for info, _, n, _ in sample.allocation] == [(1, 50), (2, 50)]
    assert {info.name for info in sample.mapped} <= {"Corn", "Oats", "Rye"}


def test_pixels_of_the_map_in_no_stratum_are_told():
    half = raster(np.repeat([[1] * 50 + [0] * 50], 50, axis=0))
    with pytest.warns(PolyadWarning, match="pixels of the map lie in no stratum"):
        sample = draw_sample(fields(), 20, strata=half)
    assert sample.pixels[:, 1].max() < 50


def test_a_sample_says_how_its_size_came_about():
    text = str(draw_sample(fields(), margin=0.03, allocation="optimal"))
    assert "A margin of 0.03 is 1.96 standard errors of 0.0153" in text
    assert "Olofsson et al. 2014, Eq. 13" in text
    assert "so optimal is proportional" in text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"size": 9, "margin": 0.1}, "expected a size or a margin of error"),
        ({"size": 99, "deviations": 0.5, "accuracy": 0.5}, "expected one of the two, got both"),
        ({"size": 99, "minimum": 1}, "minimum must be at least 2, got 1"),
        ({"size": 99, "accuracy": 80.0}, "between 0 and 1, got .80.0, .*; give shares"),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        draw_sample(fields(), **given)


@pytest.mark.parametrize("text", ["high", "Corn=", "Corn=much"])
def test_an_accuracy_that_is_no_number_is_refused(text):
    with pytest.raises(InputError, match=r"expected a number such as 0.8, or Corn=0.9"):
        parse_by_stratum([text])


class Endless:
    """A map that is made as it is read: 36 million pixels, eight bytes each where counted."""

    path, shape, dtype = "made", (6000, 6000, 1), np.dtype(np.uint8)

    def read(self, rows, cols, bands):
        ids = np.arange(rows.start, rows.stop)[:, None] + np.arange(cols.start, cols.stop)
        return (ids % 3 + 1).astype(np.uint8)[..., None]


def test_memory_is_bounded_by_a_strip_of_the_map():
    land = as_labels(lazy_scene(Endless()))
    tracemalloc.start()
    try:
        sample = draw_sample(land, 300)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(sample) == 300
    assert peak < 36e6 * 4  # a whole map in eight bytes takes 288 MB


def test_numbers_for_all_strata_and_for_one_do_not_mix():
    with pytest.raises(InputError, match="one number for all strata, or one for each by name"):
        parse_by_stratum(["Corn=0.9", "0.8"])
