"""`RankRLinear`: a linear layer on tensors whose weights are CP decompositions of rank R."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from polyad.core.contract import cp_inner, dense_weight
from polyad.core.decompose import cp_als, fit_outputs
from polyad.core.plan import TRACED_BATCH, Plan, check_shape, plan_inner
from polyad.errors import InputError

Start = Literal["unit-variance", "xavier"]


def give_memory(module: nn.Module, device: torch.device) -> None:
    """Give a module from the meta device memory, without numbers.

    As ``module.to_empty``, which imports so much of torch that the first fit of a process would
    take half a second longer.
    """
    for layer in module.modules():
        for name, parameter in layer.named_parameters(recurse=False):
            empty = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
            layer.register_parameter(name, nn.Parameter(empty, parameter.requires_grad))


def rank_r_linear(
    x: Tensor, factors: Sequence[Tensor], bias: Tensor | None = None, plan: Plan | None = None
) -> Tensor:
    """Return what `RankRLinear` computes, with the factors given: its `torch.nn.functional.linear`.

    Parameters
    ----------
    x : Tensor, ``(..., I_1, ..., I_D)``
    factors : sequence of Tensor, each ``(Q, R, I_d)``
    bias : Tensor, ``(Q,)``, optional
    plan : Plan, optional
        See `cp_inner`.

    Returns
    -------
    Tensor, ``(..., Q)``

    Examples
    --------
    >>> layer = RankRLinear((3, 4), 5, rank=2)
    >>> x = torch.randn(7, 3, 4)
    >>> torch.equal(rank_r_linear(x, list(layer.factors), layer.bias), layer(x))
    True
    """
    in_shape = tuple(f.shape[-1] for f in factors)
    order = len(in_shape)
    if x.ndim < order or tuple(x.shape[-order:]) != in_shape:
        raise InputError(
            f"layer wants input of shape (..., {', '.join(map(str, in_shape))}), "
            f"got {tuple(x.shape)}"
        )
    y = cp_inner(x.reshape(-1, *in_shape), factors, plan)
    if bias is not None:
        y = y + bias.to(y.dtype)  # as nn.Linear: autocast gives the lower precision
    return y.reshape(*x.shape[: x.ndim - order], y.shape[-1])


torch.fx.wrap("rank_r_linear")  # one node of a traced graph, planned when it is run


class RankRLinear(nn.Module):
    r"""Linear map of a tensor to ``out_features`` numbers, each weight a CP decomposition.

    Unit q computes :math:`y_q = \langle W^{(q)}, X \rangle + b_q`. Each :math:`W^{(q)}` is held
    as a rank-R CP decomposition, so the layer has ``rank * out_features * sum(in_shape)`` weights
    instead of ``out_features * prod(in_shape)``.

    Parameters
    ----------
    in_shape : sequence of int
        Shape ``(I_1, ..., I_D)`` of one sample, order 1 to 8.
    out_features : int
        Number of units Q.
    rank : int
        Number of rank-one terms R in each unit's weight.
    bias : bool, default=True
    device, dtype : optional
        As for every torch module.
    start : {"unit-variance", "xavier"}, default="unit-variance"
        How factors are drawn. ``"unit-variance"`` gives pre-activations of variance one for
        white input of variance one, whatever the order, rank and size. ``"xavier"`` draws each
        factor with `torch.nn.init.xavier_uniform_`, as the paper's code does: the variance is
        then ``R * (2 / (Q + R)) ** D``, which vanishes as the order D grows.
    generator : torch.Generator, optional
        Where the first numbers come from; torch's own by default.

    Attributes
    ----------
    factors : nn.ParameterList
        One parameter of shape ``(out_features, rank, I_d)`` for each mode.
    bias : Parameter of shape ``(out_features,)`` or None

    Examples
    --------
    >>> layer = RankRLinear((5, 5, 200), 75, rank=1)
    >>> layer(torch.zeros(8, 5, 5, 200)).shape
    torch.Size([8, 75])
    >>> sum(f.numel() for f in layer.factors)
    15750
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        in_shape: Sequence[int],
        out_features: int,
        rank: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        start: Start = "unit-variance",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_shape = tuple(map(index, in_shape))
        check_shape(self.in_shape, out_features, rank, "out_features")
        if start not in ("unit-variance", "xavier"):
            raise InputError(f"start must be 'unit-variance' or 'xavier', got {start!r}")
        self.out_features = out_features
        self.rank = rank
        self.start = start
        self._traced = plan_inner(self.in_shape, out_features, rank, TRACED_BATCH)
        self.factors = nn.ParameterList(
            nn.Parameter(torch.empty(out_features, rank, size, device=device, dtype=dtype))
            for size in self.in_shape
        )
        empty = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype))
        self.register_parameter("bias", empty if bias else None)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new factors and set the bias to zero.

        Parameters
        ----------
        generator : torch.Generator, optional
            Where the numbers come from; torch's own by default.
        """
        if self.factors[0].is_meta:  # no numbers to draw, and torch takes long to draw none
            return
        with torch.no_grad():
            for factor in self.factors:
                if self.start == "unit-variance":
                    _unit_variance_(factor, len(self.in_shape), generator)
                else:
                    # The paper's code draws the whole (Q, R, I_d) array at once, for which torch's
                    # fans are R * I_d and Q * I_d: a variance of 2 / ((Q + R) I_d) for each entry.
                    nn.init.xavier_uniform_(factor, generator=generator)
            if self.bias is not None:
                self.bias.zero_()

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor:
            """Return what `forward` does."""

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., I_1, ..., I_D)`` to ``(..., out_features)``."""
        # nobody calls a list of parameters, so its hooks, as of torch.nn.utils.prune, are run here
        for hook in self.factors._forward_pre_hooks.values():
            hook(self.factors, ())
        plan = self._traced if torch.compiler.is_compiling() else None
        return rank_r_linear(x, list(self.factors), self.bias, plan)

    def to_dense(self) -> nn.Linear:
        """Return the `torch.nn.Linear` on the flattened sample that computes the same."""
        first = self.factors[0]
        size, bias = math.prod(self.in_shape), self.bias is not None
        dense = nn.Linear(size, self.out_features, bias, device="meta", dtype=first.dtype)
        with torch.no_grad():
            dense.weight = nn.Parameter(dense_weight(list(self.factors)).clone())
            if self.bias is not None:
                dense.bias = nn.Parameter(self.bias.clone())
        return dense

    @classmethod
    def from_dense(
        cls,
        weight: nn.Linear | Tensor,
        in_shape: Sequence[int],
        rank: int | None = None,
        *,
        bias: Tensor | None = None,
        samples: Tensor | None = None,
        random_state: int | None = 0,
        max_iter: int = 200,
    ) -> tuple[RankRLinear, float]:
        """Turn a dense layer into a Rank-R layer: Theorem 1 of the paper made code.

        Warns if the result has more weights than the dense layer.

        Parameters
        ----------
        weight : nn.Linear, or Tensor ``(out_features, prod(in_shape))``
            The dense layer on the flattened sample, or its weight alone; the last mode runs
            fastest.
        in_shape : sequence of int
        rank : int, optional
            By default ``min_i prod_{d != i} I_d``: with that or more the result is exact. Below,
            each unit's weight is decomposed by alternating least squares.
        bias : Tensor, ``(out_features,)``, optional
            By default that of the dense layer, if one is given.
        samples : Tensor, ``(n, *in_shape)``, optional
            Typical inputs of the layer. The decomposition then approximates its outputs for them
            rather than its weights, and the bias makes up for the change of their mean.
        random_state : int, optional
            Start of the decomposition; not used when the result is exact.
        max_iter : int, default=200
            Iterations of the decomposition at most.

        Returns
        -------
        layer : RankRLinear
        error : float
            ``||rebuilt - weight|| / ||weight||``; with samples, the same of the outputs, centered
            if there is a bias. 0.0 when exact.

        Examples
        --------
        >>> dense = nn.Linear(6 * 8, 10)
        >>> layer, error = RankRLinear.from_dense(dense, (6, 8), rank=2)
        >>> sum(f.numel() for f in layer.factors), dense.weight.numel()
        (280, 480)
        """
        if isinstance(weight, nn.Linear):
            bias = weight.bias if bias is None else bias
            weight = weight.weight
        in_shape = tuple(map(index, in_shape))
        if weight.ndim != 2 or weight.shape[1] != math.prod(in_shape):
            raise InputError(
                f"weight must be (out_features, {math.prod(in_shape)}) for samples of {in_shape}, "
                f"got {tuple(weight.shape)}"
            )
        check_shape(in_shape, len(weight), 1 if rank is None else rank, "out_features")
        if bias is not None and bias.shape != weight.shape[:1]:
            raise InputError(f"bias must be ({len(weight)},), got {tuple(bias.shape)}")
        if not torch.isfinite(weight).all():
            raise InputError("weight holds NaN or infinite numbers; they have no decomposition")
        if samples is not None and (
            samples.ndim != 1 + len(in_shape)
            or tuple(samples.shape[1:]) != in_shape
            or len(samples) == 0
            or not torch.isfinite(samples).all()
        ):
            raise InputError(
                f"samples must be (n, {', '.join(map(str, in_shape))}) with n at least 1 and all "
                f"values finite, got {tuple(samples.shape)}"
            )
        weight = weight.detach()
        exact_rank = math.prod(in_shape) // max(in_shape)
        rank = exact_rank if rank is None else rank
        _warn_of_growth(weight, in_shape, rank)
        # made without numbers: the factors are copied in below
        layer = cls(in_shape, len(weight), rank, bias is not None, "meta", weight.dtype)
        give_memory(layer, weight.device)
        x = mean = None
        if rank >= exact_rank:
            factors = exact_factors(weight, in_shape, rank)
        else:
            factors = cp_als(weight, in_shape, rank, random_state, max_iter)
            if samples is not None:
                x = samples.detach().cpu().double()
                mean = x.mean(dim=0) * (bias is not None)  # the bias makes up for its outputs
                x = (x - mean).flatten(1)
                factors = fit_outputs(weight, x, factors, max_iter)
        with torch.no_grad():
            for parameter, factor in zip(layer.factors, factors, strict=True):
                parameter.copy_(factor)
            if layer.bias is not None and bias is not None:
                layer.bias.copy_(bias)
            if rank >= exact_rank:
                return layer, 0.0
            exact = weight.cpu().double()  # squares of small and large weights fit in there
            miss = dense_weight([f.cpu().double() for f in layer.factors]) - exact
            if x is not None and mean is not None:
                if layer.bias is not None:
                    layer.bias.sub_((miss @ mean.flatten()).to(layer.bias))
                exact, miss = exact @ x.T, miss @ x.T
            length = torch.linalg.vector_norm(exact).clamp_min(1e-300)
            return layer, float(torch.linalg.vector_norm(miss) / length)

    def extra_repr(self) -> str:
        """Return what ``print(layer)`` shows."""
        return (
            f"in_shape={self.in_shape}, out_features={self.out_features}, rank={self.rank}, "
            f"bias={self.bias is not None}"
        )


def _warn_of_growth(weight: Tensor, in_shape: tuple[int, ...], rank: int) -> None:
    count = rank * len(weight) * sum(in_shape)
    if count > weight.numel():
        most = math.prod(in_shape) // sum(in_shape)
        warnings.warn(
            f"the Rank-R layer has {count:,} weights, the dense layer has {weight.numel():,}; "
            + (f"pass a rank of at most {most}" if most else "keep the dense layer"),
            stacklevel=3,
        )


def _unit_variance_(factor: Tensor, order: int, generator: torch.Generator | None) -> None:
    # Columns of length R^(-1/2D): each of the R terms then has norm R^(-1/2), and W^(q) has
    # E ||W||^2 = 1, which is the pre-activation's variance for white input of variance one.
    rank = factor.shape[1]
    factor.normal_(generator=generator)
    norms = torch.linalg.vector_norm(factor, dim=-1, keepdim=True)
    norms.clamp_min_(torch.finfo(factor.dtype).tiny)
    factor.mul_(rank ** (-0.5 / order) / norms)


def exact_factors(weight: Tensor, shape: tuple[int, ...], rank: int) -> list[Tensor]:
    """Theorem 1: one term for each fibre along the longest mode, unit vectors elsewhere.

    Terms beyond those stay zero.
    """
    longest = max(range(len(shape)), key=lambda d: shape[d])
    others = [d for d in range(len(shape)) if d != longest]
    tensor = weight.reshape(-1, *shape).movedim(1 + longest, -1)  # (Q, *others, I_longest)
    fibres = tensor.reshape(len(weight), -1, shape[longest])  # (Q, exact rank, I_longest)
    terms = fibres.shape[1]
    factors = [weight.new_zeros(len(weight), rank, size) for size in shape]
    factors[longest][:, :terms] = fibres
    entries = np.unravel_index(np.arange(terms), [shape[d] for d in others]) if others else ()
    for d, entry in zip(others, entries, strict=True):  # entry (terms,) of mode d for each term
        factors[d][:, torch.arange(terms), torch.from_numpy(entry)] = 1.0
    return factors
