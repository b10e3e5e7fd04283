import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from polyad.errors import InputError
from polyad.scene.assess.scores import calibration_error, score
from polyad.scene.raster.classes import ClassInfo

CLASSES = [ClassInfo(v, n, "#123456") for v, n in [(1, "Corn"), (4, "Oats"), (7, "Woods")]]


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60))
def test_scores_equal_those_of_scikit_learn(seed, n):
    rng = np.random.default_rng(seed)
    true, pred = rng.choice([1, 4, 7], size=(2, n))
    got = score(true, pred, classes=CLASSES)
    assert got.overall_accuracy == pytest.approx(metrics.accuracy_score(true, pred))
    expected = metrics.confusion_matrix(true, pred, labels=[1, 4, 7])
    np.testing.assert_array_equal(got.confusion, expected)
    p, r, f, s = metrics.precision_recall_fscore_support(
        true, pred, labels=[1, 4, 7], zero_division=np.nan
    )
    np.testing.assert_allclose(got.precision, p)
    np.testing.assert_allclose(got.recall, r)
    np.testing.assert_allclose(got.f1, f)
    np.testing.assert_array_equal(got.support, s)
    assert got.average_accuracy == pytest.approx(np.nanmean(r))
    if len(np.union1d(true, pred)) > 1:
        assert got.kappa == pytest.approx(metrics.cohen_kappa_score(true, pred))


def test_no_overlap_accuracy_counts_only_pixels_apart_from_training():
    got = score([1, 1, 4, 4], [1, 4, 4, 1], no_overlap=np.array([True, False, True, True]))
    assert got.overall_accuracy == 0.5
    assert got.overall_accuracy_no_overlap == pytest.approx(2 / 3)
    assert got.n_test == 4
    assert got.n_test_no_overlap == 3


def test_calibration_error_by_hand():
    # Bin of 0.9: two of three right, 0.9 - 2/3; bin of 0.5: right, 0.5 off.
    right = np.array([True, True, False, True])
    confidence = np.array([0.9, 0.9, 0.9, 0.5])
    expected = 0.75 * (0.9 - 2 / 3) + 0.25 * 0.5
    assert calibration_error(right, confidence) == pytest.approx(expected)


def test_json_holds_the_promised_names_and_reads_back():
    got = score([1, 4, 4], [1, 4, 1], classes=CLASSES, no_overlap=np.array([True, True, False]))
    data = json.loads(json.dumps(got.to_dict(), allow_nan=False))
    assert data == got.to_dict()
    wanted = {"overall_accuracy", "average_accuracy", "kappa", "overall_accuracy_no_overlap"}
    assert wanted | {"n_test", "confusion_matrix", "expected_calibration_error"} <= set(data)
    assert data["classes"][0]["name"] == "Corn"
    assert data["classes"][2]["recall"] is None  # no Woods in the test set: NaN is not JSON
    assert data["confusion_matrix"] == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]


def test_kappa_is_undefined_where_chance_is_always_right():
    got = score([4, 4], [4, 4], classes=CLASSES)
    assert np.isnan(got.kappa)
    assert got.to_dict()["kappa"] is None


def test_table_for_people_names_classes_and_figures():
    text = str(score([1, 4, 4, 7], [1, 4, 1, 7], proba=np.full((4, 3), 1 / 3), classes=CLASSES))
    assert "overall accuracy      75.00%  (4 test pixels)" in text
    assert "calibration error" in text
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["1", "Corn", "50.00%", "100.00%", "66.67%", "1"],
        ["4", "Oats", "100.00%", "50.00%", "66.67%", "2"],
        ["7", "Woods", "100.00%", "100.00%", "100.00%", "1"],
    ]
    assert len({len(line) for line in text.splitlines()[-4:]}) == 1  # columns line up


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y_pred": [1]}, r"vectors of one length, got \(2,\) and \(1,\)"),
        ({"y_true": [], "y_pred": []}, "no test pixel to score"),
        ({"y_pred": [1, 9]}, r"class id 9 is scored but not in classes \(ids \[1, 4, 7\]\)"),
        ({"proba": np.ones((2, 2))}, r"proba must have shape \(2, 3\) .* got \(2, 2\)"),
    ],
)
def test_bad_input_gets_one_clear_sentence(arguments, message):
    good = {"y_true": [1, 4], "y_pred": [1, 4], "classes": CLASSES}
    with pytest.raises(InputError, match=message):
        score(**{**good, **arguments})
