"""Contractions: every plan gives the dense answer, and the algebra of the paper holds."""

from dataclasses import replace
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.core import contract_except, cp_inner, dense_inner, dense_weight, khatri_rao, plan_inner
from polyad.errors import InputError

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}

properties = settings(deadline=None, max_examples=60, derandomize=True)


@st.composite
def problems(draw, max_order=8, dtype=torch.float64):
    """Samples and factors of random order, sizes, hidden units and rank."""
    order = draw(st.integers(1, max_order))
    largest = 5 if order <= 4 else 3
    shape = draw(st.lists(st.integers(1, largest), min_size=order, max_size=order))
    hidden, rank = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    n = draw(st.integers(0, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    x = torch.randn(n, *shape, dtype=dtype, generator=generator)
    factors = [torch.randn(hidden, rank, i, dtype=dtype, generator=generator) for i in shape]
    return x, factors


def every_plan(x, factors):
    hidden, rank, _ = factors[0].shape
    plan = plan_inner(x.shape[1:], hidden, rank, len(x))
    return [replace(plan, candidates=(candidate,)) for candidate in plan.candidates]


def scale_of(x, factors):
    """Largest value that <W, X> can take, ||x|| * sum_r prod_d ||w_d||: what rounding scales by."""
    terms = prod(torch.linalg.vector_norm(f, dim=-1) for f in factors)  # (Q, R)
    return torch.linalg.vector_norm(x.flatten(1), dim=1)[:, None] * terms.sum(-1) + 1e-30


def assert_same(got, wanted, scale):
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    assert torch.all((got - wanted).abs() <= TOLERANCE[wanted.dtype] * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@settings(properties, max_examples=200)
@given(st.data())
def test_every_candidate_equals_the_dense_reference(dtype, data):
    x, factors = data.draw(problems(dtype=dtype))
    wanted = dense_inner(x, factors)
    for plan in every_plan(x, factors):
        assert_same(cp_inner(x, factors, plan), wanted, scale_of(x, factors))


@properties
@given(problems(max_order=4))
def test_dense_reference_equals_the_sum_written_out(problem):
    x, factors = problem
    modes = "abcd"[: len(factors)]
    equation = f"n{modes}," + ",".join(f"qr{m}" for m in modes) + "->nq"
    wanted = torch.einsum(equation, x, *factors)
    assert_same(dense_inner(x, factors), wanted, scale_of(x, factors))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 2), (2, 1, 3, 2)])
@pytest.mark.parametrize("rank", [1, 2])
def test_gradients_of_every_candidate(shape, rank):
    generator = torch.Generator().manual_seed(0)

    def variable(*size):
        drawn = torch.randn(*size, dtype=torch.float64, generator=generator)
        return drawn.requires_grad_()

    x, factors = variable(2, *shape), [variable(2, rank, i) for i in shape]
    for plan in every_plan(x, factors):

        def run(x, *factors, plan=plan):
            return cp_inner(x, factors, plan)

        assert torch.autograd.gradcheck(run, (x, *factors))


@properties
@given(problems())
def test_non_contiguous_samples_give_the_same(problem):
    x, factors = problem
    strided = x.transpose(0, -1).contiguous().transpose(0, -1)
    for plan in every_plan(x, factors):
        assert_same(cp_inner(strided, factors, plan), dense_inner(x, factors), scale_of(x, factors))


def test_every_candidate_gives_the_same_lower_precision_under_autocast():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 2, 3, 2, generator=generator)
    factors = [torch.randn(3, 2, i, generator=generator) for i in (2, 3, 2)]
    for plan in every_plan(x, factors):
        with torch.autocast("cpu", torch.bfloat16):
            low = cp_inner(x, factors, plan)
        assert low.dtype == torch.bfloat16
        difference = low.float() - dense_inner(x, factors)
        assert torch.all(difference.abs() <= 4 * 2**-8 * scale_of(x, factors))


# The identity that training stands on, Eq. (12) to (14) of the paper


@properties
@given(problems())
def test_inner_product_is_the_trace_with_any_mode_left_open(problem):
    x, factors = problem
    for mode, w in enumerate(factors):
        z = contract_except(x, factors, mode)  # (n, Q, R, I_mode)
        assert z.shape == (len(x), *w.shape)
        trace = torch.einsum("nqri,qri->nq", z, w)
        assert_same(trace, dense_inner(x, factors), scale_of(x, factors))


@properties
@given(problems(max_order=4))
def test_open_mode_is_the_gradient_with_respect_to_its_factor(problem):
    x, factors = problem
    for mode in range(len(factors)):
        leaves = [f.clone().requires_grad_() for f in factors]
        (gradient,) = torch.autograd.grad(cp_inner(x, leaves).sum(), leaves[mode])
        torch.testing.assert_close(contract_except(x, factors, mode).sum(0), gradient)


# Invariances of a CP tensor


@properties
@given(problems().filter(lambda p: len(p[1]) > 1), st.floats(0.1, 10.0))
def test_scaling_one_factor_up_and_another_down_changes_nothing(problem, scale):
    x, (first, *middle, last) = problem
    scaled = [first * scale, *middle, last / scale]
    wanted = dense_inner(x, [first, *middle, last])
    for plan in every_plan(x, scaled):
        assert_same(cp_inner(x, scaled, plan), wanted, scale_of(x, scaled))


@properties
@given(problems(), st.randoms(use_true_random=False))
def test_permuting_modes_of_samples_and_factors_together_changes_nothing(problem, random):
    x, factors = problem
    modes = list(range(len(factors)))
    random.shuffle(modes)
    turned, permuted = x.permute(0, *(1 + d for d in modes)), [factors[d] for d in modes]
    for plan in every_plan(turned, permuted):
        assert_same(cp_inner(turned, permuted, plan), dense_inner(x, factors), scale_of(x, factors))


@properties
@given(problems(max_order=5), st.floats(-3, 3), st.floats(-3, 3))
def test_inner_product_is_linear_in_each_factor(problem, a, b):
    x, factors = problem
    for mode, factor in enumerate(factors):
        other = factor.flip(-1) + 1

        def inner(w, mode=mode):
            return cp_inner(x, [w if d == mode else f for d, f in enumerate(factors)])

        wanted = a * inner(factor) + b * inner(other)
        torch.testing.assert_close(inner(a * factor + b * other), wanted, rtol=1e-9, atol=1e-9)


# The rebuilt weight


def test_khatri_rao_runs_the_last_factor_fastest():
    a, b, c = torch.randn(2, 3, 4), torch.randn(2, 3, 5), torch.randn(2, 3, 6)
    wanted = torch.einsum("qri,qrj,qrk->qrijk", a, b, c).flatten(2)
    torch.testing.assert_close(khatri_rao([a, b, c]), wanted)


def test_rebuilt_weight_of_an_order_two_layer_has_matrix_rank_r():
    generator = torch.Generator().manual_seed(0)
    factors = [torch.randn(1, 3, i, dtype=torch.float64, generator=generator) for i in (6, 7)]
    assert torch.linalg.matrix_rank(dense_weight(factors).reshape(6, 7)) == 3


# Refusals


def test_transposed_samples_are_refused_even_when_the_sizes_multiply_out():
    factors = [torch.ones(1, 1, 2), torch.ones(1, 1, 3)]
    message = r"factors expect samples of \(2, 3\), got \(3, 2\)"
    with pytest.raises(InputError, match=message):
        cp_inner(torch.ones(1, 3, 2), factors)
    with pytest.raises(InputError, match=message):
        contract_except(torch.ones(1, 3, 2), factors, 0)


def test_a_plan_for_other_shapes_is_refused():
    x, factors = torch.ones(1, 2, 3), [torch.ones(1, 1, 2), torch.ones(1, 1, 3)]
    message = r"plan is for samples of \(3, 2\), 1 units of rank 1; got samples of \(2, 3\)"
    with pytest.raises(InputError, match=message):
        cp_inner(x, factors, plan_inner((3, 2), 1, 1, 1))
