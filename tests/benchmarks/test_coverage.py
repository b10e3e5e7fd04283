"""The page on prediction sets is what its records give, and says what they say."""

import numpy as np
import pytest

from benchmarks.coverage import DOCS, RECORDS, by_class, by_mass, one_threshold
from benchmarks.coverage_page import PRESETS, page
from benchmarks.few_labels import read_records

SEEDS = list(range(10))


def reported(**given):
    rows = [r for r in read_records(RECORDS) if r["seed"] < 100]
    return [r for r in rows if all(r[key] == value for key, value in given.items())]


def test_the_page_is_what_its_records_give():
    assert (DOCS / "coverage.md").read_text() == page(read_records(RECORDS))


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_promise_is_kept_on_random_pixels_and_broken_on_other_fields(preset, level):
    rows = reported(protocol="random-10", preset=preset, level=level)
    assert sorted(r["seed"] for r in rows) == SEEDS
    assert np.mean([r["coverage"] for r in rows]) > level - 0.01
    fields = reported(protocol="other-fields-10", preset=preset, level=level)
    assert np.mean([r["coverage"] for r in fields]) < level - 0.1


def test_the_mass_of_likelier_classes_leaves_out_the_class_itself():
    np.testing.assert_allclose(by_mass(np.array([[0.2, 0.7, 0.1]])), [[0.3, 1.0, 0.1]])


def test_thresholds_by_class_come_from_the_labels_of_the_class_alone():
    rng = np.random.default_rng(0)
    targets = np.repeat([0, 1], 20)
    own = np.where(targets == 0, 0.9, 0.6) + 0.01 * rng.random(40)
    held = {"proba": np.where(np.eye(2)[targets] == 1, own[:, None], 1 - own[:, None])}
    held["targets"] = targets
    proba = np.array([[0.7, 0.7]])  # no probabilities, but a look at both thresholds at once
    assert by_class(held, proba, 0.9).tolist() == [[False, True]]
    assert one_threshold(held, proba, 0.9, lambda p: p).tolist() == [[True, True]]
