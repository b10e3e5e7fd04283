"""Runs: what is drawn by which seed, the protocol followed, and the scene-wise evaluation."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polyad import RankRClassifier
from polyad.errors import InputError
from polyad.experiments import CNNClassifier, DenseClassifier, runs
from polyad.experiments.records import MapStore, RecordStore, RunRecord
from polyad.experiments.runs import SceneEvaluator, noisy, run_all, run_one
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import (
    MODELS,
    RUN_PROTOCOLS,
    STORED_NAMES,
    Model,
    Plan,
    RunSettings,
)
from polyad.scene.learn.sampling import DRAWS, Split, no_overlap, per_class
from polyad.scene.raster.windows import extract_patches, interior

TINY = "standin-tiny"


@pytest.mark.parametrize(
    "model",
    [
        RankRClassifier.paper(rank=1, epochs=2, random_state=0),
        RankRClassifier.paper(rank=3, epochs=2, random_state=0, hidden_bias=True),
        CNNClassifier(kernels=(8, 9), epochs=2, random_state=0),
        DenseClassifier(epochs=2, random_state=0),
    ],
    ids=["rank-1", "rank-3", "cnn", "dense"],
)
@pytest.mark.parametrize("sparse", [False, True], ids=["many pixels", "few pixels"])
def test_scene_wise_evaluation_equals_patch_by_patch(model, sparse, monkeypatch):
    monkeypatch.setattr(runs, "STRIP_PIXELS", 400)  # several strips
    data = load_scene(TINY)
    split = per_class(data.labels, 5, 0)
    patches = extract_patches(data.cube, *split.train.T, 5)
    model.fit(patches, data.labels[tuple(split.train.T)])
    pixels = split.test[::20] if sparse else split.test
    evaluator = SceneEvaluator(data.cube, pixels, model.scaler_)
    assert evaluator.sparse == sparse
    wanted = model.predict(extract_patches(data.cube, *pixels.T, 5))
    assert (model.classes_[evaluator.predict(model.network_)] == wanted).mean() > 0.999
    if isinstance(model, RankRClassifier):
        everywhere = np.argwhere(data.labels >= 0)
        wanted = model.predict(extract_patches(data.cube, *everywhere.T, 5))
        got = model.classes_[evaluator.map(model.network_)]
        assert (got.ravel() == wanted).mean() > 0.999


@pytest.mark.parametrize("model", list(MODELS))
def test_every_model_runs_and_is_scored(model):
    record, class_map = run_one(RunSettings(TINY, model, 5, epochs=2))
    assert 0.2 < record.final.oa <= 1
    assert class_map.shape == (40, 32)
    assert set(np.unique(class_map)) <= {1, 2, 3}
    assert record.n_train == 15
    if MODELS[model].iterative:
        assert len(record.curve) == 2
        assert record.curve[-1] == round(10_000 * record.final.oa)
    assert record.settings["model_settings"] == {
        STORED_NAMES.get(name, name): value for name, value in MODELS[model].settings.items()
    }
    if model == "rank-2":  # as the paper counts, without biases
        assert record.parameters == 2 * 75 * (5 + 5 + 12) + 75 * 3


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    first, again, other = (
        run_one(RunSettings(TINY, "rank-1", 5, epochs=3, seed=seed, noise="pixel"))[0]
        for seed in (1, 1, 2)
    )
    assert first.curve == again.curve
    assert first.scores == again.scores
    assert first.curve != other.curve


@pytest.mark.parametrize("protocol", RUN_PROTOCOLS)
def test_a_run_draws_its_pixels_by_the_protocol_of_its_name(protocol):
    asked = RunSettings(TINY, "svm-spectrum", 4, protocol=protocol)
    labels = load_scene(TINY).labels
    split = asked.split(labels)
    record, _ = run_one(asked)
    assert (record.n_train, record.n_test) == (len(split.train), len(split.test))
    assert interior(*split.test.T, labels.shape, 5).all()  # the paper drops the border
    trained, tested = split.classes_of(labels)
    assert set(tested) <= set(trained)
    if protocol == "blocks":
        assert record.n_test_no_overlap == record.n_test
    if protocol != "random":
        assert asked.cell.endswith(f"_{protocol}")
        assert RunRecord.from_json(record.to_line(), "record").run == asked


def test_runs_spread_over_processes_equal_runs_one_after_another(tmp_path):
    plan = Plan([TINY], ["rank-1"], [5], ["none"], runs=3, epochs=2).settings([TINY])
    one, two = RecordStore(tmp_path / "one"), RecordStore(tmp_path / "two")
    threads = torch.get_num_threads()
    run_all(plan, one, progress=False)
    assert run_all(plan, two, MapStore(tmp_path / "maps"), jobs=2, progress=False) == 3
    curves = [{r.key: (r.curve, r.scores) for r in store.load()} for store in (one, two)]
    assert curves[0] == curves[1]
    assert torch.get_num_threads() == threads
    assert MapStore(tmp_path / "maps").load(plan[0].cell).shape == (40, 32)
    assert run_all(plan, two, jobs=2, progress=False) == 0  # nothing is done twice


# --- what a model is given -----------------------------------------------------------------------


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


def test_a_model_gets_the_seed_and_the_noisy_patches_of_its_pixels(monkeypatch):
    monkeypatch.setitem(MODELS, "rank-1", Model("listener", Listener, iterative=False))
    asked = RunSettings(TINY, "rank-1", 5, noise="pixel", seed=3)
    run_one(asked)
    given, data = Listener.made, load_scene(TINY)
    cube, split = noisy(data.cube, asked), asked.split(data.labels)
    assert given.seed == 3
    np.testing.assert_array_equal(given.patches, extract_patches(cube, *split.train.T, 5))
    np.testing.assert_array_equal(given.classes, data.labels[tuple(split.train.T)])
    np.testing.assert_array_equal(given.asked[0], extract_patches(cube, *split.test.T, 5))


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


def test_a_run_is_scored_on_its_test_pixels_alone_and_each_score_has_its_name(monkeypatch):
    asked, seen = RunSettings(TINY, "svm-spectrum", 5, noise="pixel", seed=1), {}
    original = runs.score

    def watched(true, predicted, no_overlap):
        seen.update(
            true=true, apart=no_overlap, got=original(true, predicted, None, None, no_overlap)
        )
        return seen["got"]

    monkeypatch.setattr(runs, "score", watched)
    record, _ = run_one(asked)
    labels = load_scene(TINY).labels
    split = asked.split(labels)
    np.testing.assert_array_equal(seen["true"], labels[tuple(split.test.T)])
    np.testing.assert_array_equal(seen["apart"], no_overlap(split, labels.shape, 5))
    got = seen["got"]
    assert record.final.to_data() == {
        "oa": round(got.overall_accuracy, 6),
        "aa": round(got.average_accuracy, 6),
        "kappa": round(got.kappa, 6),
        "oa_no_overlap": round(got.overall_accuracy_no_overlap, 6),
    }
    assert len(set(record.final.to_data().values())) == 4


def test_a_long_run_keeps_its_scores_of_the_50th_epoch_and_of_the_last():
    record, _ = run_one(RunSettings(TINY, "rank-1", 2, epochs=52))
    assert set(record.scores) == {"50", "52"}
    assert record.value(epoch=50) == pytest.approx(100 * record.scores["50"].oa, abs=0.01)


# --- settings and random streams -----------------------------------------------------------------


def test_noise_is_drawn_from_a_stream_of_its_own():
    cube = np.random.default_rng(0).uniform(1, 5, size=(6, 7, 3)).astype(np.float32)
    found = noisy(cube, RunSettings(TINY, "rank-1", 5, noise="band-offset", seed=3))
    scale = np.float32(0.2) * cube.max(axis=(0, 1))
    own, of_pixels = (
        cube + np.random.default_rng(seed).standard_normal(3, dtype=np.float32) * scale
        for seed in ((3, 1), 3)
    )
    assert np.abs(found - of_pixels).max() > 0.1
    np.testing.assert_array_equal(found, own)  # the committed records were made with this one


def test_classes_without_training_pixels_are_not_tested(monkeypatch):
    def unfair(labels, n, seed, border, window):
        """Train on two classes and test on three."""
        pixels = np.argwhere(labels > 0)
        return Split(pixels[labels[labels > 0] < 3][:20], pixels[20:])

    monkeypatch.setitem(DRAWS, "blocks", unfair)
    labels = np.repeat([1, 2, 1, 2, 3], 10).reshape(5, 10)
    split = RunSettings(TINY, "rank-1", 5, protocol="blocks").split(labels)
    assert labels[tuple(split.train.T)].tolist() == [1] * 10 + [2] * 10
    assert labels[tuple(split.test.T)].tolist() == [1] * 10 + [2] * 10


def test_the_hash_of_a_run_is_that_of_the_committed_records():
    """Were it another, every run of the published tables would have to be done again."""
    assert RunSettings("indian-pines", "rank-1", 10, seed=0).key == "aed10b07e1e2fb73"
    run = RunSettings("indian-pines", "cnn", 10, "pixel", seed=1)
    assert (run.key, run.cell) == ("4904649696410001", "indian-pines_cnn_10_pixel")


def test_the_key_changes_with_every_setting_and_with_the_models_own(monkeypatch):
    base = RunSettings(TINY, "rank-1", 5)
    changes = (
        {},
        {"model": "rank-2"},
        {"samples_per_class": 6},
        {"noise": "pixel"},
        {"seed": 1},
        {"epochs": 50},
        {"protocol": "blocks"},
    )
    keys = {replace(base, **change).key for change in changes}
    assert len(keys) == 7
    changed = dict(MODELS["rank-1"].settings) | {"learning_rate": 1.0}
    monkeypatch.setitem(MODELS, "rank-1", replace(MODELS["rank-1"], settings=changed))
    assert base.key not in keys


def test_noise_levels_multiply_the_noisy_runs_alone():
    plan = Plan([TINY], ["cnn"], [5], ["none", "pixel"], 1, 1, noise_level=(0.05, 0.2))
    cells = [f"{TINY}_cnn_5_none", f"{TINY}_cnn_5_pixel-0.05", f"{TINY}_cnn_5_pixel"]
    assert [run.cell for run in plan.settings([TINY])] == cells


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": ["rank-9"]}, "rank-9.* known are rank-1, .*cnn"),
        ({"noise": ["loud"]}, "loud.* known are none, pixel, band-offset"),
        ({"protocol": ["luck"]}, "luck.* protocol; known are random, other-fields, blocks"),
        ({"noise_level": [5]}, r"above 0 and at most 1, .*0.05 is 5 %.* got \[5\]"),
        ({"runs": -1}, "runs must be at least 0"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"samples_per_class": [0]}, "samples_per_class must be at least 1"),
    ],
)
def test_bad_plans_say_what_is_known(change, words):
    with pytest.raises(InputError, match=words):
        Plan(**change)
