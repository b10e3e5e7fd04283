import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from polyad.app import trainer as module
from polyad.app.labels import labels_csv
from polyad.cli import main
from polyad.errors import SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from tests.waiting import PATIENCE


@pytest.fixture
def work(make_work, truth, kit):
    return make_work(kit.quick, truth)


def stages(news):
    return [about["stage"] for kind, about in news if kind == "map"]


def test_labels_become_a_draft_and_then_the_final_map(work, kit):
    session, trainer, news = work
    kit.label_some(session)
    kit.wait_for(lambda: kit.finished(trainer))
    assert stages(news)[-2:] == ["draft", "final"]
    about = trainer.newest_map.about
    assert about["score"]["overall"] > 0.9
    assert about["labels"] == 15
    assert about["shares"].keys() == {"1", "2", "3"}
    assert {(r, c) for r, c, _ in about["advice"]}.isdisjoint(session.label_state.labels)
    assert trainer.means["1"]["count"] == 5


def test_saved_labels_through_polyad_train_give_the_same_model(work, scene, tmp_path, capsys, kit):
    session, trainer, _ = work
    kit.label_some(session)
    np.save(tmp_path / "scene.npy", scene.values)
    (tmp_path / "labels.csv").write_bytes(labels_csv(session.snapshot(), scene))
    trainer.final_model().save(tmp_path / "page.polyad")
    arguments = ["--preset", "fast", "--window", "3", "--hidden", "8", "--epochs", "30", "--out"]
    with pytest.raises(SystemExit) as left:
        main(["train", f"{tmp_path}/scene.npy", f"{tmp_path}/labels.csv", *arguments,
              f"{tmp_path}/cli.polyad"])  # fmt: skip
    assert left.value.code in (0, None)
    saved, trained = (SceneModel.load(tmp_path / f"{n}.polyad") for n in ("page", "cli"))
    same_weights(saved, trained)
    assert saved.classes == trained.classes
    assert saved.training.packed_pixels == trained.training.packed_pixels


@pytest.fixture
def best(make_work, truth, kit):
    """A trainer of the best preset whose first map is final, and what it published."""
    session, trainer, news = make_work(replace(kit.quick, preset="best"), truth)
    kit.label_some(session)
    trainer.final_model()
    return session, trainer, news


def test_the_best_map_after_drafts_is_the_one_that_train_and_map_give(best, scene):
    session, trainer, news = best
    session.do({"do": "label", "class": 1, "pixels": [[20, 3]]})
    model = trainer.final_model()
    labels = session.snapshot().raster(scene)
    other = train(scene, labels, preset="best", window=3, **trainer.settings.parameters)
    same_weights(model, other)
    assert model.recipe == other.recipe
    np.testing.assert_array_equal(trainer.newest_map.ids, map_scene(other, scene).values)
    assert stages(news)[-4:] == ["draft", "final"] * 2
    assert "labels propagated over 3 graphs of the scene" in trainer.newest_map.about["steps"]


def same_weights(first_model, second_model):
    first, second = (m.estimator.network_.state_dict() for m in (first_model, second_model))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[k], second[k]) for k in first)


def test_no_map_without_two_classes_and_it_goes_when_labels_go(work, kit):
    session, trainer, _ = work
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})
    kit.wait_for(lambda: trainer.means)
    assert trainer.newest_map.stage == "none"
    assert trainer.final_model() is None
    kit.label_some(session)
    kit.wait_for(lambda: kit.finished(trainer))
    session.do({"do": "delete", "class": 1})
    session.do({"do": "delete", "class": 2})
    kit.wait_for(lambda: trainer.newest_map.stage == "none")
    assert not trainer.newest_map.ids.any()


def test_newest_labels_win_and_an_outdated_fit_is_dropped(work, monkeypatch, kit):
    session, trainer, news = work
    begun, go_on, calls = threading.Event(), threading.Event(), []
    real = module.fit_preset

    def slow(scene, labels, *others, **options):
        calls.append(int((labels > 0).sum()))
        if len(calls) == 1:
            begun.set()
            go_on.wait(PATIENCE)
        return real(scene, labels, *others, **options)

    monkeypatch.setattr(module, "fit_preset", slow)
    kit.label_some(session)
    assert begun.wait(PATIENCE)
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})  # answered while the fit runs
    go_on.set()
    kit.wait_for(lambda: kit.finished(trainer))
    assert {
        about["labels"] for kind, about in news if kind == "map" and about["stage"] != "none"
    } == {16}


def test_labels_that_never_pause_still_get_a_map(work, monkeypatch, kit):
    session, _, news = work
    monkeypatch.setattr(module, "MAX_INTERRUPTED", 0.05)
    kit.label_some(session)
    end = time.monotonic() + PATIENCE
    k = 0
    while "draft" not in stages(news) and time.monotonic() < end:
        session.do({"do": "label", "class": 1, "pixels": [[k % 30, (k // 30) % 10]]})
        k += 1
    assert "draft" in stages(news)


def test_a_scene_that_cannot_be_read_is_a_message_and_the_fitter_goes_on(work, monkeypatch, kit):
    session, trainer, news = work
    real = module.fit_preset

    def broken(*_, **__):
        raise SceneError("the file is gone")

    monkeypatch.setattr(module, "fit_preset", broken)
    kit.label_some(session)
    kit.wait_for(lambda: any(kind == "problem" for kind, _ in news))
    assert "the file is gone" in next(a["message"] for k, a in news if k == "problem")
    monkeypatch.setattr(module, "fit_preset", real)
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})
    kit.wait_for(lambda: kit.finished(trainer))


def test_the_final_fit_waits_for_a_pause_unless_it_is_asked_for(work, monkeypatch, kit):
    session, trainer, news = work
    monkeypatch.setattr(module, "FINAL_DELAY", 3600.0)
    kit.label_some(session)
    kit.wait_for(lambda: trainer.newest_map.revision == 3)
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})
    kit.wait_for(lambda: trainer.newest_map.revision == 4)
    assert set(stages(news)) == {"draft"}
    assert trainer.final_model() is not None
    assert stages(news)[-1] == "final"


def test_renaming_a_class_needs_no_fit_and_reaches_the_model(work, kit):
    session, trainer, _ = work
    kit.label_some(session)
    kit.wait_for(lambda: kit.finished(trainer))
    version = trainer.newest_map.version
    session.do({"do": "change", "class": 1, "name": "Sea"})
    assert trainer.final_model().classes[0].name == "Sea"
    assert trainer.newest_map.version == version
