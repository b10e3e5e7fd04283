"""Areas and accuracies: the papers' examples number by number, a plain reference, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.scene.assess.areas import Z95, Shares, estimate_shares, interval

# Olofsson et al. (2014), Table 8: rows are the map, columns the reference; pixels of 30 m.
DEFORESTATION = np.array([[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]])
MAPPED = np.array([200_000, 150_000, 3_200_000, 6_450_000])
# Stehman (2014), Table 2: forty pixels, ten of each stratum.
STRATA = "A" * 10 + "B" * 10 + "C" * 10 + "D" * 10
MAP = "A" * 7 + "B" * 3 + "A" + "B" * 11 + "C" * 6 + "BB" + "D" * 10
REFERENCE = "AAAAACBABC" + "ABBBBBAABB" + "CCCCCDDBBA" + "DDDDDDDCCB"
SIZES = (40_000, 30_000, 20_000, 10_000)


def points(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return map and reference class of each point of an error matrix."""
    rows, cols = np.nonzero(matrix)
    times = matrix[rows, cols]
    return np.repeat(rows, times), np.repeat(cols, times)


def olofsson(finite: bool = False) -> Shares:
    mapped, reference = points(DEFORESTATION)
    return estimate_shares(mapped, mapped, reference, MAPPED, 4, finite=finite)


def stehman(finite: bool = False) -> Shares:
    codes = [[ord(c) - ord("A") for c in text] for text in (STRATA, MAP, REFERENCE)]
    return estimate_shares(*codes, SIZES, 4, finite=finite)


# -- Olofsson et al. (2014), section 5.2 -----------------------------------------------------------


def test_areas_and_accuracies_of_the_deforestation_example_are_the_papers():
    shares = olofsson()
    pixels, half = shares.area * MAPPED.sum(), Z95 * shares.area_se * MAPPED.sum()
    assert pixels.round()[0] == 235_086
    assert (pixels * 0.09).round().tolist() == [21_158, 11_686, 285_770, 581_386]
    # 68,418 of the paper are 1.96 standard errors of 34,907
    assert half[0] == pytest.approx(68_418, abs=2)
    assert (half * 0.09).round().tolist() == [6_158, 3_756, 15_510, 16_281]
    matrix = shares.matrix  # Table 9
    assert matrix[0].round(4).tolist() == [0.0176, 0.0, 0.0013, 0.0011]
    assert matrix.sum(axis=1).tolist() == pytest.approx([0.02, 0.015, 0.32, 0.645])
    assert shares.users.round(2).tolist() == [0.88, 0.73, 0.93, 0.96]
    assert (Z95 * shares.users_se).round(2).tolist() == [0.07, 0.10, 0.04, 0.02]
    assert shares.producers.round(2).tolist() == [0.75, 0.85, 0.93, 0.96]
    assert (Z95 * shares.producers_se).round(2).tolist() == [0.21, 0.25, 0.03, 0.02]
    assert round(shares.overall, 2) == 0.95
    assert round(Z95 * shares.overall_se, 2) == 0.02


# -- Olofsson et al. (2013), example 1 -------------------------------------------------------------


# -- Stehman (2014), section 4 ---------------------------------------------------------------------


@pytest.mark.parametrize("finite", [False, True])
def test_areas_and_accuracies_of_stehmans_example_are_the_papers(finite):
    shares = stehman(finite)
    assert [round(shares.area[k], 3) for k in (0, 2)] == [0.35, 0.20]
    assert [round(shares.area_se[k], 3) for k in (0, 2)] == [0.082, 0.064]
    assert (round(shares.overall, 3), round(shares.overall_se, 3)) == (0.63, 0.085)
    assert (round(shares.users[1], 3), round(shares.users_se[1], 3)) == (0.574, 0.125)
    assert (round(shares.producers[1], 3), round(shares.matrix[1, 2], 3)) == (0.794, 0.08)


def test_stehmans_example_agrees_with_published_software_to_six_figures():
    """What the R package mapaccuracy 0.1.2 (stehman2014) gives, which counts the pixels sampled.

    The standard error of producer's accuracy is quoted from the paper as 0.114; Eq. 28 with the
    paper's own data gives 0.117, here and in other programs.
    """
    shares = stehman(finite=True)
    got = [shares.area_se[0], shares.area_se[2], shares.overall_se, shares.users_se[1]]
    assert got == pytest.approx([0.0822478, 0.06427977, 0.08464219, 0.1247822], rel=1e-6)
    assert shares.producers_se[1] == pytest.approx(0.1165479, rel=1e-6)


# -- a plain reference -----------------------------------------------------------------------------


def plain_mean(values, strata, pixels, finite):
    """Eqs. 3 and 25 of Stehman (2014), in words of one syllable."""
    total, variance = 0.0, 0.0
    for h, size in enumerate(pixels):
        own = [v for v, s in zip(values, strata, strict=True) if s == h]
        mean = sum(own) / len(own)
        spread = sum((v - mean) ** 2 for v in own) / max(len(own) - 1, 1)
        left = 1 - len(own) / size if finite else 1
        total += size * mean
        variance += size**2 * left * spread / len(own)
    return total / sum(pixels), variance**0.5 / sum(pixels)


def plain_ratio(above, below, strata, pixels, finite):
    """Eqs. 27 to 29: variances and covariance apart."""
    y, x = (plain_mean(v, strata, pixels, finite)[0] for v in (above, below))
    if x == 0:
        return np.nan, np.nan
    ratio, variance = y / x, 0.0
    for h, size in enumerate(pixels):
        pairs = [(a, b) for a, b, s in zip(above, below, strata, strict=True) if s == h]
        n = len(pairs)
        means = [sum(p[k] for p in pairs) / n for k in (0, 1)]
        cov = [
            [
                sum((p[i] - means[i]) * (p[j] - means[j]) for p in pairs) / max(n - 1, 1)
                for j in (0, 1)
            ]
            for i in (0, 1)
        ]
        left = 1 - n / size if finite else 1
        spread = cov[0][0] + ratio**2 * cov[1][1] - 2 * ratio * cov[0][1]
        variance += size**2 * left * max(spread, 0) / n
    return ratio, variance**0.5 / (x * sum(pixels))


@st.composite
def samples(draw):
    """Strata with two to twelve points each, and classes of any kind."""
    n_classes, counts = draw(st.integers(1, 4)), draw(st.lists(st.integers(2, 12), min_size=1))
    counts = counts[:4]
    pixels = [n + draw(st.integers(0, 500)) for n in counts]
    strata = np.repeat(np.arange(len(counts)), counts)
    ids = st.lists(
        st.integers(0, n_classes - 1), min_size=len(strata), max_size=len(strata)
    )  # fmt: skip
    return strata, np.array(draw(ids)), np.array(draw(ids)), pixels, n_classes


@settings(max_examples=60, deadline=None)
@given(samples(), st.booleans())
def test_estimates_equal_the_plain_reference(sample, finite):
    strata, mapped, reference, pixels, n_classes = sample
    shares = estimate_shares(strata, mapped, reference, pixels, n_classes, finite=finite)
    right = (mapped == reference).astype(float)
    wanted = plain_mean(right, strata, pixels, finite)
    assert (shares.overall, shares.overall_se) == pytest.approx(wanted, abs=1e-9)
    for k in range(n_classes):
        truly, on_map = (reference == k).astype(float), (mapped == k).astype(float)
        wanted = plain_mean(truly, strata, pixels, finite)
        assert (shares.area[k], shares.area_se[k]) == pytest.approx(wanted, abs=1e-9)
        for got, base in (
            ((shares.users[k], shares.users_se[k]), on_map),
            ((shares.producers[k], shares.producers_se[k]), truly),
        ):
            wanted = plain_ratio(truly * on_map, base, strata, pixels, finite)
            assert got == pytest.approx(wanted, abs=1e-7, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(samples())
def test_areas_add_up_and_agree_with_the_error_matrix(sample):
    strata, mapped, reference, pixels, n_classes = sample
    shares = estimate_shares(strata, mapped, reference, pixels, n_classes)
    assert shares.area.sum() == pytest.approx(1)
    assert shares.matrix.sum(axis=0) == pytest.approx(shares.area)
    assert np.trace(shares.matrix) == pytest.approx(shares.overall)


@settings(max_examples=40, deadline=None)
@given(samples(), st.randoms(use_true_random=False))
def test_the_order_of_the_points_changes_nothing(sample, random):
    strata, mapped, reference, pixels, n_classes = sample
    order = list(range(len(strata)))
    random.shuffle(order)
    one = estimate_shares(strata, mapped, reference, pixels, n_classes)
    other = estimate_shares(
        strata[order], mapped[order], reference[order], pixels, n_classes
    )  # fmt: skip
    for name in vars(one):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-12, nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(2, 60), st.integers(0, 2**31))
def test_a_census_gives_the_truth_without_error(n_classes, n, seed):
    rng = np.random.default_rng(seed)
    strata = np.sort(rng.integers(0, 3, n))
    strata = np.searchsorted(np.unique(strata), strata)
    mapped, reference = rng.integers(0, n_classes, (2, n))
    sizes = rng.uniform(0.5, 2, n)  # pixels of a grid of degrees
    totals = np.bincount(strata, sizes)
    pixels = np.bincount(strata)
    shares = estimate_shares(strata, mapped, reference, pixels, n_classes, areas=(totals, sizes))
    truth = np.bincount(reference, sizes, minlength=n_classes) / sizes.sum()
    assert shares.area == pytest.approx(truth)
    assert shares.overall == pytest.approx(sizes[mapped == reference].sum() / sizes.sum())
    assert shares.area_se == pytest.approx(np.zeros(n_classes), abs=1e-12)
    assert np.nan_to_num(shares.producers_se) == pytest.approx(np.zeros(n_classes), abs=1e-12)


# -- what cannot be estimated ----------------------------------------------------------------------


def test_a_stratum_of_one_pixel_that_was_sampled_has_no_variance():
    shares = estimate_shares([0, 0, 1], [0, 0, 1], [0, 1, 1], [100, 1], 2)
    assert shares.users_se[1] == 0


def test_a_class_without_points_has_no_accuracy():
    shares = estimate_shares([0, 0], [0, 0], [0, 0], [100], 2)
    assert np.isnan([shares.users[1], shares.producers[1], shares.users_se[1]]).all()
    assert shares.area.tolist() == [1, 0]


def test_intervals_stay_within_the_region():
    assert interval([0.01, 0.5, 0.99], [0.1] * 3).round(3).tolist() == [
        [0.0, 0.206],
        [0.304, 0.696],
        [0.794, 1.0],
    ]
