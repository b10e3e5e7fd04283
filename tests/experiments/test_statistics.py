"""The path of tests, Holm's correction and effect sizes, on cases with known answers."""

import numpy as np
import pytest
from scipy import stats

from polyad.experiments.statistics import cliffs_delta, compare, compare_paired, hedges_g, holm

# Normal scores: as normal as ten numbers can be.
NORMAL = stats.norm.ppf((np.arange(10) + 0.5) / 10)
SKEWED = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 50.0])


def test_normal_samples_of_equal_spread_take_students_test():
    got = compare(NORMAL, NORMAL + 1)
    assert got.test == "Student"
    assert got.p == pytest.approx(stats.ttest_ind(NORMAL, NORMAL + 1).pvalue)
    assert [step.split(" p=")[0] for step in got.path] == [
        "Shapiro-Wilk first",
        "Shapiro-Wilk second",
        "Levene",
        "Student",
    ]


def test_normal_samples_of_unequal_spread_take_welchs_test():
    got = compare(NORMAL, 10 * NORMAL + 30)
    assert got.test == "Welch"
    assert got.p == pytest.approx(stats.ttest_ind(NORMAL, 10 * NORMAL + 30, equal_var=False).pvalue)


def test_a_sample_that_is_not_normal_takes_mann_whitney():
    got = compare(NORMAL, SKEWED)
    assert got.test == "Mann-Whitney"
    assert got.effect.name == "Cliff's delta"
    assert got.path[-1].startswith("Mann-Whitney")
    wanted = stats.mannwhitneyu(NORMAL, SKEWED, alternative="two-sided").pvalue
    assert [got.p, compare(SKEWED, NORMAL).p] == pytest.approx([wanted] * 2)


def test_constant_samples_are_not_normal_and_do_not_fail():
    got = compare([1.0] * 5, [1.0] * 5)
    assert got.test == "Mann-Whitney"
    assert got.p == 1.0
    assert "first sample constant" in got.path


def test_degrees_of_freedom_are_those_of_the_test_taken():
    assert compare(NORMAL, NORMAL + 1).df == 18
    wide = 10 * NORMAL + 30
    assert compare(NORMAL, wide).df == pytest.approx(
        stats.ttest_ind(NORMAL, wide, equal_var=False).df
    )
    assert compare(NORMAL, SKEWED).df is None


def test_levene_takes_deviations_from_the_median():
    other = 3 * NORMAL[:9] + 1
    step = compare(NORMAL, other).path[2]
    assert step == f"Levene p={stats.levene(NORMAL, other, center='median').pvalue:.3f}"
    assert step != f"Levene p={stats.levene(NORMAL, other, center='mean').pvalue:.3f}"


def test_normal_differences_take_the_paired_t_test():
    got = compare_paired(5 * NORMAL + 1, 4 * NORMAL)
    wanted = stats.ttest_rel(5 * NORMAL + 1, 4 * NORMAL)
    assert (got.test, got.n, got.df) == ("paired t", 10, 9)
    assert got.p == pytest.approx(wanted.pvalue)
    low, high = wanted.confidence_interval(0.95)
    assert (got.mean, got.low, got.high) == pytest.approx((1.0, low, high))


def test_differences_that_are_not_normal_take_wilcoxons_test():
    got = compare_paired(NORMAL + SKEWED + 1, NORMAL)
    assert (got.test, got.df) == ("Wilcoxon", None)
    assert got.p == pytest.approx(stats.wilcoxon(SKEWED + 1).pvalue)


def test_equal_runs_are_no_difference():
    assert compare_paired(NORMAL, NORMAL).p == 1.0


def test_holm_by_hand():
    # sorted 0.01*4, 0.02*3, 0.03*2, 0.04*1, then made monotone
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_interval_of_hedges_g_holds_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(0)
    shrink = 1 - 3 / (4 * 18 - 1)
    hits = 0
    for _ in range(200):
        got = hedges_g(rng.normal(1.0, 1, 10), rng.normal(0, 1, 10))
        hits += got.low <= shrink * 1.0 <= got.high
    assert 180 <= hits <= 199


def test_effects_change_their_sign_with_the_order():
    for a, b in ((NORMAL, 2 * NORMAL + 1), (NORMAL + 9, NORMAL)):  # the second pair apart
        for effect in (hedges_g, cliffs_delta):
            one, other = effect(a, b), effect(b, a)
            assert one.value == pytest.approx(-other.value)
            assert one.low == pytest.approx(-other.high, abs=1e-4)


def test_cliffs_delta_by_hand():
    got = cliffs_delta([1, 2, 3], [2, 3, 4])  # 1 pair larger, 6 smaller, 2 equal
    assert got.value == pytest.approx(-5 / 9)
    assert -1 <= got.low < got.value < got.high <= 1


def test_cliffs_delta_of_samples_apart_is_one_with_a_one_sided_interval():
    got = cliffs_delta(np.arange(10) + 100.0, np.arange(10.0))
    assert got.value == got.high == 1.0
    assert 0.4 < got.low < 0.5  # (10 - 1.96^2) / (10 + 1.96^2)


def test_a_huge_effect_has_a_finite_interval():
    got = hedges_g(NORMAL + 500, NORMAL)
    assert np.isfinite([got.low, got.high]).all()
    assert got.low < got.value < got.high


def test_hedges_g_of_unequal_samples_pools_by_degrees_of_freedom():
    a, b = np.array([1.0, 2, 3, 4, 9]), np.array([2.0, 2.5, 3.0])
    centered = np.concatenate([a - a.mean(), b - b.mean()])
    pooled = np.sqrt((centered**2).sum() / 6)
    assert hedges_g(a, b).value == pytest.approx((a.mean() - b.mean()) / pooled * (1 - 3 / 23))


def test_the_ends_of_hedges_interval_are_quantiles_of_the_noncentral_t():
    a, b = 5 + NORMAL, NORMAL[:4]
    got = hedges_g(a, b)
    free, unit = 12, np.sqrt(1 / 10 + 1 / 4)
    scale = unit * (1 - 3 / (4 * free - 1))
    t = stats.ttest_ind(a, b).statistic
    assert got.value == pytest.approx(t * scale)
    assert stats.nct.cdf(t, free, got.low / scale) == pytest.approx(0.975, abs=1e-4)
    assert stats.nct.cdf(t, free, got.high / scale) == pytest.approx(0.025, abs=1e-4)


def test_constant_samples_apart_have_an_infinite_g_of_the_right_sign():
    assert hedges_g([2, 2, 2], [1, 1, 1]).value == np.inf
    assert hedges_g([1, 1, 1], [2, 2, 2]).value == -np.inf
    assert hedges_g([1, 1, 1], [1, 1, 1]).value == 0


def test_cliffs_interval_pair_by_pair():
    """Cliff (1996), Eqs. 7 to 12, with every sum written as a loop."""
    a, b = [3.0, 5.0, 6.0, 9.0, 11.0], [1.0, 4.0, 7.0]
    n, m, z = len(a), len(b), 1.959964
    sign = {(i, k): np.sign(a[i] - b[k]) for i in range(n) for k in range(m)}
    d = sum(sign.values()) / (n * m)
    rows = sum((sum(sign[i, k] for k in range(m)) / m - d) ** 2 for i in range(n))
    cols = sum((sum(sign[i, k] for i in range(n)) / n - d) ** 2 for k in range(m))
    every = sum((s - d) ** 2 for s in sign.values())
    variance = (m**2 * rows + n**2 * cols - every) / (n * m * (n - 1) * (m - 1))
    assert variance > (1 - d**2) / (n * m - 1)  # else the least variance would be tested
    half = z * np.sqrt(variance) * np.sqrt((1 - d**2) ** 2 + z**2 * variance)
    got = cliffs_delta(a, b)
    assert got.low == pytest.approx(max((d - d**3 - half) / (1 - d**2 + z**2 * variance), -1))
    assert got.high == pytest.approx(min((d - d**3 + half) / (1 - d**2 + z**2 * variance), 1))
