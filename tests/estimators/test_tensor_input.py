"""The estimators on tensors of order two and more, inside scikit-learn's own tools."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from polyad import ModeStandardScaler, RankRClassifier, RankRRegressor

QUICK = {"hidden": 8, "epochs": 30, "random_state": 0}
SHAPES = [(4, 5), (3, 3, 6), (2, 3, 2, 4)]  # orders 2, 3, 4


def made(shape=(3, 3, 6), n=60, n_classes=3, seed=0):
    """Samples whose class is the largest of a few entries: easy to learn."""
    X = np.random.default_rng(seed).normal(size=(n, *shape))
    X.reshape(n, -1)[:, :n_classes] *= 3
    return X, X.reshape(n, -1)[:, :n_classes].argmax(axis=1)


X3, Y3 = made()


@pytest.fixture(autouse=True)
def callers_state():
    """Whatever an estimator does, the seeds, threads and types of the caller stay."""
    seed, threads, dtype = (
        torch.random.get_rng_state(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
    )
    numbers = np.random.get_state()[1].copy()  # noqa: NPY002
    yield
    assert torch.equal(torch.random.get_rng_state(), seed)
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == dtype
    assert_array_equal(np.random.get_state()[1], numbers)  # noqa: NPY002


# -- what every estimator does ----------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", ["joint", "alternating"])
def test_classes_are_learned_from_tensors_of_every_order(shape, solver):
    X, y = made(shape)
    rate = 0.01 if solver == "alternating" else "auto"
    model = RankRClassifier(**QUICK, solver=solver, learning_rate=rate).fit(X, y)
    assert model.score(X, y) > 0.8
    proba = model.predict_proba(X)
    assert proba.shape == (60, 3)
    assert_allclose(proba.sum(axis=1), 1)
    assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    assert_array_equal(model.classes_[model.decision_function(X).argmax(axis=1)], model.predict(X))
    assert model.sample_shape_ == shape
    assert len(model.history_) == model.n_iter_ <= 30
    assert model.history_.score[-1] > model.history_.score[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("targets", [(), (1,), (2,)])
def test_numbers_are_learned_from_tensors_of_every_order(shape, targets):
    X, _ = made(shape)
    y = X.reshape(60, -1)[:, : targets[0] if targets else 1] * 100 + 7
    y = y.reshape(60, *targets)
    model = RankRRegressor(hidden=20, random_state=0).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > 0.9


def test_two_classes_have_one_decision_positive_for_the_second():
    X, y = made(n_classes=2)
    model = RankRClassifier(**QUICK).fit(X, y)
    decision = model.decision_function(X)
    assert decision.shape == (60,)
    assert_array_equal(decision > 0, model.predict(X) == 1)


def test_same_seed_same_bits_and_another_seed_others():
    one, other, third = (
        RankRClassifier(**(QUICK | {"random_state": s})).fit(X3, Y3).predict_proba(X3)
        for s in (1, 1, 2)
    )
    assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_minibatches_and_early_stopping_with_the_same_seed_give_the_same_bits():
    settings = QUICK | {"batch_size": 16, "early_stopping": True}
    one, other = (RankRClassifier(**settings).fit(X3, Y3).predict_proba(X3) for _ in range(2))
    assert_array_equal(one, other)


def test_fitting_again_forgets_the_first_fit():
    model = RankRClassifier(**QUICK).fit(*made((4, 5), n_classes=2))
    model.fit(X3, Y3)
    fresh = RankRClassifier(**QUICK).fit(X3, Y3)
    assert_array_equal(model.predict_proba(X3), fresh.predict_proba(X3))
    assert_array_equal(model.classes_, [0, 1, 2])


def test_prediction_in_chunks_is_that_of_the_whole(monkeypatch):
    model = RankRClassifier(**QUICK).fit(X3, Y3)
    whole = model.predict_proba(X3)
    monkeypatch.setattr("polyad.estimators.base.CHUNK_BYTES", 7 * X3[0].nbytes)
    assert_allclose(model.predict_proba(X3), whole, rtol=1e-12)


def test_nothing_handed_in_is_changed():
    X, y = X3.copy(), Y3.copy()
    weight = np.linspace(0.5, 2, len(y))
    given = weight.copy()
    RankRClassifier(**QUICK, class_weight="balanced", standardize=None).fit(X, y, weight)
    assert_array_equal(X, X3)
    assert_array_equal(y, Y3)
    assert_array_equal(weight, given)


@pytest.mark.parametrize("standardize", [None, -1])
def test_read_only_and_mapped_memory_is_taken(standardize, tmp_path):
    np.save(tmp_path / "x.npy", X3)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = RankRClassifier(**QUICK, standardize=standardize).fit(mapped, Y3)
    expected = RankRClassifier(**QUICK, standardize=standardize).fit(X3, Y3)
    assert_array_equal(model.predict_proba(mapped), expected.predict_proba(X3))


def test_memory_layout_does_not_matter():
    expected = RankRClassifier(**QUICK).fit(X3, Y3).predict_proba(X3)
    for X in (np.asfortranarray(X3), X3[::-1].copy()[::-1], X3.astype(">f8")):
        assert_allclose(RankRClassifier(**QUICK).fit(X, Y3).predict_proba(X), expected, rtol=1e-9)


# -- copies -----------------------------------------------------------------------------------


def through_joblib(model):
    stream = io.BytesIO()
    joblib.dump(model, stream)
    stream.seek(0)
    return joblib.load(stream)


@pytest.mark.parametrize(
    "copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, through_joblib]
)
@pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor])
def test_copies_predict_bit_for_bit_and_can_learn_on(copied, kind):
    model = kind(**QUICK).fit(X3, Y3)
    twin = copied(model)
    assert_array_equal(twin.predict(X3), model.predict(X3))
    assert twin.history_ == model.history_
    twin.partial_fit(X3, Y3)
    assert twin.n_iter_ == model.n_iter_ + 1
    assert kind(**QUICK).fit(X3, Y3).predict(X3).tolist() == model.predict(X3).tolist()


# -- scikit-learn's tools ---------------------------------------------------------------------


def test_cross_validation():
    model = RankRClassifier(**QUICK)
    assert cross_val_score(model, X3, Y3, cv=3).mean() > 0.6
    assert cross_val_predict(model, X3, Y3, cv=3, method="predict_proba").shape == (60, 3)


def test_pipeline_with_the_scaler_equals_standardising_inside():
    pipeline = make_pipeline(ModeStandardScaler(), RankRClassifier(**QUICK, standardize=None)).fit(
        X3, Y3
    )
    inside = RankRClassifier(**QUICK, standardize=-1).fit(X3, Y3)
    assert_allclose(pipeline.predict_proba(X3), inside.predict_proba(X3), rtol=1e-9)


def test_grid_search_over_a_pipeline_with_sample_weight():
    pipeline = Pipeline([("scale", ModeStandardScaler()), ("model", RankRClassifier(**QUICK))])
    search = GridSearchCV(pipeline, {"scale__mode": [0, -1], "model__rank": [1, 2]}, cv=2)
    search.fit(X3, Y3, model__sample_weight=np.ones(60))
    assert search.score(X3, Y3) > 0.6


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_calibration(method, ensemble):
    model = CalibratedClassifierCV(RankRClassifier(**QUICK), method=method, cv=2, ensemble=ensemble)
    proba = model.fit(X3, Y3).predict_proba(X3)
    assert_allclose(proba.sum(axis=1), 1)


MEMBERS = [("one", RankRClassifier(**QUICK)), ("two", RankRClassifier(**QUICK, rank=2))]
WITH_DUMMY = [MEMBERS[0], ("none", DummyClassifier())]


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("model", "least"),
    [
        (VotingClassifier(MEMBERS, voting="hard"), 0.8),
        (VotingClassifier(MEMBERS, voting="soft"), 0.8),
        (StackingClassifier(WITH_DUMMY, LogisticRegression(), cv=2), 0.7),
    ],
)
def test_voting_and_stacking(model, least):
    assert model.fit(X3, Y3).score(X3, Y3) > least


def test_one_against_the_rest_and_permutation_importance():
    model = OneVsRestClassifier(RankRClassifier(**QUICK))
    X, y = made((8,))
    assert model.fit(X, y).score(X, y) > 0.8
    fitted = RankRClassifier(**QUICK).fit(X, y)
    assert permutation_importance(fitted, X, y, n_repeats=1, random_state=0).importances.any()


# -- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        np.array(["water", "soil", "tree"]),
        np.array(["water", "soil", "tree"], dtype=object),
        np.array([-5, 3, 1000]),
        np.array([7, 200, 13], dtype=np.uint8),
        np.array([-1.0, 0.0, 1.0]),
        np.array([False, True, False]),
    ],
)
def test_labels_of_any_kind_come_back(names):
    y = names[Y3]
    model = RankRClassifier(**QUICK).fit(X3, y)
    assert_array_equal(model.classes_, np.unique(names))
    predicted = model.predict(X3)
    assert predicted.dtype == names.dtype
    assert (predicted == y).mean() > 0.9
    assert_array_equal(model.classes_[model.predict_proba(X3).argmax(axis=1)], predicted)


def test_labels_may_be_a_list_or_a_tensor():
    expected = RankRClassifier(**QUICK).fit(X3, Y3).predict_proba(X3)
    for y in (Y3.tolist(), torch.from_numpy(Y3)):
        assert_array_equal(RankRClassifier(**QUICK).fit(X3, y).predict_proba(X3), expected)


def test_one_class_is_predicted_always():
    model = RankRClassifier(**QUICK).fit(X3, np.full(60, "only"))
    assert set(model.predict(X3)) == {"only"}
    assert_array_equal(model.predict_proba(X3), np.ones((60, 1)))
    assert model.decision_function(X3).shape == (60,)


def test_a_class_of_one_sample_among_many_is_learned():
    y = np.zeros(60, dtype=int)
    y[11] = 1
    model = RankRClassifier(hidden=8, class_weight="balanced", random_state=0).fit(X3, y)
    assert_array_equal(model.predict(X3), y)


def test_early_stopping_copes_with_a_class_of_one_sample():
    y = np.where(np.arange(60) == 11, 2, Y3 % 2)
    model = RankRClassifier(**QUICK, early_stopping=True).fit(X3, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert len(model.history_.validation_loss) == model.n_iter_


# -- weights ----------------------------------------------------------------------------------


def test_class_weight_is_sample_weight():
    weight = {0: 1.0, 1: 5.0, 2: 0.2}
    by_class = RankRClassifier(**QUICK, class_weight=weight).fit(X3, Y3)
    by_sample = RankRClassifier(**QUICK).fit(X3, Y3, np.array([weight[k] for k in Y3]))
    assert_array_equal(by_class.predict_proba(X3), by_sample.predict_proba(X3))


def test_sample_weight_counts_as_repetition():
    times = np.arange(60) % 3
    settings = QUICK | {"patience": None}
    weighted = RankRClassifier(**settings).fit(X3, Y3, sample_weight=times)
    repeated = RankRClassifier(**settings).fit(np.repeat(X3, times, axis=0), np.repeat(Y3, times))
    assert_allclose(weighted.predict_proba(X3), repeated.predict_proba(X3), rtol=1e-4, atol=1e-6)


def test_samples_of_no_weight_are_not_learned():
    wrong = np.where(np.arange(60) < 20, (Y3 + 1) % 3, Y3)
    weight = (np.arange(60) >= 20).astype(float)
    model = RankRClassifier(**QUICK).fit(X3, wrong, sample_weight=weight)
    assert model.score(X3[:20], Y3[:20]) > 0.5


# -- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("convert", "got"),
    [
        (lambda X: X.astype(np.float16), np.float32),
        (lambda X: X.astype(np.float32), np.float32),
        (lambda X: (X * 100).astype(np.int16), np.float32),
        (lambda X: (X * 100).astype(np.int64), np.float64),
        (lambda X: X > 0, np.float32),
        (lambda X: torch.from_numpy(X), np.float64),
        (lambda X: torch.from_numpy(X).float().requires_grad_(), np.float32),
        (lambda X: torch.from_numpy(X).to(torch.bfloat16), np.float32),
        (lambda X: torch.from_numpy(X).half(), np.float32),
        (lambda X: X.tolist(), np.float64),
    ],
)
def test_every_kind_of_numbers_is_taken(convert, got):
    X = convert(X3)
    model = RankRClassifier(**QUICK).fit(X, Y3)
    assert model.predict_proba(X).dtype == got
    assert model.score(X, Y3) > 0.7


def test_large_integers_keep_their_digits():
    X = np.zeros((40, 2, 2), dtype=np.int64) + 2**40
    y = np.arange(40) % 2
    X[:, 0, 0] += y
    assert RankRClassifier(**QUICK).fit(X, y).score(X, y) == 1.0


def test_constant_features_do_no_harm():
    X = X3.copy()
    X[..., 4] = 3.0
    assert RankRClassifier(**QUICK).fit(X, Y3).score(X, Y3) > 0.9
    same = RankRClassifier(**QUICK).fit(np.ones_like(X3), Y3)
    assert np.isfinite(same.predict_proba(X3)).all()


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_scale_of_the_input_does_not_matter(scale):
    model = RankRClassifier(**QUICK).fit(X3 * scale, Y3)
    assert model.score(X3 * scale, Y3) > 0.9


def test_one_sample_of_each_class_is_enough_to_fit():
    model = RankRClassifier(**QUICK).fit(X3[:3], [0, 1, 2])
    assert model.predict(X3[:1]).shape == (1,)


# -- partial_fit ------------------------------------------------------------------------------


def test_partial_fit_learns_batch_by_batch():
    model = RankRClassifier(hidden=8, random_state=0)
    for _ in range(30):
        for half in (slice(0, 30), slice(30, 60)):
            model.partial_fit(X3[half], Y3[half], classes=[0, 1, 2])
    assert model.score(X3, Y3) > 0.8
    assert len(model.history_) == model.n_iter_ == 60


def test_partial_fit_goes_on_after_fit():
    model = RankRClassifier(**QUICK).fit(X3, Y3)
    before = model.history_.loss[-1]
    for _ in range(5):
        model.partial_fit(X3, Y3)
    assert model.n_iter_ == 35
    assert model.history_.loss[-1] < before


def test_partial_fit_of_a_batch_without_some_classes():
    model = RankRClassifier(**QUICK).partial_fit(X3[Y3 == 0], Y3[Y3 == 0], classes=[0, 1, 2])
    model.partial_fit(X3, Y3)
    assert model.predict_proba(X3).shape == (60, 3)


def test_partial_fit_is_repeatable_and_keeps_the_first_scaler():
    def run():
        model = RankRRegressor(**QUICK)
        for half in (slice(0, 30), slice(30, 60)):
            model.partial_fit(X3[half], Y3[half])
        return model

    assert_array_equal(run().predict(X3), run().predict(X3))
    first = ModeStandardScaler().fit(X3[:30])
    assert_array_equal(run().scaler_.mean_, first.mean_)


# -- stopping and progress --------------------------------------------------------------------


def test_early_stopping_keeps_the_best_weights():
    X, _ = made(n=200)
    y = np.random.default_rng(1).integers(3, size=200)  # nothing to learn: validation gets worse
    model = RankRClassifier(epochs=300, early_stopping=True, random_state=0).fit(X, y)
    history = model.history_
    assert model.n_iter_ < 300
    assert len(history.validation_loss) == model.n_iter_
    assert history.validation_loss[-1] > min(history.validation_loss)


def test_patience_stops_when_the_loss_no_longer_falls():
    model = RankRClassifier(hidden=8, epochs=5000, tol=1e-3, random_state=0).fit(X3, Y3)
    assert model.n_iter_ < 5000


def test_the_progress_bar_goes_to_standard_error(capsys):
    RankRClassifier(**QUICK, verbose=1).fit(X3, Y3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "fitting" in err
    RankRClassifier(**QUICK).fit(X3, Y3)
    assert capsys.readouterr() == ("", "")


def test_paper_settings_can_be_overridden():
    model = RankRClassifier.paper(rank=2, epochs=3, random_state=1)
    assert (model.rank, model.epochs, model.solver, model.start) == (2, 3, "alternating", "xavier")
    assert model.fit(X3, Y3).network_.hidden.bias is None
