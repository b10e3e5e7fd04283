r"""Inner products of samples with CP tensors: the whole mathematics of the Rank-R layer.

Unit ``q`` of the layer holds the tensor :math:`W^{(q)} = [\![W_1^{(q)}, \dots, W_D^{(q)}]\!]`.
Everywhere in polyad its factors are a list with one tensor per mode,

    ``factors[d]`` of shape ``(Q, R, I_d)``,  ``factors[d][q, r] = r-th column of W_d^(q)``,

and what the layer computes for a sample ``X`` is

.. math::  \langle W^{(q)}, X \rangle
           = \sum_r \sum_{i_1 \dots i_D} x_{i_1 \dots i_D} \prod_d w^{(q,r)}_{d, i_d} .

`dense_inner` says it in one line and is the reference; `cp_inner` runs a plan (see
`polyad.core.plan`); `contract_except` leaves one mode open, which makes the model linear in that
mode's factor (Eq. 14 of the paper) and is what the alternating solver stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from polyad.core.plan import Plan, best_cut, plan_inner
from polyad.errors import InputError


def khatri_rao(factors: Sequence[Tensor]) -> Tensor:
    """Return the Khatri-Rao product over the last axis, the last factor running fastest.

    Parameters
    ----------
    factors : sequence of Tensor, each ``(Q, R, I_d)``

    Returns
    -------
    Tensor, ``(Q, R, prod I_d)``

    Examples
    --------
    >>> import torch
    >>> a, b = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]])
    >>> khatri_rao([a, b])
    tensor([[[3., 4., 6., 8.]]])
    """
    product = factors[-1]
    for factor in factors[-2::-1]:  # from the right: the long axis is the one that runs fastest
        product = (factor.unsqueeze(-1) * product.unsqueeze(-2)).flatten(-2)
    return product


def dense_weight(factors: Sequence[Tensor]) -> Tensor:
    """Rebuild the dense weight ``(Q, prod I_d)``, Eq. (7) of the paper."""
    terms = khatri_rao(factors)  # (Q, R, prod I_d)
    return terms.squeeze(-2) if terms.shape[-2] == 1 else terms.sum(dim=-2)


def rebuilt_weight(factors: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Return `dense_weight` by a matrix product over the R terms, one for each unit.

    The modes are cut into two halves, so that the terms themselves are never written.

    Parameters
    ----------
    factors : sequence of Tensor, each ``(Q, R, I_d)``
    out : Tensor, ``(Q, prod I_d)``, optional
        Where to write it, when no gradient is asked for.
    """
    if len(factors) == 1:
        return factors[0].sum(dim=1) if out is None else torch.sum(factors[0], dim=1, out=out)
    cut = best_cut([f.shape[-1] for f in factors])
    left, right = khatri_rao(factors[:cut]), khatri_rao(factors[cut:])  # (Q, R, prod of half)
    product = None if out is None else out.view(len(out), left.shape[-1], right.shape[-1])
    return torch.bmm(left.transpose(1, 2), right, out=product).flatten(1)


def dense_inner(x: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """Return ``<W^(q), X_n>`` through the rebuilt weight: the slow, plain reference.

    Parameters
    ----------
    x : Tensor, ``(n, I_1, ..., I_D)``
    factors : sequence of Tensor, each ``(Q, R, I_d)``

    Returns
    -------
    Tensor, ``(n, Q)``
    """
    return x.flatten(1) @ dense_weight(factors).T


def cp_inner(x: Tensor, factors: Sequence[Tensor], plan: Plan | None = None) -> Tensor:
    """Return ``<W^(q), X_n>`` in the order that ``plan`` says; equal to `dense_inner`.

    Parameters
    ----------
    x : Tensor, ``(n, I_1, ..., I_D)``
    factors : sequence of Tensor, each ``(Q, R, I_d)``
    plan : Plan, optional
        Made from the shapes when not given; a traced program then rebuilds the weight.

    Returns
    -------
    Tensor, ``(n, Q)``

    Examples
    --------
    >>> import torch
    >>> x = torch.ones(1, 2, 3)
    >>> factors = [torch.ones(4, 5, 2), torch.ones(4, 5, 3)]
    >>> cp_inner(x, factors)  # 5 terms, each the sum of 2 * 3 ones
    tensor([[30., 30., 30., 30.]])
    """
    hidden, rank, _ = factors[0].shape
    n, shape = x.shape[0], tuple(x.shape[1:])
    _check_sizes(shape, factors)
    if plan is None and torch.compiler.is_compiling():  # for any n, and no cache is looked into
        return x.flatten(1) @ rebuilt_weight(factors).T
    if plan is None:
        plan = plan_inner(shape, hidden, rank, n)
    elif (plan.sample_shape, plan.hidden, plan.rank) != (shape, hidden, rank):
        raise InputError(
            f"plan is for samples of {plan.sample_shape}, {plan.hidden} units of rank {plan.rank}; "
            f"got samples of {shape}, {hidden} units of rank {rank}; make one with plan_inner"
        )
    if plan.chosen.dense:
        return x.flatten(1) @ rebuilt_weight(factors).T
    first, *rest = plan.groups
    z = _contract_group(x, factors, first)  # (n, *open modes, Q * R)
    open_modes = [d for d in range(len(shape)) if d not in first]
    for group in rest:
        z = _weighted_sum(z, factors, group, open_modes, shape)
        open_modes = [d for d in open_modes if d not in group]
    return z.reshape(n, hidden, rank).sum(dim=-1)


def contract_except(x: Tensor, factors: Sequence[Tensor], mode: int) -> Tensor:
    r"""Return :math:`Z_{\neq d}` of Eq. (12): every mode contracted except ``mode``.

    Parameters
    ----------
    x : Tensor, ``(n, I_1, ..., I_D)``
    factors : sequence of Tensor, each ``(Q, R, I_d)``
    mode : int
        Negative values count from the last mode.

    Returns
    -------
    Tensor, ``(n, Q, R, I_mode)``
        So that ``(z * factors[mode]).sum((-2, -1))`` is ``cp_inner(x, factors)``.
    """
    _check_sizes(tuple(x.shape[1:]), factors)
    hidden, rank, size = factors[mode].shape
    modes = range(len(factors))
    others = tuple(d for d in modes if d != modes[mode])
    if not others:
        return x[:, None, None, :].expand(x.shape[0], hidden, rank, size)
    z = _contract_group(x, factors, others)  # (n, I_mode, Q * R)
    return z.reshape(x.shape[0], size, hidden, rank).permute(0, 2, 3, 1)


def _check_sizes(shape: tuple[int, ...], factors: Sequence[Tensor]) -> None:
    """Refuse a transposed sample: the rebuilt weight would take it for one that fits."""
    expected = tuple(f.shape[-1] for f in factors)
    if shape != expected:
        raise InputError(f"factors expect samples of {expected}, got {shape}")


def _contract_group(x: Tensor, factors: Sequence[Tensor], group: tuple[int, ...]) -> Tensor:
    """Contract the modes of ``group`` by one matrix product; ``(n, *open modes, Q * R)``."""
    weight = khatri_rao([factors[d] for d in group]).flatten(0, 1)  # (Q * R, prod of group)
    order = x.ndim - 1
    open_modes = [d for d in range(order) if d not in group]
    open_shape = [x.shape[1 + d] for d in open_modes]
    if group == tuple(range(len(group))):  # a prefix: contract from the left, nothing is copied
        left = x.reshape(x.shape[0], weight.shape[1], prod(open_shape))
        z = weight @ left  # (n, Q * R, prod of open modes)
        return z.transpose(1, 2).reshape(x.shape[0], *open_shape, weight.shape[0])
    rows = x.permute(0, *(1 + d for d in open_modes), *(1 + d for d in group))
    return rows.reshape(x.shape[0], *open_shape, weight.shape[1]) @ weight.T


def _weighted_sum(
    z: Tensor,
    factors: Sequence[Tensor],
    group: tuple[int, ...],
    open_modes: Sequence[int],
    shape: Sequence[int],
) -> Tensor:
    """Contract ``group`` of a partial product ``(n, *open modes, Q * R)``, term by term."""
    weight = khatri_rao([factors[d] for d in group]).flatten(0, 1).T  # (prod of group, Q * R)
    kept = [d for d in open_modes if d not in group]
    order = [*kept, *group]
    z = z.permute(0, *(1 + open_modes.index(d) for d in order), z.ndim - 1)
    z = z.reshape(z.shape[0], *(shape[d] for d in kept), *weight.shape)
    return (z * weight.to(z.dtype)).sum(dim=-2)  # autocast leaves z in the lower precision
