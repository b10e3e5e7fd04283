"""Runs: the protocol followed, the scene-wise evaluation equal to patch by patch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from polyad import RankRClassifier
from polyad.baselines import CNNClassifier, DenseClassifier
from polyad.errors import InputError
from polyad.experiments.evaluation import SceneEvaluator
from polyad.experiments.models import MODELS
from polyad.experiments.records import MapStore, Record, RecordStore
from polyad.experiments.runs import run_all, run_one
from polyad.experiments.scenes import load_scene, present_scenes
from polyad.experiments.settings import RUN_PROTOCOLS, STORED_NAMES, RunSettings, plan_runs
from polyad.experiments.standins import STANDINS, make_standin
from polyad.scene.learn.sampling import per_class
from polyad.scene.raster.windows import extract_patches, interior

TINY = "standin-tiny"


@pytest.mark.parametrize(
    "model",
    [
        RankRClassifier.paper(rank=1, epochs=2, random_state=0),
        RankRClassifier.paper(rank=3, epochs=2, random_state=0, hidden_bias=True),
        CNNClassifier((8, 9), epochs=2, random_state=0),
        DenseClassifier(epochs=2, random_state=0),
    ],
    ids=["rank-1", "rank-3", "cnn", "dense"],
)
@pytest.mark.parametrize("sparse", [False, True], ids=["many pixels", "few pixels"])
def test_scene_wise_evaluation_equals_patch_by_patch(model, sparse, monkeypatch):
    monkeypatch.setattr("polyad.experiments.evaluation.STRIP_PIXELS", 400)  # several strips
    data = load_scene(TINY)
    split = per_class(data.labels, 5, 0)
    patches = extract_patches(data.cube, *split.train.T, 5)
    model.fit(patches, data.labels[tuple(split.train.T)])
    pixels = split.test[::20] if sparse else split.test
    evaluator = SceneEvaluator(data.cube, pixels, model.scaler_)
    assert evaluator.sparse == sparse
    wanted = model.predict(extract_patches(data.cube, *pixels.T, 5))
    assert (model.classes_[evaluator.predict(model.network_)] == wanted).mean() > 0.999
    everywhere = np.argwhere(data.labels >= 0)
    wanted = model.predict(extract_patches(data.cube, *everywhere.T, 5))
    got = model.classes_[evaluator.map(model.network_)]
    assert (got.ravel() == wanted).mean() > 0.999


@pytest.mark.parametrize("model", list(MODELS))
def test_every_model_runs_and_is_scored(model):
    record, class_map = run_one(RunSettings(TINY, model, 5, epochs=2))
    assert 0.2 < record.final["oa"] <= 1
    assert class_map.shape == (40, 32)
    assert set(np.unique(class_map)) <= {1, 2, 3}
    assert record.n_train == 15
    assert len(record.curve) == (2 if MODELS[model].iterative else 0)
    assert record.stored["model_settings"] == {
        STORED_NAMES.get(name, name): value for name, value in MODELS[model].settings.items()
    }


def test_the_curve_ends_with_the_final_score():
    record, _ = run_one(RunSettings(TINY, "rank-2", 5, epochs=4))
    assert record.curve[-1] == round(10_000 * record.final["oa"])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    first, again, other = (
        run_one(RunSettings(TINY, "rank-1", 5, epochs=3, seed=seed, noise="pixel"))[0]
        for seed in (1, 1, 2)
    )
    assert first.curve == again.curve
    assert first.scores == again.scores
    assert first.curve != other.curve


def test_a_band_offset_changes_nothing_but_pixel_noise_does():
    plain, offset, pixel = (
        run_one(RunSettings(TINY, "rank-1", 5, epochs=5, noise=noise))[0]
        for noise in ("none", "band-offset", "pixel")
    )
    assert np.abs(plain.accuracies() - offset.accuracies()).max() < 0.5
    assert plain.final["oa"] > pixel.final["oa"] + 0.05


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
        assert Record.from_line(record.to_line()).settings == asked


def test_runs_spread_over_processes_equal_runs_one_after_another(tmp_path):
    plan = plan_runs([TINY], ["rank-1"], [5], ["none"], runs=3, epochs=2)
    one, two = RecordStore(tmp_path / "one"), RecordStore(tmp_path / "two")
    threads = torch.get_num_threads()
    run_all(plan, one, progress=False)
    assert run_all(plan, two, MapStore(tmp_path / "maps"), jobs=2, progress=False) == 3
    curves = [{r.key: (r.curve, r.scores) for r in store.load()} for store in (one, two)]
    assert curves[0] == curves[1]
    assert torch.get_num_threads() == threads
    assert MapStore(tmp_path / "maps").load(plan[0].cell).shape == (40, 32)
    assert run_all(plan, two, jobs=2, progress=False) == 0  # nothing is done twice


def test_progress_says_how_many_are_done_when_it_ends_and_how_good_the_last_were(tmp_path, capsys):
    plan = plan_runs([TINY], ["rank-1"], [5], ["none"], runs=2, epochs=2)
    run_all(plan, RecordStore(tmp_path))
    said = capsys.readouterr().err
    assert "2/2 runs" in said
    assert "last rank-1 " in said
    assert "done " in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": ["rank-9"]}, "rank-9.* known are rank-1, .*cnn"),
        ({"noises": ["loud"]}, "loud.* known are none, pixel, band-offset"),
        ({"protocols": ["luck"]}, "luck.* protocol; known are random, other-fields, blocks"),
        ({"noise_levels": [5]}, "expected above 0 and at most 1, got 5; 0.05 is 5 %"),
        ({"runs": -1}, "runs must not be negative"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"samples_per_class": [0]}, "samples_per_class must be at least 1"),
    ],
)
def test_bad_plans_say_what_is_known(change, words):
    asked = {
        "scenes": [TINY],
        "models": ["cnn"],
        "samples_per_class": [5],
        "noises": ["none"],
        "runs": 1,
        "epochs": 1,
    }
    with pytest.raises(InputError, match=words):
        plan_runs(**(asked | change))


def test_noise_levels_multiply_the_noisy_runs_alone():
    plan = plan_runs([TINY], ["cnn"], [5], ["none", "pixel"], 1, 1, noise_levels=(0.05, 0.2))
    cells = [f"{TINY}_cnn_5_none", f"{TINY}_cnn_5_pixel-0.05", f"{TINY}_cnn_5_pixel"]
    assert [run.cell for run in plan] == cells


def test_key_and_cell_at_the_papers_noise_level_are_those_of_the_first_records():
    run = RunSettings("indian-pines", "cnn", 10, "pixel", seed=1)
    assert run.key == "4904649696410001"  # docs/results/records/indian-pines_cnn_10_pixel.jsonl
    assert run.cell == "indian-pines_cnn_10_pixel"


def test_an_unknown_scene_lists_the_known_ones():
    with pytest.raises(InputError, match=r"known are indian-pines, .*standin-botswana"):
        present_scenes(["mars"])


def test_a_scene_that_was_not_fetched_is_missing_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path))
    here, missing = present_scenes(["indian-pines", "botswana"])
    assert here == ["indian-pines"]
    assert "polyad fetch botswana" in missing["botswana"]


def test_the_key_changes_with_every_setting_and_with_the_models_own(monkeypatch):
    base = RunSettings(TINY, "rank-1", 5)
    keys = {
        base.key,
        RunSettings(TINY, "rank-2", 5).key,
        RunSettings(TINY, "rank-1", 6).key,
        RunSettings(TINY, "rank-1", 5, noise="pixel").key,
        RunSettings(TINY, "rank-1", 5, seed=1).key,
        RunSettings(TINY, "rank-1", 5, epochs=50).key,
        RunSettings(TINY, "rank-1", 5, protocol="blocks").key,
    }
    assert len(keys) == 7
    changed = dict(MODELS["rank-1"].settings) | {"learning_rate": 1.0}
    monkeypatch.setitem(MODELS, "rank-1", replace(MODELS["rank-1"], settings=changed))
    assert base.key not in keys


@pytest.mark.parametrize(("name", "total"), [("pavia-university", 42776), ("botswana", 3248)])
def test_standins_have_the_shape_and_label_counts_of_what_they_stand_for(name, total):
    from polyad.scene.files.benchmark_scenes import KNOWN_SCENES

    row = STANDINS[f"standin-{name}"]
    assert row.shape == KNOWN_SCENES[name].shape
    assert len(row.counts) == len(KNOWN_SCENES[name].class_names)
    assert sum(row.counts) == total


def test_a_standin_is_made_the_same_way_every_time():
    first, second = (make_standin(STANDINS[TINY]) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
