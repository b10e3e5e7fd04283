"""Ridge regression by the Gram matrix agrees with fits that leave each sample out."""

import pytest
import torch
from sklearn.linear_model import Ridge

from polyad.fitting.linear import STRENGTHS, fit_ridge, radial_gram

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(30, 6, generator=GENERATOR, dtype=torch.float64) + 3.0
NOISE = torch.randn(30, 1, generator=GENERATOR, dtype=torch.float64)
Y = X[:, :1] - 2 * X[:, 1:2] + NOISE
ONES = torch.ones(30, dtype=torch.float64)


def left_out_error(strength, weight=ONES):
    """Return the weighted error of samples left out, by as many fits."""
    missed = 0.0
    for i in range(len(X)):
        kept = torch.arange(len(X)) != i
        model = Ridge(strength).fit(X[kept], Y[kept, 0], sample_weight=weight[kept])
        missed += float(weight[i]) * float(Y[i, 0] - model.predict(X[i : i + 1])[0]) ** 2
    center = (Y[:, 0] * weight).sum() / weight.sum()
    return missed / float((weight * (Y[:, 0] - center).square()).sum())


@pytest.mark.parametrize("weight", [ONES, torch.linspace(0.5, 2.0, 30, dtype=torch.float64)])
def test_error_is_that_of_the_best_of_fits_that_leave_samples_out(weight):
    fit = fit_ridge(X @ X.T, Y, weight)
    share = weight / weight.sum()
    centered = X - share @ X
    size = float((weight[:, None] * centered.square()).sum()) / len(X)
    assert fit.error == pytest.approx(
        min(left_out_error(s * size, weight) for s in STRENGTHS), rel=1e-6
    )


def test_noise_asks_for_a_stronger_ridge():
    clean = fit_ridge(X @ X.T, Y - NOISE, ONES)
    noisy = fit_ridge(X @ X.T, Y + 5 * NOISE, ONES)
    assert noisy.strength > 10 * clean.strength
    assert noisy.error > clean.error


def test_a_gaussian_kernel_sees_what_lines_do_not():
    x = torch.linspace(-2, 2, 60, dtype=torch.float64)[:, None]
    y = x.square()
    ones = torch.ones(60)
    linear = fit_ridge(x @ x.T, y, ones)
    radial = fit_ridge(radial_gram(x @ x.T), y, ones)
    assert linear.error > 0.9
    assert radial.error < 0.1
