"""The projection of a tile: strips, layouts and padded units change nothing but the time."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyad.core.network import RankRNet
from polyad.scene.map import separable
from polyad.scene.map.classifier import piece_shape
from polyad.scene.map.separable import Projection
from polyad.scene.raster.windows import Block

HEIGHT, WIDTH, BANDS, TERMS = 19, 23, 12, 16


@pytest.fixture
def project():
    rng = np.random.default_rng(0)
    spectral = torch.from_numpy(rng.normal(size=(TERMS, BANDS)).astype(np.float32))
    return Projection(spectral, rng.uniform(900, 1100, BANDS), rng.uniform(50, 90, BANDS))


def pixels(dtype="f4"):
    values = np.random.default_rng(1).uniform(500, 1500, (HEIGHT, WIDTH, BANDS))
    return values.astype(dtype)


def in_order(values, order):
    """The same values, lying in memory as a file of this interleave has them."""
    axes = {"bip": (0, 1, 2), "bil": (0, 2, 1), "bsq": (2, 0, 1)}[order]
    return np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))


@pytest.mark.parametrize("strip", [1, 5000, 2**30])
@pytest.mark.parametrize("order", ["bip", "bil", "bsq"])
@pytest.mark.parametrize("dtype", ["f4", "u2", "i2", "f8", ">f4"])
def test_every_layout_and_strip_gives_the_plain_product(project, dtype, order, strip, monkeypatch):
    monkeypatch.setattr(separable, "STRIP_BYTES", strip)
    values = pixels(dtype)
    wanted = project.spectra(values.reshape(-1, BANDS)).reshape(HEIGHT, WIDTH, TERMS)
    found = project(in_order(values, order))
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("order", ["bip", "bil", "bsq"])
def test_reflected_pixels_are_projected_as_the_others(project, order, monkeypatch):
    monkeypatch.setattr(separable, "STRIP_BYTES", 5000)
    values = in_order(pixels(), order)
    y, x = np.r_[2, 1, 0:HEIGHT, HEIGHT - 2], np.r_[1, 0:WIDTH, WIDTH - 2, WIDTH - 3]
    mosaic = Block(values, y, x).cut(slice(None), slice(None))
    wanted = project.spectra(values[np.ix_(y, x)].reshape(-1, BANDS))
    found = project(mosaic).reshape(-1, TERMS)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("band", [0, BANDS - 1])
def test_what_is_not_finite_leaves_no_term_finite_even_of_no_weight(value, band):
    spectral = torch.zeros(TERMS, BANDS)
    project = Projection(spectral, np.zeros(BANDS), np.ones(BANDS))
    values = pixels()
    values[7, 5, band] = value
    assert not torch.isfinite(project(values)[7, 5]).any()


@given(
    height=st.integers(1, 700),
    width=st.integers(1, 3000),
    side=st.integers(1, 256),
    halo=st.integers(0, 12),
)
def test_pieces_are_no_larger_than_the_square_that_is_allowed(height, width, side, halo):
    rows, cols = piece_shape((height, width), side, halo)
    assert 1 <= rows <= height
    assert 1 <= cols <= width
    assert (rows + 2 * halo) * (cols + 2 * halo) <= (side + 2 * halo) ** 2


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("far", [0.01, 1.0, 100.0])
def test_tanh_as_a_logistic_function_is_as_near_to_double_precision(far, bias):
    options = {"hidden_bias": bias, "output_bias": bias}
    network = RankRNet((4, 3), 16, 5, rank=2, generator=torch.Generator().manual_seed(0), **options)
    x = far * torch.randn(400, 4, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for shift in [p for p in (network.hidden.bias, network.output.bias) if p is not None]:
            shift.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(2))
        by_tanh = network(x)
        exact = network.double()(x.double())
        weights = separable._weights(network.float())
        before = torch.einsum("nij,qri,qrj->nq", x, *weights.factors)
        before = before if weights.bias is None else before + weights.bias
        found = weights.activation(before) @ weights.output.T + weights.offset
        rounding = torch.finfo(torch.float32).eps * network.output.weight.abs().sum(dim=1)
    assert ((found - exact).abs() <= (by_tanh - exact).abs().max() + 2 * rounding).all()


@pytest.mark.parametrize("capability", ["AVX512", "AVX2", "DEFAULT"])
@pytest.mark.parametrize("window", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_every_processor_correlates_as_the_plain_sum_does(window, stride, capability, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    rng = torch.Generator().manual_seed(0)
    along_y, along_x = torch.randn(2, TERMS, window, generator=rng).unbind()
    bias = torch.randn(TERMS, generator=rng)
    z = torch.randn(HEIGHT, WIDTH, TERMS, generator=rng)
    found = separable._correlation([along_y, along_x], bias, stride)(z)
    views = z.unfold(0, window, stride).unfold(1, window, stride)  # (h, w, terms, window, window)
    wanted = torch.einsum("hwtij,ti,tj->hwt", views, along_y, along_x) + bias
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
