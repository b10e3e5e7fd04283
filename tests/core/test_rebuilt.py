"""The rebuilt weight by a product over the terms: equal to the plain one, and never written out."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from polyad.core.contract import dense_weight, rebuilt_weight
from polyad.core.plan import best_cut

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def factors_of(shape, hidden=3, rank=2, **options):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(hidden, rank, size, generator=generator, dtype=torch.float64, **options)
        for size in shape
    ]


@settings(deadline=None, max_examples=60)
@given(sizes, st.integers(1, 4), st.integers(1, 4))
def test_product_over_the_terms_is_the_dense_weight(shape, hidden, rank):
    factors = factors_of(shape, hidden, rank)
    wanted = dense_weight(factors)
    assert_close(rebuilt_weight(factors), wanted)
    out = torch.empty_like(wanted)
    assert rebuilt_weight(factors, out).data_ptr() == out.data_ptr()
    assert_close(out, wanted)


def test_the_terms_are_never_written_out():
    """No clock: with 50 terms, nothing larger than the weight itself is made."""
    made = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            made.append(out.numel())
            return out

    factors = factors_of((6, 6, 40), hidden=4, rank=50)
    with Sizes():
        rebuilt_weight(factors)
    assert max(made) <= max(4 * 50 * 40, 4 * 6 * 6 * 40)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_best_cut_is_the_best_of_all(shape):
    def cost(c):
        left = torch.tensor(shape[:c]).prod()
        return int(left + torch.tensor(shape[c:]).prod())

    assert cost(best_cut(shape)) == min(cost(c) for c in range(1, len(shape)))
