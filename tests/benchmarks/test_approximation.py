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


def test_samples_of_the_unit_ball_have_spectral_norm_at_most_one():
    x = approximation.unit_ball(np.random.default_rng(0), 1000, 3)
    norms = np.linalg.svd(x, compute_uv=False)[:, 0]
    assert norms.max() < 1 + 1e-12
    np.testing.assert_allclose(np.abs(np.linalg.det(x[:500])), 1.0)
    assert abs(np.linalg.det(x[:500]).mean()) < 0.2  # as many reflections as rotations


def test_random_units_have_weights_of_the_rank_asked_for():
    units = approximation.random_units(np.random.default_rng(0), 2, 1, 5)
    zero = np.zeros((1, 2, 2))
    slopes = [(units(zero + 1e-6 * e) - units(zero))[0, :-1] / 1e-6
              for e in np.eye(4).reshape(4, 1, 2, 2)]  # fmt: skip
    weights = np.stack(slopes, axis=-1).reshape(5, 2, 2)
    np.testing.assert_allclose(np.linalg.det(weights), 0, atol=1e-4)
