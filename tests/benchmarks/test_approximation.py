"""The records of approximation obey the theorem."""

import numpy as np

from benchmarks import approximation
from benchmarks.harness import read_records


def test_no_network_below_the_generic_rank_passes_the_floor():
    for (side, rank, _), curve in approximation.sup_errors().items():
        if rank < side:
            assert min(min(errors) for errors in curve.values()) > approximation.FLOOR


def test_at_the_generic_rank_more_units_pass_the_floor():
    for side in approximation.SIDES:
        for weights in ("trained", "random"):
            curve = approximation.sup_errors()[side, side, weights]
            means = [np.mean(curve[units]) for units in sorted(curve)]
            assert means == sorted(means, reverse=True)
            assert max(curve[max(curve)]) < approximation.FLOOR


def test_rank_one_explains_nothing_of_a_determinant_and_rank_two_nearly_all():
    rows = [row for row in read_records(approximation.RECORDS) if row["what"] == "determinant"]
    assert len(rows) == approximation.SEEDS * len(approximation.DETERMINANT)
    assert max(row["r2"] for row in rows if row["rank"] == 1) < 0.01
    assert min(row["r2"] for row in rows if row["rank"] == 2) > 0.99
