"""The path of tests and Holm's correction on cases with known answers."""

import numpy as np
import pytest
from scipy import stats

from polyad.experiments.statistics import compare, compare_paired, holm

# Normal scores: as normal as ten numbers can be.
NORMAL = stats.norm.ppf((np.arange(10) + 0.5) / 10)
SKEWED = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 50.0])


@pytest.mark.parametrize(
    ("other", "path", "wanted"),
    [
        (NORMAL + 1, ["Shapiro-Wilk", "Levene", "Student"], stats.ttest_ind(NORMAL, NORMAL + 1)),
        (
            10 * NORMAL + 30,
            ["Shapiro-Wilk", "Levene", "Welch"],
            stats.ttest_ind(NORMAL, 10 * NORMAL + 30, equal_var=False),
        ),
        (
            SKEWED,
            ["Shapiro-Wilk", "Mann-Whitney"],
            stats.mannwhitneyu(NORMAL, SKEWED, alternative="two-sided"),
        ),
    ],
    ids=["equal spread", "unequal spread", "not normal"],
)
def test_the_papers_path_leads_to_the_test_that_the_samples_allow(other, path, wanted):
    found, turned = compare(NORMAL, other), compare(other, NORMAL)
    assert [step.split(" ")[0] for step in found.path] == path
    assert [found.p, turned.p] == pytest.approx([wanted.pvalue] * 2)
    assert found.sign == pytest.approx(-turned.sign)
    assert found.sign < 0
    if hasattr(wanted, "df"):
        assert found.path[-1].endswith(f"(df {wanted.df:.4g})")


def test_constant_samples_are_not_normal_and_do_not_fail():
    found = compare([1.0] * 5, [1.0] * 5)
    assert (found.p, found.path[-1]) == (1.0, "Mann-Whitney")


def test_levene_takes_deviations_from_the_median():
    other = 3 * NORMAL[:9] + 1
    step = compare(NORMAL, other).path[1]
    assert step == f"Levene {stats.levene(NORMAL, other, center='median').pvalue:.3f}"
    assert step != f"Levene {stats.levene(NORMAL, other, center='mean').pvalue:.3f}"


def test_normal_differences_take_the_paired_t_test():
    got = compare_paired(5 * NORMAL + 1, 4 * NORMAL)
    wanted = stats.ttest_rel(5 * NORMAL + 1, 4 * NORMAL)
    assert (got.test, got.n) == ("paired t", 10)
    assert got.p == pytest.approx(wanted.pvalue)
    low, high = wanted.confidence_interval(0.95)
    assert (got.mean, got.low, got.high) == pytest.approx((1.0, low, high))


def test_differences_that_are_not_normal_take_wilcoxons_test():
    got = compare_paired(NORMAL + SKEWED + 1, NORMAL)
    assert got.test == "Wilcoxon"
    assert got.p == pytest.approx(stats.wilcoxon(SKEWED + 1).pvalue)


def test_equal_runs_are_no_difference():
    assert compare_paired(NORMAL, NORMAL).p == 1.0


def test_holm_by_hand():
    # sorted 0.01*4, 0.02*3, 0.03*2, 0.04*1, then made monotone
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
