"""Records gathered into cells: which runs count, and what is made of them."""

from dataclasses import replace

import numpy as np
import pytest

from polyad.experiments.paper_tables import (
    accuracy_table,
    noise_level_table,
    parameter_table,
    protocol_table,
    score_table,
)
from polyad.experiments.results import Results
from polyad.experiments.statistics import compare
from polyad.experiments.tables import Cell

TINY = "standin-tiny"


def test_the_longest_run_of_a_seed_counts_whatever_the_order(record_of):
    short, long = record_of(60.0, epochs=50), record_of(70.0, epochs=100)
    for records in ([short, long], [long, short]):
        assert Results(records).runs(TINY, "rank-1", 5) == [long]


def test_the_mean_curve_and_its_deviation_are_those_over_runs(record_of):
    curves = [(5000, 6000), (5200, 6600), (5400, 6300)]
    runs = [record_of(60.0, seed=k, epochs=2, curve=c) for k, c in enumerate(curves)]
    curve = Results(runs).curve(TINY, "rank-1", 5)
    assert curve.epochs.tolist() == [1, 2]
    np.testing.assert_allclose(curve.mean, [52, 63])
    np.testing.assert_allclose(curve.deviation, [2, 3])
    assert curve.runs == 3


def test_curves_of_unequal_length_are_averaged_where_all_have_a_value(record_of):
    first = record_of(60.0, seed=0, epochs=3, curve=(5000, 5500, 6000))
    second = record_of(60.0, seed=1, epochs=5, at=[1, 5], curve=(5200, 6400))
    curve = Results([first, second]).curve(TINY, "rank-1", 5)
    assert curve.epochs.tolist() == [1]
    np.testing.assert_allclose(curve.mean, [51])


def test_the_best_epoch_is_the_best_and_not_the_last(record_of):
    run = record_of(60.0, epochs=3, curve=(5000, 7100, 6000))
    assert Results([run]).best(TINY, "rank-1", 5) == [pytest.approx(71)]


def test_three_runs_of_each_model_are_enough_to_compare_and_two_are_not(record_of):
    values = {"rank-1": [60.0, 61.0, 63.0], "cnn": [50.0, 52.0, 53.0]}
    runs = [record_of(v, m, seed) for m, vs in values.items() for seed, v in enumerate(vs)]
    wanted = compare(*values.values())
    assert Results(runs).compare(TINY, "rank-1", "cnn", 5) == wanted
    assert Results(runs[1:]).compare(TINY, "rank-1", "cnn", 5) is None


def test_the_table_of_scores_shows_each_score_in_its_own_column(record_of):
    scores = {"50": {"oa": 0.61, "aa": 0.52, "kappa": 0.43, "oa_no_overlap": 0.34}}
    runs = [record_of(61.0, seed=k, scores=scores, curve=(7000,) * 50) for k in range(2)]
    (row,) = score_table(Results(runs), TINY, runs=2).texts()
    assert [text.split(" ±")[0] for text in row[1:]] == [
        "61.00",
        "70.00",
        "34.00",
        "52.00",
        "0.430",
    ]


def test_the_table_of_accuracies_shows_the_50th_epoch_and_the_last(record_of):
    curve = (4000,) * 49 + (5000,) * 50 + (6000,)
    runs = [record_of(60.0, seed=k, epochs=100, curve=curve) for k in range(2)]
    table = accuracy_table(
        Results(runs), [TINY], name="t", title="t", noise="none", samples=5, missing={}
    )
    means = {row[0]: row[1].ours.mean for row in table.rows if row[1].ours is not None}
    assert means == {"Rank-1 FNN, 50 epochs": 50.0, "Rank-1 FNN, 100 epochs": 60.0}


def test_a_count_of_parameters_unlike_the_formula_is_shown(record_of):
    run = record_of(60.0)
    run = replace(run, settings=replace(run.settings, scene="botswana", samples_per_class=10))
    row = parameter_table(["botswana"], Results([run])).texts()[0]
    assert row[1].endswith(", but counted [42]")


def test_a_cell_of_fewer_runs_than_wanted_says_so(record_of):
    cells = accuracy_table(
        Results([record_of(60.0, seed=k) for k in range(3)]), [TINY],
        name="t", title="t", noise="none", samples=5, missing={}, runs=4,
    ).rows  # fmt: skip
    texts = [row[1].text() for row in cells if isinstance(row[1], Cell) and row[1].ours]
    assert texts == ["60.00 ± 0.00, 3 runs"]


def test_a_model_without_epochs_has_one_accuracy_whatever_the_epoch(record_of):
    run = record_of(62.5, "svm-spectrum", at=[])
    assert [run.accuracy_at(epoch) for epoch in (1, 50)] == [62.5, 62.5]


def test_the_table_of_protocols_shows_no_overlap_beside_the_random_draw(record_of):
    scores = {"50": {"oa": 0.61, "aa": 0.52, "kappa": 0.43, "oa_no_overlap": 0.34}}
    run = record_of(61.0, scores=scores)
    far = replace(run, settings=replace(run.settings, protocol="blocks"))
    (row,) = protocol_table(Results([run, far]), TINY, runs=1).texts()
    assert row[1:] == ["61.00", "34.00", "not run", "61.00"]


def test_the_table_of_noise_levels_has_a_column_for_each_and_none_without_them(record_of):
    def at(accuracy, noise, level):
        run = record_of(accuracy)
        return replace(run, settings=replace(run.settings, noise=noise, noise_level=level))

    plain, usual, weak = at(60, "none", 0.2), at(40, "pixel", 0.2), at(50, "pixel", 0.05)
    table = noise_level_table(Results([plain, usual, weak]), TINY, runs=1)
    assert table.columns[1:] == ("no noise", "5 %", "20 %")
    (row,) = table.texts()
    assert row[1:] == ["60.00", "50.00", "40.00"]
    assert noise_level_table(Results([plain, usual]), TINY) is None
