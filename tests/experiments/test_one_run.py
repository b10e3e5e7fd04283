"""One run seen from its model: what it is made with, trained on and timed by."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polyad.experiments import runs
from polyad.experiments.evaluation import SceneEvaluator
from polyad.experiments.models import MODELS, Model
from polyad.experiments.runs import noisy, run_one
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import RunSettings
from polyad.scene.raster.windows import extract_patches

TINY = "standin-tiny"


class Listener:
    """A model without epochs that keeps what it is given."""

    made: "Listener"

    def __init__(self, random_state):
        self.seed, self.asked = random_state, []
        Listener.made = self

    def fit(self, patches, classes):
        self.patches, self.classes = patches, classes

    def predict(self, patches):
        self.asked.append(patches)
        return np.ones(len(patches), np.uint16)


@pytest.fixture
def run(monkeypatch):
    """Return the listener, its protocol, the noisy scene and its labels, after one run."""
    monkeypatch.setitem(
        MODELS, "rank-1", Model("listener", "keeps what it is given", Listener, iterative=False)
    )
    asked = RunSettings(TINY, "rank-1", 5, noise="pixel", seed=3)
    run_one(asked)
    data = load_scene(TINY)
    return Listener.made, asked, noisy(data.cube, asked), data.labels


def test_the_seed_of_a_run_is_that_of_its_model(run):
    assert run[0].seed == 3


def test_a_model_is_trained_on_the_noisy_patches_of_its_training_pixels(run):
    listener, asked, cube, labels = run
    train = asked.split(labels).train
    np.testing.assert_array_equal(listener.patches, extract_patches(cube, *train.T, 5))
    np.testing.assert_array_equal(listener.classes, labels[tuple(train.T)])


def test_a_model_is_tested_on_the_noisy_patches_of_its_test_pixels(run):
    listener, asked, cube, labels = run
    test = asked.split(labels).test
    np.testing.assert_array_equal(listener.asked[0], extract_patches(cube, *test.T, 5))


def test_a_network_is_asked_for_its_test_pixels_in_the_noisy_scene(monkeypatch):
    seen = []

    class Watched(SceneEvaluator):
        def __init__(self, cube, pixels, scaler, window):
            seen.append((cube, pixels))
            super().__init__(cube, pixels, scaler, window)

    monkeypatch.setattr(runs, "SceneEvaluator", Watched)
    asked = RunSettings(TINY, "rank-1", 5, noise="pixel", epochs=2)
    run_one(asked)
    ((cube, pixels),) = seen
    data = load_scene(TINY)
    np.testing.assert_array_equal(cube, noisy(data.cube, asked))
    np.testing.assert_array_equal(pixels, asked.split(data.labels).test)


def test_time_to_evaluate_is_no_time_to_fit(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    predict = SceneEvaluator.predict

    def slow(self, network):
        clock.now += 10
        return predict(self, network)

    monkeypatch.setattr(SceneEvaluator, "predict", slow)
    monkeypatch.setattr(runs, "time", SimpleNamespace(process_time=lambda: clock.now))
    record, _ = run_one(RunSettings(TINY, "rank-1", 5, epochs=2))
    assert record.seconds == {"fit": 0.0, "evaluate": 20.0}


def test_a_run_records_the_processor_and_the_threads_it_was_done_with():
    record, _ = runs.run_in_one_thread(RunSettings(TINY, "rank-1", 5, epochs=1))
    assert record.machine["threads"] == 1
    assert record.machine["processor"]
    assert record.machine["instructions"] == torch.backends.cpu.get_cpu_capability()


def test_biases_of_a_rank_r_network_are_not_counted_as_the_paper_counts():
    record, _ = run_one(RunSettings(TINY, "rank-2", 5, epochs=1))
    assert record.parameters == 2 * 75 * (5 + 5 + 12) + 75 * 3
