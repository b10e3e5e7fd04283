"""One seed, several streams: what is drawn from which, and which pixels may be tested."""

import warnings

import numpy as np
import pytest

from polyad.experiments.protocol import Protocol
from polyad.experiments.runs import NOISE_MAKERS, noisy
from polyad.scene.protocols import Blocks

TINY = "standin-tiny"


@pytest.mark.parametrize("noise", NOISE_MAKERS)
def test_noise_is_drawn_from_a_stream_of_its_own(noise):
    cube = np.random.default_rng(0).uniform(1, 5, size=(6, 7, 3)).astype(np.float32)
    found = noisy(cube, Protocol(TINY, "rank-1", 5, noise=noise, seed=3))
    of_pixels = NOISE_MAKERS[noise](cube, 0.2, random_state=np.random.default_rng(3))
    own = NOISE_MAKERS[noise](cube, 0.2, random_state=np.random.default_rng((3, 1)))
    assert np.abs(found - of_pixels).max() > 0.1
    np.testing.assert_array_equal(found, own)  # the committed records were made with this one


def test_noise_has_the_level_that_the_protocol_asks_for():
    cube = np.full((60, 60, 2), 100, np.float32)
    found = noisy(cube, Protocol(TINY, "rank-1", 5, noise="pixel", noise_level=0.4))
    assert found.std() == pytest.approx(40, rel=0.05)


def test_all_models_of_a_seed_train_and_test_on_the_same_pixels():
    labels = np.random.default_rng(0).integers(0, 3, size=(20, 20))
    first, second = (Protocol(TINY, m, 5, seed=2).split(labels) for m in ("rank-1", "cnn"))
    np.testing.assert_array_equal(first.train, second.train)
    np.testing.assert_array_equal(first.test, second.test)


def test_classes_without_training_pixels_are_not_tested():
    labels = np.zeros((40, 80), int)
    labels[2:5, 2:5] = labels[2:5, 62:65] = 1  # the rarest class decides who trains: left or right
    labels[8:18, 62:75] = 2  # and the right is all that this one has
    labels[22:35, 22:35] = labels[22:35, 42:55] = 3
    untaught = 0
    for seed in range(8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            drawn = Blocks(5, border="drop").split(labels, seed)
        trained, tested = (set(found.tolist()) for found in drawn.classes_of(labels))
        untaught += bool(tested - trained)
        kept = Protocol(TINY, "rank-1", 5, seed=seed, sampling="blocks").split(labels)
        trained, tested = (set(found.tolist()) for found in kept.classes_of(labels))
        assert tested <= trained
    assert untaught  # else nothing had to be left out
