"""Table 3 from made records: which p-values stand in it, and which way a difference points."""

import numpy as np
import pytest
from scipy import stats

from polyad.experiments.comparisons import significance_table
from polyad.experiments.results import Results
from polyad.experiments.statistics import compare, holm

TINY = "standin-tiny"
ACCURACIES = {
    "rank-1": [70.0, 71.2, 72.1, 73.5, 74.0],
    "rank-2": [64.1, 66.0, 66.9, 68.3, 70.2],
    "rank-3": [60.0, 61.1, 62.3, 62.9, 64.0],
    "cnn": [64.0, 65.2, 66.1, 67.3, 68.4],
}


@pytest.fixture
def table(record_of):
    records = [
        record_of(value, model, seed)
        for model, values in ACCURACIES.items()
        for seed, value in enumerate(values)
    ]
    return significance_table(Results(records), TINY, "none", 50, [5]).texts()


def test_every_p_value_of_table_three_is_corrected_by_holm_over_all_its_rows(table):
    raw = [compare(ACCURACIES[m], ACCURACIES["cnn"]).p for m in ("rank-1", "rank-2", "rank-3")]
    corrected = holm(raw)
    assert corrected[0] > 1.5 * raw[0]  # else the correction could not be told from none
    assert [row[3].split(",")[0] for row in table[:3]] == [f"{p:.3g}" for p in corrected]
    assert [row[1] for row in table[:3]] == [f"{p:.3g}" for p in raw]


def test_pairs_are_runs_of_one_seed_and_corrected_in_the_same_way(table):
    raw = [
        stats.ttest_rel(ACCURACIES[m], ACCURACIES["cnn"]).pvalue
        for m in ("rank-1", "rank-2", "rank-3")
    ]
    assert [row[7].split(",")[0].split(" ")[0] for row in table[:3]] == [
        f"{p:.3g}" for p in holm(raw)
    ]
    assert table[0][7].endswith("(paired t, n = 5, df = 4)")
    mean = np.mean(np.subtract(ACCURACIES["rank-1"], ACCURACIES["cnn"]))
    assert table[0][6].startswith(f"+{mean:.2f} [")


def test_table_three_names_the_better_model_only_where_the_difference_is_significant(table):
    assert [row[3].partition(", ")[2] for row in table[:3]] == ["Rank-R better", "", "CNN better"]


def test_table_three_has_sample_sizes_and_degrees_of_freedom(table):
    assert table[0][5].endswith("n = 5 and 5, df = 8")


def test_the_effect_is_positive_where_the_rank_r_network_is_better(table):
    assert [row[4].split()[2][0] for row in table[:3]] == ["+", "+", "\N{MINUS SIGN}"]


def test_table_three_compares_after_the_50th_epoch_and_after_the_last(record_of):
    runs = [
        record_of(80.0, model, seed, epochs=100, curve=(at_50 + seed,) * 50 + (8000 + seed,) * 50)
        for model, at_50 in (("rank-1", 7000), ("cnn", 5000))
        for seed in range(5)
    ]
    rows = significance_table(Results(runs), TINY, "none", 100, [5]).texts()
    early, late = (row for row in rows if row[0].startswith("Rank-1"))
    assert early[0].endswith("50 epochs")
    assert early[3].endswith("Rank-R better")
    assert late[1] == "1"


def test_the_choice_of_a_test_is_made_on_unrounded_accuracies(record_of):
    # Shapiro-Wilk has p = 0.0495; 0.0502 if the accuracies are rounded to 0.01 points first
    skewed = [80.7754, 78.7091, 78.4216, 81.9576, 80.6795, 80.7115, 80.5517, 82.128, 80.6689,
              80.7328]  # fmt: skip
    cnn = [59.2182, 57.7058, 58.6431, 58.2171, 56.4384, 59.0372, 55.8952, 56.6727, 60.1129, 57.4289]
    records = [
        record_of(value, model, seed)
        for model, values in {"rank-4": skewed, "cnn": cnn}.items()
        for seed, value in enumerate(values)
    ]
    (row, *_) = significance_table(Results(records), TINY, "none", 50, [5]).texts()
    assert "Mann-Whitney" in row[5]
