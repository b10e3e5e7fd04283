"""Accuracy of labels that were held out: figures, what is missing, words, file."""

import json

import numpy as np
import pytest

from polyad.codec import Fault
from polyad.scene.assess.scores import score
from polyad.scene.learn.accuracy import (
    CrossValidation,
    HeldOutLabels,
    cross_validation,
    held_out_accuracy,
)
from polyad.scene.learn.folds import SpatialFolds

NAMES = ("corn", "soil", "water")


def some(n=90, right=0.7, places=30, seed=0, **more):
    """Return ``n`` labels of three classes in places of equal size."""
    rng = np.random.default_rng(seed)
    targets, group = np.arange(n) % 3, np.arange(n) * places // n
    wrong = (targets + rng.integers(1, 3, n)) % 3
    predicted = np.where(rng.random(n) < right, targets, wrong)
    return HeldOutLabels(targets, predicted, SpatialFolds(group % 5, group, 8, **more))


def test_figures_are_those_of_the_scores_of_a_map():
    tested = some()
    found, scores = (
        held_out_accuracy(tested, NAMES),
        score(tested.targets + 1, tested.predicted + 1),
    )
    assert found.overall == pytest.approx(scores.overall_accuracy)
    assert found.average == pytest.approx(scores.average_accuracy)
    assert found.kappa == pytest.approx(scores.kappa)
    assert [c.recall for c in found.classes] == pytest.approx(scores.recall.tolist())
    assert [c.precision for c in found.classes] == pytest.approx(scores.precision.tolist())
    assert np.array_equal(found.confusion, scores.confusion)


def test_a_class_that_could_not_be_tested_is_named_and_counted():
    tested = some()
    water = tested.targets == 2
    tested = tested._replace(
        predicted=np.where(water, -1, np.minimum(tested.predicted, 1)),
        folds=tested.folds._replace(group=np.where(water, 99, tested.folds.group)),
    )
    found = cross_validation(tested, NAMES)
    assert found.not_tested == {"water": 30}
    assert found.needed == {"water": 1}
    assert found.spatial.labels == 60
    assert found.spatial.classes[2].recall is None
    assert "not tested, since all labels lie together: water" in str(found)
    assert "label it in more places: water 1" in str(found)


def test_where_nothing_could_be_tested_it_says_how_many_places_of_which_class_are_missing():
    tested = some()
    folds = tested.folds._replace(group=tested.targets)
    found = cross_validation(tested._replace(predicted=np.full(90, -1), folds=folds), NAMES)
    assert found.spatial is None
    assert str(found).endswith("label more places, at least: corn 1, soil 1, water 1")


def test_folds_that_split_groups_say_nothing_of_accuracy():
    assert cross_validation(some(split=True), NAMES).spatial is None


def test_both_figures_are_in_the_table():
    found = cross_validation(some(), NAMES, some(right=0.9, places=90, by="pixels"))
    text = str(found)
    assert f"{100 * found.spatial.overall:.1f}" in text
    assert f"{100 * found.pixelwise.overall:.1f}" in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("places", [30, 1])
def test_a_file_gives_back_what_it_was_given(places):
    found = cross_validation(some(places=places), NAMES, some(places=90, by="pixels"))
    stored = json.loads(json.dumps(found.to_dict()))
    assert CrossValidation.from_data(stored, "accuracy") == found


def checked(stored, names):
    """Read an accuracy as part of the model of these classes."""
    try:
        CrossValidation.from_data(stored, "accuracy").check_names(names, "accuracy")
    except ValueError as error:
        raise Fault(str(error)) from error


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"by": "luck"}, "accuracy.spatial.by must be 'blocks'"),
        ({"overall_accuracy": 1.5}, "accuracy.spatial.overall_accuracy must be less than"),
        ({"confusion_matrix": [[1, 2]]}, "accuracy.spatial.confusion_matrix must be a square"),
        ({"classes": []}, "accuracy.spatial.classes must have at least 1 item"),
        ({"folds": 0}, "accuracy.spatial.folds must be greater than or equal to 1"),
        ({"more": 1}, "accuracy.spatial has a key 'more'"),
    ],
)
def test_a_file_that_lies_is_refused(change, wanted):
    stored = cross_validation(some(), NAMES).to_dict()
    stored["spatial"] |= change
    with pytest.raises(Fault, match=wanted.replace("[", r"\[")):
        checked(stored, NAMES)


def test_a_file_with_other_classes_is_refused():
    with pytest.raises(Fault, match="classes must be named as in the model, got"):
        checked(cross_validation(some(), NAMES).to_dict(), [*NAMES, "rye"])


def test_an_accuracy_of_classes_that_the_model_lacks_is_refused():
    stored = cross_validation(some(places=1), NAMES).to_dict()
    others = ["?", *NAMES[1:]]
    with pytest.raises(Fault, match=r"spatial\.classes must be named as in the model, got"):
        checked(stored, others)
    with pytest.raises(Fault, match=r"needed must name classes of the model, got"):
        checked(stored | {"spatial": None}, others)
