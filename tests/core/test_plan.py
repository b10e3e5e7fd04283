"""Plans: made from integers, frozen, cached, printable, and true to what is then run."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from polyad.core import cp_inner, plan_inner
from polyad.errors import InputError

shapes = st.integers(1, 8).flatmap(
    lambda order: st.lists(st.integers(1, 4 if order < 6 else 2), min_size=order, max_size=order)
)
small = settings(deadline=None, max_examples=60, derandomize=True)


class Meter(TorchDispatchMode):
    """Counts the arithmetic of the operations run inside, and the largest tensor they make."""

    def __init__(self):
        super().__init__()
        self.flops = 0
        self.made = []  # elements of every tensor that owns its memory, in order

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm"):
            self.flops += 2 * out.numel() * args[0].shape[-1]
        elif name == "mul":
            self.flops += out.numel()
        elif name == "sum":
            self.flops += args[0].numel() - out.numel()
        elif name not in ("clone", "_unsafe_view", "copy_", "empty", "empty_like") and not (
            func.is_view
        ):
            raise NotImplementedError(f"the meter does not know {name}")
        if name != "_unsafe_view" and not func.is_view:
            self.made.append(out.numel())
        return out


def measure(plan, n):
    x = torch.zeros(n, *plan.sample_shape)
    factors = [torch.zeros(plan.hidden, plan.rank, size) for size in plan.sample_shape]
    with Meter() as meter:
        cp_inner(x, factors, plan)
    return meter


@small
@given(shapes, st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
def test_flops_of_every_candidate_are_what_torch_executes(shape, hidden, rank, n):
    plan = plan_inner(shape, hidden, rank, n)
    for candidate in plan.candidates:
        measured = measure(replace(plan, candidates=(candidate,)), n)
        assert candidate.flops == measured.flops, candidate.label


@small
@given(shapes, st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
def test_no_candidate_makes_a_tensor_larger_than_it_says(shape, hidden, rank, n):
    plan = plan_inner(shape, hidden, rank, n)
    for candidate in plan.candidates:
        *intermediates, _ = measure(replace(plan, candidates=(candidate,)), n).made
        assert max(intermediates, default=0) <= candidate.largest, candidate.label


def test_chosen_candidate_is_the_cheapest():
    plan = plan_inner((5, 5, 200), 75, 5, 160)
    assert plan.chosen.cost == min(c.cost for c in plan.candidates)
    assert (plan.groups, plan.flops, plan.largest) == (
        plan.chosen.groups,
        plan.chosen.flops,
        plan.chosen.largest,
    )


def test_one_sample_is_contracted_step_by_step_and_many_through_the_rebuilt_weight():
    assert not plan_inner((5, 5, 200), 75, 4, n=1).chosen.dense
    assert plan_inner((5, 5, 200), 75, 4, n=4096).chosen.dense


def test_printed_plan_shows_shapes_and_marks_the_chosen_of_all_candidates():
    plan = plan_inner((5, 5, 200), 75, 4, 160)
    first, header, *rows = str(plan).splitlines()
    assert first == "160 samples of 5 x 5 x 200, 75 units of rank 4"
    assert header.split() == ["modes", "contracted", "MFLOP", "largest", "est.", "cost"]
    assert len(rows) == len(plan.candidates)
    assert [row.startswith("->") for row in rows] == [True] + [False] * (len(rows) - 1)
    assert plan.chosen.label in rows[0]
    assert rows[0].endswith("1.00x")


@pytest.mark.parametrize(
    ("shape", "hidden", "rank", "message"),
    [
        ((), 1, 1, r"order 1 to 8, got order 0 \(shape \(\)\); merge or drop modes with reshape"),
        ((2,) * 9, 1, 1, r"samples must be tensors of order 1 to 8, got order 9"),
        ((3, 0), 1, 1, r"every mode of a sample needs at least one entry, got \(3, 0\)"),
        ((3, -2), 1, 1, r"every mode of a sample needs at least one entry, got \(3, -2\)"),
        ((3,), 0, 1, r"hidden must be at least 1, got 0"),
        ((3,), 1, -4, r"rank must be at least 1, got -4"),
        (
            (3,),
            10**9,
            1,
            r"at most 2,147,483,648 weights, got 3,000,000,000 .* lower hidden or rank",
        ),
    ],
)
def test_impossible_shapes_are_refused_with_a_sentence(shape, hidden, rank, message):
    with pytest.raises(InputError, match=message):
        plan_inner(shape, hidden, rank, 1)
