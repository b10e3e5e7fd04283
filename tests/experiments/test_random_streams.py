"""One seed, several streams: what is drawn from which, and which pixels may be tested."""

import numpy as np
import pytest

from polyad.experiments.runs import NOISE_MAKERS, noisy
from polyad.experiments.settings import RUN_PROTOCOLS, RunSettings
from polyad.scene.learn.sampling import Split

TINY = "standin-tiny"


@pytest.mark.parametrize("noise", NOISE_MAKERS)
def test_noise_is_drawn_from_a_stream_of_its_own(noise):
    cube = np.random.default_rng(0).uniform(1, 5, size=(6, 7, 3)).astype(np.float32)
    found = noisy(cube, RunSettings(TINY, "rank-1", 5, noise=noise, seed=3))
    of_pixels = NOISE_MAKERS[noise](cube, 0.2, random_state=np.random.default_rng(3))
    own = NOISE_MAKERS[noise](cube, 0.2, random_state=np.random.default_rng((3, 1)))
    assert np.abs(found - of_pixels).max() > 0.1
    np.testing.assert_array_equal(found, own)  # the committed records were made with this one


def test_noise_has_the_level_that_the_protocol_asks_for():
    cube = np.full((60, 60, 2), 100, np.float32)
    found = noisy(cube, RunSettings(TINY, "rank-1", 5, noise="pixel", noise_level=0.4))
    assert found.std() == pytest.approx(40, rel=0.05)


def test_all_models_of_a_seed_train_and_test_on_the_same_pixels():
    labels = np.random.default_rng(0).integers(0, 3, size=(20, 20))
    first, second = (RunSettings(TINY, m, 5, seed=2).split(labels) for m in ("rank-1", "cnn"))
    np.testing.assert_array_equal(first.train, second.train)
    np.testing.assert_array_equal(first.test, second.test)


class Unfair:
    """A sampler that trains on two classes and tests on three."""

    def __init__(self, n, window, border):
        self.settings = n, window, border

    def split(self, labels, seed):
        pixels = np.argwhere(labels > 0)
        return Split(pixels[labels[labels > 0] < 3][:20], pixels[20:])


def test_classes_without_training_pixels_are_not_tested(monkeypatch):
    monkeypatch.setitem(RUN_PROTOCOLS, "blocks", Unfair)
    labels = np.repeat([1, 2, 1, 2, 3], 10).reshape(5, 10)
    split = RunSettings(TINY, "rank-1", 5, protocol="blocks").split(labels)
    assert labels[tuple(split.train.T)].tolist() == [1] * 10 + [2] * 10
    assert labels[tuple(split.test.T)].tolist() == [1] * 10 + [2] * 10


def test_another_seed_draws_other_pixels():
    labels = np.random.default_rng(0).integers(0, 3, size=(20, 20))
    first, second = (RunSettings(TINY, "rank-1", 5, seed=seed).split(labels) for seed in (0, 1))
    assert not np.array_equal(first.train, second.train)


def test_the_border_that_is_dropped_is_that_of_the_window():
    split = RunSettings(TINY, "rank-1", 5, window=9).split(np.ones((20, 20), int))
    both = np.concatenate([split.train, split.test])
    assert (both.min(), both.max()) == (4, 15)


def test_the_hash_of_a_run_is_that_of_the_committed_records():
    """Were it another, every run of the published tables would have to be done again."""
    key = RunSettings("indian-pines", "rank-1", 10, seed=0).key
    assert key == "aed10b07e1e2fb73"
