"""How near the planned contraction is to the best candidate, measured over a grid of shapes."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.data import HIDDEN, RANKS
from benchmarks.harness import interleave
from polyad.core.contract import cp_inner
from polyad.core.plan import Plan, plan_inner

SHAPES = (
    (50, 200),
    (9, 9),
    (5, 5, 200),
    (11, 11, 103),
    (32, 32, 3),
    (5, 5, 10, 20),
    (16, 16, 4, 4),
    (3, 4, 5, 6, 7),
    (8, 8, 8, 2, 2),
)
SAMPLES = (1, 32, 512)
FAST_ENOUGH = 1.2
HOPELESS = 6  # candidates that are estimated to cost so many times more are not run


def grid(rounds: int) -> list[dict[str, Any]]:
    """Return, for each case, the chosen candidate's time over the best one's."""
    return [case(shape, rank, n, rounds) for shape in SHAPES for rank in RANKS for n in SAMPLES]


def case(shape: tuple[int, ...], rank: int, n: int, rounds: int) -> dict[str, Any]:
    """Time all candidates of one case in turn."""
    plan = plan_inner(shape, HIDDEN, rank, n)
    x = torch.rand(n, *shape)
    factors = [torch.rand(HIDDEN, rank, size) for size in shape]
    ways = {}
    for candidate in plan.candidates:
        if candidate.cost > HOPELESS * plan.chosen.cost:
            continue
        alone = Plan(plan.sample_shape, plan.hidden, plan.rank, plan.n, (candidate,))
        ways[candidate.label] = lambda alone=alone: cp_inner(x, factors, alone)
    with torch.no_grad():
        times = interleave(ways, rounds, least=2e-3)
    least = {name: t.least for name, t in times.items()}
    best = min(least, key=lambda name: least[name])
    return {
        "shape": list(shape),
        "rank": rank,
        "n": n,
        "chosen": plan.chosen.label,
        "best": best,
        "ratio": least[plan.chosen.label] / least[best],
        "seconds": least,
    }
