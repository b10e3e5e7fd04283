import numpy as np
import pytest

from polyad.app.advice import Candidates, advise, suggest


def test_of_pixels_equally_new_the_most_uncertain_comes_first():
    spectra = np.array([[5.0], [6.0], [7.0]])
    assert suggest(spectra, np.array([0.1, 0.9, 0.5]), np.array([[0.0]]), 1).tolist() == [1]


def test_a_pixel_like_a_labeled_one_comes_after_a_new_one():
    spectra = np.array([[0.0, 0.0], [4.0, 4.0], [4.1, 3.9]])
    order = suggest(spectra, np.array([0.9, 0.8, 0.7]), np.array([[0.0, 0.0]]), 3)
    assert order[0] == 1
    assert order[-1] in (0, 2)


def test_two_pixels_alike_are_not_advised_one_after_the_other():
    spectra = np.array([[4.0], [4.0], [-4.0]])
    order = suggest(spectra, np.array([0.9, 0.9, 0.6]), np.array([[0.0]]), 2)
    assert sorted(order.tolist()) == [0, 2]


@pytest.mark.parametrize(("candidates", "labels"), [(0, 3), (4, 0), (1, 1)])
def test_advice_is_given_from_little_or_nothing(candidates, labels):
    rng = np.random.default_rng(0)
    order = suggest(rng.normal(size=(candidates, 5)), np.ones(candidates), np.ones((labels, 5)), 9)
    assert sorted(order.tolist()) == list(range(candidates))


def test_advice_does_not_depend_on_the_unit_of_the_bands():
    rng = np.random.default_rng(1)
    spectra, labeled, unsure = rng.normal(size=(50, 6)), rng.normal(size=(8, 6)), rng.random(50)
    scale = np.array([1, 10, 100, 1e3, 1e-3, 1.0])
    chosen = suggest(spectra, unsure, labeled, 10)
    np.testing.assert_array_equal(chosen, suggest(spectra * scale, unsure, labeled * scale, 10))


def test_advice_names_row_column_and_uncertainty():
    pixel = Candidates(np.array([[3, 4]]), np.array([0.5]), np.ones((1, 2)))
    assert advise([pixel, pixel], np.zeros((1, 2)))[0] == [3, 4, 0.5]
