"""The estimators on tensors of order two and more, inside scikit-learn's own tools."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
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


def test_same_seed_same_bits_and_another_seed_others():
    one, other, third = (
        RankRClassifier(**(QUICK | {"random_state": s})).fit(X3, Y3).predict_proba(X3)
        for s in (1, 1, 2)
    )
    assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_prediction_in_chunks_is_that_of_the_whole(monkeypatch):
    model = RankRClassifier(**QUICK).fit(X3, Y3)
    whole = model.predict_proba(X3)
    monkeypatch.setattr("polyad.estimators.base.CHUNK_BYTES", 7 * X3[0].nbytes)
    assert_allclose(model.predict_proba(X3), whole, rtol=1e-12)


@pytest.mark.parametrize("standardize", [None, -1])
def test_read_only_and_mapped_memory_is_taken(standardize, tmp_path):
    np.save(tmp_path / "x.npy", X3)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = RankRClassifier(**QUICK, standardize=standardize).fit(mapped, Y3)
    expected = RankRClassifier(**QUICK, standardize=standardize).fit(X3, Y3)
    assert_array_equal(model.predict_proba(mapped), expected.predict_proba(X3))


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


def test_one_class_is_predicted_always():
    model = RankRClassifier(**QUICK).fit(X3, np.full(60, "only"))
    assert set(model.predict(X3)) == {"only"}
    assert_array_equal(model.predict_proba(X3), np.ones((60, 1)))
    assert model.decision_function(X3).shape == (60,)


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


# -- partial_fit ------------------------------------------------------------------------------


def test_partial_fit_learns_batch_by_batch():
    model = RankRClassifier(hidden=8, random_state=0)
    for _ in range(30):
        for half in (slice(0, 30), slice(30, 60)):
            model.partial_fit(X3[half], Y3[half], classes=[0, 1, 2])
    assert model.score(X3, Y3) > 0.8
    assert len(model.history_) == model.n_iter_ == 60


# -- stopping and progress --------------------------------------------------------------------


def test_paper_settings_can_be_overridden():
    model = RankRClassifier.paper(rank=2, epochs=3, random_state=1)
    assert (model.rank, model.epochs, model.solver, model.start) == (2, 3, "alternating", "xavier")
    assert model.fit(X3, Y3).network_.hidden.bias is None
