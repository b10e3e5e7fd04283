"""Records gathered into cells and tables: which runs count, and what is made of them."""

import numpy as np
import pytest
from scipy import stats

from polyad.experiments import paper
from polyad.experiments.statistics import Cell, Results, Summary, compare, holm
from polyad.experiments.tables import (
    Entry,
    Table,
    accuracy_table,
    expected_parameters,
    parameter_table,
    scene_tables,
    significance_table,
)

TINY = "standin-tiny"
CELL = Cell(TINY, "rank-1", 5)
SCORES = {"50": {"oa": 0.61, "aa": 0.52, "kappa": 0.43, "oa_no_overlap": 0.34}}


def test_the_longest_run_of_a_seed_counts_whatever_the_order(record_of):
    short, long = record_of(60.0, epochs=50), record_of(70.0, epochs=100)
    for records in ([short, long], [long, short]):
        assert Results(records).runs(CELL) == [long]


def test_the_mean_curve_and_its_deviation_are_those_over_runs(record_of):
    curves = [(5000, 6000), (5200, 6600), (5400, 6300)]
    runs = [record_of(60.0, seed=k, epochs=2, curve=c) for k, c in enumerate(curves)]
    curve = Results(runs).curve(CELL)
    assert curve.epochs.tolist() == [1, 2]
    np.testing.assert_allclose(curve.mean, [52, 63])
    np.testing.assert_allclose(curve.deviation, [2, 3])
    assert curve.runs == 3


def tables_of(records, runs=1):
    return {table.name: table for table in scene_tables(Results(records), TINY, runs)}


def test_the_table_of_scores_shows_each_score_in_its_own_column(record_of):
    runs = [record_of(61.0, seed=k, scores=SCORES, curve=(7000,) * 50) for k in range(2)]
    (row,) = tables_of(runs, 2)[f"scores-{TINY}"].texts()
    means = [text.split(" ±")[0] for text in row[1:]]
    assert means == ["61.00", "70.00", "34.00", "52.00", "0.430"]


def test_the_table_of_protocols_shows_no_overlap_beside_the_random_draw(record_of):
    far = record_of(61.0, scores=SCORES, run={"protocol": "blocks"})
    found = tables_of([record_of(61.0, scores=SCORES), far])
    (row,) = found[f"protocols-{TINY}"].texts()
    assert row[1:] == ["61.00", "34.00", "not run", "61.00"]
    assert list(tables_of([record_of(61.0)])) == [f"scores-{TINY}"]  # and no empty table


def test_the_table_of_noise_levels_has_a_column_for_each_and_none_without_them(record_of):
    cells = ((60, "none", 0.2), (40, "pixel", 0.2), (50, "pixel", 0.05))
    runs = [record_of(v, run={"noise": noise, "noise_level": level}) for v, noise, level in cells]
    table = tables_of(runs)[f"noise-levels-{TINY}"]
    assert table.columns[1:] == ("no noise", "5 %", "20 %")
    assert [row[1:] for row in table.texts()] == [["60.00", "50.00", "40.00"]]
    assert f"noise-levels-{TINY}" not in tables_of(runs[:2])


def test_the_table_of_accuracies_shows_the_50th_epoch_and_the_last(record_of):
    curve = (4000,) * 49 + (5000,) * 50 + (6000,)
    runs = [record_of(60.0, seed=k, epochs=100, curve=curve) for k in range(2)]
    table = accuracy_table(Results(runs), [TINY], "none", 5, runs=3)
    texts = {row[0]: row[1] for row in table.texts() if row[1] != "not run"}
    assert texts == {
        "Rank-1 FNN, 50 epochs": "50.00 ± 0.00, 2 runs",
        "Rank-1 FNN, 100 epochs": "60.00 ± 0.00, 2 runs",
    }


def test_an_entry_shows_ours_the_papers_and_the_difference():
    entry = Entry(Summary(64.0, 1.5, 10), paper.Reported(65.0, 2.0))
    assert entry.text() == "64.00 ± 1.50 (paper 65.00 ± 2.00, \N{MINUS SIGN}0.5 sd)"
    assert Entry(Summary(64.0, float("nan"), 1)).text() == "64.00, 1 run"
    assert Entry(None, paper.Reported(65.0, 2.0)).text() == "not run (paper 65.00 ± 2.00)"


def test_tables_escape_what_their_format_reserves():
    table = Table("t", "100 % & more", ("a", "b"), (("x_1|y", "<b>"),), "note")
    assert r"x_1\|y" in table.markdown()


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("rank-1", (16950, 12675, 9150)),
        ("rank-5", (79950, 59175, 43050)),
        ("cnn", (699241, 624839, 567759)),
    ],
)
def test_table_two_by_formula(model, sizes):
    shapes = ((200, 16), (145, 14), (103, 9))
    assert tuple(expected_parameters(model, *shape) for shape in shapes) == sizes
    (row,) = [r for r in parameter_table(paper.SCENES).texts() if r[0].lower().startswith(model)]
    for scene, size, text in zip(paper.SCENES, sizes, row[1:], strict=True):
        printed = paper.reported_parameters(scene, model)
        assert abs(printed * 1000 - size) < 3000
        assert text == f"{size:,} (paper ~{printed}K)"


def test_the_papers_numbers_at_their_corners():
    assert paper.reported("pavia-university", "cnn", 10, "none", 500) == (72.18, 2.85)
    assert paper.reported("botswana", "rank-3", 10, "pixel", 50) == (91.75, 2.31)
    assert paper.reported("indian-pines", "rank-5", 10, "band-offset", 500) == (61.24, 3.11)
    assert paper.reported("indian-pines", "dense", 10, "none", 500) is None
    assert paper.reported_p("indian-pines", "rank-3", 10, 500) == 0.499
    assert paper.reported_p("pavia-university", "rank-5", 50, 50) == 0.001


# --- Table 3 -------------------------------------------------------------------------------------

ACCURACIES = {
    "rank-1": [70.0, 71.2, 72.1, 73.5, 74.0],
    "rank-2": [64.1, 66.0, 66.9, 68.3, 70.2],
    "rank-3": [60.0, 61.1, 62.3, 62.9, 64.0],
    "cnn": [64.0, 65.2, 66.1, 67.3, 68.4],
}
RUN = ("rank-1", "rank-2", "rank-3")


@pytest.fixture
def table(record_of):
    records = [
        record_of(value, model, seed)
        for model, values in ACCURACIES.items()
        for seed, value in enumerate(values)
    ]
    return significance_table(Results(records), TINY, "none", 50, [5]).texts()


def test_every_p_value_of_table_three_is_corrected_by_holm_over_all_its_rows(table):
    raw = [compare(ACCURACIES[m], ACCURACIES["cnn"]).p for m in RUN]
    corrected = holm(raw)
    assert corrected[0] > 1.5 * raw[0]  # else the correction could not be told from none
    assert [row[3].split(",")[0] for row in table[:3]] == [f"{p:.3g}" for p in corrected]
    assert [row[1] for row in table] == [*(f"{p:.3g}" for p in raw), "not run", "not run"]


def test_pairs_are_runs_of_one_seed_and_corrected_in_the_same_way(table):
    raw = [stats.ttest_rel(ACCURACIES[m], ACCURACIES["cnn"]).pvalue for m in RUN]
    shown = [row[6].split(",")[0].split(" ")[0] for row in table[:3]]
    assert shown == [f"{p:.3g}" for p in holm(raw)]
    assert table[0][6].endswith("(paired t, 5 pairs)")
    mean = np.mean(np.subtract(ACCURACIES["rank-1"], ACCURACIES["cnn"]))
    assert table[0][5].startswith(f"+{mean:.2f} [")


def test_table_three_names_the_better_model_only_where_the_difference_is_significant(table):
    assert [row[3].partition(", ")[2] for row in table[:3]] == ["Rank-R better", "", "CNN better"]
    assert [row[5][0] for row in table[:3]] == ["+", "+", "\N{MINUS SIGN}"]
    assert table[0][4].endswith("Student (df 8)")


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
    row = significance_table(Results(records), TINY, "none", 50, [5]).texts()[3]
    assert "Mann-Whitney" in row[4]
