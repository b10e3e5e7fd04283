"""Baselines: sizes of Table 2, scikit-learn's contract, and that they learn."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from polyad.errors import Diverged, InputError
from polyad.experiments import CNNClassifier, DenseClassifier, PatchSVC
from polyad.experiments.baselines import ConvolutionalNet


@parametrize_with_checks(
    [
        DenseClassifier(hidden=20, epochs=60, learning_rate=0.01, random_state=0),
        PatchSVC(costs=(1.0, 10.0), gammas=(0.1, 1.0), folds=2, random_state=0),
    ]
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def patches():
    rng = np.random.default_rng(0)
    y = np.repeat(["corn", "oats", "soy"], 20)
    X = rng.normal(size=(60, 5, 5, 6)).astype(np.float32)
    X[..., 0] += 2 * (y == "corn")[:, None, None]
    X[..., 1] += 2 * (y == "oats")[:, None, None]
    return X, y


@pytest.mark.parametrize(
    ("bands", "classes", "count"), [(200, 16, 699_241), (145, 14, 624_839), (103, 9, 567_759)]
)
def test_the_cnn_has_the_papers_number_of_parameters(bands, classes, count):
    net = ConvolutionalNet((5, 5, bands), (150, 300), 75, classes)
    assert sum(p.numel() for p in net.parameters()) == count


@pytest.mark.parametrize(
    "model",
    [
        CNNClassifier(kernels=(10, 12), epochs=60, learning_rate=0.05, random_state=0),
        DenseClassifier(epochs=60, random_state=0),
        PatchSVC("patch-mean", random_state=0),
        PatchSVC("spectrum", random_state=0),
    ],
    ids=["cnn", "dense", "svm patch mean", "svm spectrum"],
)
def test_each_learns_and_repeats_itself(model, patches):
    X, y = patches
    fitted = clone(model).fit(X, y)
    assert fitted.score(X, y) > 0.8
    assert list(fitted.classes_) == ["corn", "oats", "soy"]
    assert np.array_equal(clone(model).fit(X, y).predict(X), fitted.predict(X))


def test_the_cnn_as_matrix_products_equals_its_convolutions():
    net = ConvolutionalNet((7, 7, 3), (4, 5), 6, 2)
    for p in net.parameters():
        torch.nn.init.normal_(p, generator=torch.Generator().manual_seed(0))
    x = torch.randn(9, 7, 7, 3, generator=torch.Generator().manual_seed(1))
    hidden = x.permute(0, 3, 1, 2)
    for layer in (net.first, net.second, net.dense):
        hidden = net.activation(layer(hidden))
    wanted = net.output(hidden)[:, :, 0, 0]
    torch.testing.assert_close(net(x), wanted, rtol=1e-4, atol=1e-4)


def test_on_epoch_sees_every_epoch_and_torchs_own_generator_is_left_alone(patches):
    seen, before = [], torch.get_rng_state()
    DenseClassifier(epochs=3, random_state=0).fit(*patches, on_epoch=lambda e, _: seen.append(e))
    CNNClassifier(kernels=(3, 3), epochs=1, random_state=0).fit(*patches)
    assert seen == [1, 2, 3]
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (CNNClassifier(epochs=0), "epochs must be at least 1, got 0"),
        (CNNClassifier(learning_rate=0), "learning_rate must be above 0"),
        (CNNClassifier(optimizer="magic"), "optimizer must be one of sgd"),
        (DenseClassifier(activation="sine"), "activation must be one of tanh"),
        (PatchSVC("smell"), "features must be one of spectrum, patch-mean"),
    ],
)
def test_bad_parameters_are_refused_in_fit(model, words, patches):
    with pytest.raises(InputError, match=words):
        model.fit(*patches)


def test_the_cnn_wants_patches_of_five_pixels():
    with pytest.raises(InputError, match="at least 5 x 5 pixels"):
        CNNClassifier(epochs=1).fit(np.zeros((4, 3, 3, 2)) + np.arange(4)[:, None, None, None],
                                    [0, 1, 0, 1])  # fmt: skip


def test_a_diverging_fit_says_so(patches):
    X, y = patches
    with pytest.raises(Diverged, match="smaller learning_rate"):
        DenseClassifier(activation="relu", optimizer="sgd", learning_rate=1e30, epochs=50,
                        random_state=0).fit(X, y)  # fmt: skip


def test_an_svm_with_one_sample_of_a_class_takes_the_middle_of_its_grid(patches):
    X, y = patches
    model = PatchSVC(random_state=0).fit(X[:21], y[:21])
    assert model.best_params_["C"] == 100.0
