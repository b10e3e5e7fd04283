"""Shapes in, contraction plan out: integers only, no tensor is touched here.

The inner products of ``n`` samples with ``Q`` CP tensors of rank ``R`` can be taken in several
orders. A plan is an ordered partition of the modes into groups. The first group is contracted
by one matrix product with the Khatri-Rao product of its factors; every later group by a weighted
sum, unit by unit and term by term; at last the ``R`` terms are added. When the first group holds
all modes, the terms are added before the product instead: that is the rebuilt dense weight.

Which plan is cheapest depends on the shapes alone, so plans are made once and cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import index, mul

from polyad.errors import InputError

MAX_ORDER = 8
MAX_WEIGHTS = 2**31  # of a layer: 8 GB in single precision

# What one element moved through memory, and one kernel launch, cost in units of one GEMM FLOP.
# Measured on x86 cores (about 200 GFLOP/s, 20 GB/s); only their size matters. `make bench` says
# how near the choice is to the best candidate.
TRAFFIC_COST = 40
LAUNCH_COST = 50_000

# Samples that a program is planned for which is traced now, to be compiled or exported, and run
# later for batches of any size: a plan looked up by their number would tie it to that number.
TRACED_BATCH = 64

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Candidate:
    """One way to contract: the groups of modes in order, and what it costs.

    Attributes
    ----------
    groups : tuple of tuple of int
        Modes contracted together, in the order of contraction.
    flops : int
        Multiplications and additions; a matrix product of m x k by k x n counts 2 m k n.
    largest : int
        Elements of the largest intermediate (input and output not counted).
    traffic : int
        Elements read and written outside the matrix product.
    launches : int
        Tensor operations issued.
    """

    groups: Groups
    flops: int
    largest: int
    traffic: int
    launches: int

    @property
    def dense(self) -> bool:
        """Whether the dense weight is rebuilt."""
        return len(self.groups) == 1

    @property
    def cost(self) -> int:
        """Estimated time, in units of one FLOP of a matrix product."""
        return self.flops + TRAFFIC_COST * self.traffic + LAUNCH_COST * self.launches

    @property
    def label(self) -> str:
        """The groups as text: ``3 | 1 2``, modes counted from one as in the paper."""
        if self.dense:
            return "rebuilt weight"
        return " | ".join(" ".join(str(d + 1) for d in group) for group in self.groups)


@dataclass(frozen=True)
class Plan:
    """The cheapest candidate for given shapes, with the ones it was chosen from.

    ``print(plan)`` shows them all.
    """

    sample_shape: tuple[int, ...]
    hidden: int
    rank: int
    n: int
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate:
        """The candidate of least estimated cost."""
        return self.candidates[0]

    @property
    def groups(self) -> Groups:
        """Groups of modes in the order in which they are contracted."""
        return self.chosen.groups

    @property
    def flops(self) -> int:
        """Multiplications and additions of the chosen candidate."""
        return self.chosen.flops

    @property
    def largest(self) -> int:
        """Elements of the largest intermediate of the chosen candidate."""
        return self.chosen.largest

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.sample_shape))
        width = max(len("modes contracted"), *(len(c.label) for c in self.candidates))
        lines = [
            f"{self.n} samples of {shape}, {self.hidden} units of rank {self.rank}",
            f"   {'modes contracted':<{width}}{'MFLOP':>12}{'largest':>14}{'est. cost':>12}",
        ]
        least = self.chosen.cost
        for i, c in enumerate(self.candidates):
            mark = "->" if i == 0 else "  "
            numbers = f"{c.flops / 1e6:>12,.3f}{c.largest:>14,}{c.cost / least:>11.2f}x"
            lines.append(f"{mark} {c.label:<{width}}{numbers}")
        return "\n".join(lines)


def plan_inner(sample_shape: Sequence[int], hidden: int, rank: int, n: int) -> Plan:
    """Plan the inner products of ``n`` samples with ``hidden`` CP tensors of rank ``rank``.

    Parameters
    ----------
    sample_shape : sequence of int
        ``(I_1, ..., I_D)``, order 1 to 8.
    hidden, rank, n : int
        Number of units ``Q``, rank ``R`` and number of samples.

    Returns
    -------
    Plan
        Frozen, cached and printable.

    Examples
    --------
    >>> plan = plan_inner((5, 5, 200), hidden=75, rank=4, n=160)
    >>> plan.chosen.label
    'rebuilt weight'
    >>> plan_inner((5, 5, 200), hidden=75, rank=1, n=1).groups
    ((2,), (0, 1))
    """
    return _plan(tuple(map(index, sample_shape)), index(hidden), index(rank), index(n))


@lru_cache(maxsize=4096)
def _plan(shape: tuple[int, ...], hidden: int, rank: int, n: int) -> Plan:
    check_shape(shape, hidden, rank)
    n = max(n, 1)
    costed = (_cost(groups, shape, hidden, rank, n) for groups in _candidate_groups(shape))
    ranked = tuple(sorted(costed, key=lambda c: (c.cost, len(c.groups), c.groups)))
    return Plan(shape, hidden, rank, n, ranked)


def best_cut(sizes: Sequence[int]) -> int:
    """Cut modes into two runs so that the two partial products are small together.

    Examples
    --------
    >>> best_cut([5, 5, 200])
    2
    """
    cuts = range(1, len(sizes))
    return min(cuts, key=lambda c: prod(sizes[:c]) + prod(sizes[c:]))


def check_shape(shape: Sequence[int], hidden: int, rank: int, name: str = "hidden") -> None:
    """Raise `InputError` unless the shapes make a layer; ``name`` is that of its units."""
    if not 1 <= len(shape) <= MAX_ORDER:
        raise InputError(
            f"samples must be tensors of order 1 to {MAX_ORDER}, got order {len(shape)} "
            f"(shape {tuple(shape)}); merge or drop modes with reshape"
        )
    if min(shape) < 1:
        raise InputError(f"every mode of a sample needs at least one entry, got {tuple(shape)}")
    for what, value in ((name, hidden), ("rank", rank)):
        if value < 1:
            raise InputError(f"{what} must be at least 1, got {value}")
    weights = hidden * rank * sum(shape)
    if weights > MAX_WEIGHTS:
        raise InputError(
            f"a layer must have at most {MAX_WEIGHTS:,} weights, got {weights:,} for {hidden:,} "
            f"units of rank {rank:,}; lower {name} or rank"
        )


def _candidate_groups(shape: tuple[int, ...]) -> list[Groups]:
    """Ordered partitions worth costing: no transposed copy of the input, or largest mode first."""
    modes = tuple(range(len(shape)))
    candidates: list[Groups] = [(modes,)]
    for cut in range(1, len(shape)):
        candidates += [(modes[cut:], modes[:cut]), (modes[:cut], modes[cut:])]
    by_size = sorted(modes, key=lambda d: (-shape[d], -d))
    candidates.append(tuple((d,) for d in by_size))
    return list(dict.fromkeys(candidates))


def _cost(groups: Groups, shape: tuple[int, ...], hidden: int, rank: int, n: int) -> Candidate:
    if len(groups) == 1:
        return _dense_cost(shape, hidden, rank, n)
    terms = hidden * rank
    sizes = [prod(shape[d] for d in group) for group in groups]
    volume = prod(shape)
    # Khatri-Rao product of each group, factor by factor: one multiplication per element made
    build = sum(terms * s for g in groups for s in _partial_sizes(shape, g)[1:])
    traffic = 2 * build
    launches = sum(len(g) for g in groups) + 1
    built = max((terms * s for g, s in zip(groups, sizes, strict=True) if len(g) > 1), default=0)
    flops = build + 2 * n * volume * terms
    left = volume // sizes[0]  # entries of a sample not yet contracted
    largest = max(n * terms * left, built)
    if groups[0] == _prefix(groups[0]):
        # a product for each sample: it reads the weight again, and its result is transposed
        traffic += n * terms * (sizes[0] + 2 * left)
    elif groups[0] != _suffix(shape, groups[0]):
        traffic += 2 * n * volume  # a transposed copy of the input
        largest = max(largest, n * volume)
    for size in sizes[1:]:
        # read the intermediate, write and read the products, write their sum
        traffic += n * terms * (3 * left + left // size)
        flops += n * terms * (2 * left - left // size)
        left //= size
        launches += 2
    return Candidate(groups, flops + n * hidden * (rank - 1), largest, traffic, launches)


def _dense_cost(shape: tuple[int, ...], hidden: int, rank: int, n: int) -> Candidate:
    """Cost the rebuilt weight: Khatri-Rao products of two halves, their product over the terms."""
    modes, volume, terms = tuple(range(len(shape))), prod(shape), hidden * rank
    product = 2 * n * volume * hidden
    if len(shape) == 1:
        summed = hidden * volume * (rank - 1)
        return Candidate((modes,), summed + product, hidden * volume, terms * volume, 2)
    cut = best_cut(shape)
    halves = modes[:cut], modes[cut:]
    build = sum(terms * s for half in halves for s in _partial_sizes(shape, half)[1:])
    built = max(terms * prod(shape[d] for d in half) if len(half) > 1 else 0 for half in halves)
    flops = build + 2 * terms * volume + product
    traffic = 2 * build + 2 * hidden * volume
    return Candidate((modes,), flops, max(built, hidden * volume), traffic, len(shape))


def _partial_sizes(shape: tuple[int, ...], group: tuple[int, ...]) -> list[int]:
    return list(accumulate((shape[d] for d in reversed(group)), mul))


def _suffix(shape: tuple[int, ...], group: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(len(shape) - len(group), len(shape)))


def _prefix(group: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(len(group)))
