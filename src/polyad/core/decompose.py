"""CP decompositions of dense weights, of all units at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyad.core.contract import contract_except, dense_weight, khatri_rao

TOLERANCE = 1e-8  # of the relative error, by which an iteration must lower it for any unit
RIDGE = 1e-12  # a weight of rank below R would make the normal equations singular
OUTPUT_TOLERANCE = 1e-3  # as TOLERANCE; a lower one changed no accuracy on digits
DAMPING = 1e-3  # of a step: where the samples do not vary, factors stay as they are
ENTRIES = 2**24  # of the largest intermediate, by which units are taken together


def cp_als(
    weight: Tensor,
    shape: Sequence[int],
    rank: int,
    random_state: int | None = 0,
    max_iter: int = 200,
) -> list[Tensor]:
    r"""Decompose each unit's weight by alternating least squares.

    With all factors but :math:`W_d` fixed, the error of a unit is least at
    :math:`W_d = Z_d\, (\ast_{e \neq d} W_e^\top W_e)^{-1}`, where :math:`Z_d` is its weight
    multiplied by the Khatri-Rao product of the others. All units take that step together.

    Parameters
    ----------
    weight : Tensor, ``(Q, prod(shape))``
    shape : sequence of int
    rank : int
    random_state : int, optional
        Seed of the start; None draws another each time.
    max_iter : int, default=200

    Returns
    -------
    list of Tensor, each ``(Q, rank, I_d)``
        Of the type of ``weight``, on its device.

    Examples
    --------
    >>> a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
    >>> first, second = cp_als(torch.outer(a, b).reshape(1, 6), (2, 3), rank=1)
    >>> torch.allclose(first.transpose(1, 2) @ second, torch.outer(a, b))
    True
    """
    generator = torch.Generator()
    generator.seed() if random_state is None else generator.manual_seed(random_state)
    tensor = weight.detach().cpu().double().reshape(-1, *shape)
    norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1)
    tensor = tensor / norms.clamp_min(1e-300).reshape(-1, *[1] * len(shape))
    factors = [
        torch.rand(len(tensor), rank, size, dtype=torch.float64, generator=generator)
        for size in shape
    ]
    ridge = RIDGE * torch.eye(rank, dtype=torch.float64)
    before = torch.full_like(norms, torch.inf)
    for _ in range(max_iter):
        for d in range(len(shape)):
            others = [f for e, f in enumerate(factors) if e != d]
            grams = _gram(others)
            z = khatri_rao(others) @ tensor.movedim(1 + d, -1).reshape(len(tensor), -1, shape[d])
            factors[d] = torch.linalg.solve(grams + ridge, z)  # (Q, R, I_d)
            if d < len(shape) - 1:  # lengths gather in the last factor
                lengths = torch.linalg.vector_norm(factors[d], dim=-1, keepdim=True)
                factors[d] = factors[d] / lengths.clamp_min(1e-300)
        # ||W||^2 - 2 <W, V> + ||V||^2, for weights of length one
        square = 1 - 2 * (z * factors[-1]).sum((1, 2)) + _gram(factors).sum((1, 2))
        error = square.clamp_min(0).sqrt()
        if bool((before - error < TOLERANCE).all()):
            break
        before = error
    factors[-1] = factors[-1] * norms[:, None, None]
    return [f.to(weight) for f in factors]


def fit_outputs(
    weight: Tensor, x: Tensor, factors: Sequence[Tensor], max_iter: int = 200
) -> list[Tensor]:
    r"""Improve a decomposition so that each unit's outputs for some samples change little.

    Minimizes :math:`\sum_n \langle W - \hat W, X_n \rangle^2` by alternating least squares. It
    depends on the samples through their second moment alone, so that no more rows than a sample has
    entries stand for all of them.

    Parameters
    ----------
    weight : Tensor, ``(Q, prod(I_d))``
    x : Tensor, ``(n, prod(I_d))``
        Samples, flattened, in double precision.
    factors : sequence of Tensor, each ``(Q, R, I_d)``
        Where to start, as from `cp_als`.
    max_iter : int, default=200

    Returns
    -------
    list of Tensor, each ``(Q, R, I_d)``
        Of the type of ``weight``, on its device.
    """
    shape, rank = [f.shape[-1] for f in factors], factors[0].shape[1]
    rows = torch.linalg.qr(x, mode="r").R if len(x) > x.shape[1] else x
    rows = (rows / rows.abs().max().clamp_min(1e-300)).reshape(-1, *shape)
    exact = weight.detach().cpu().double()
    norms = torch.linalg.vector_norm(exact, dim=1).clamp_min(1e-300)
    targets = exact / norms[:, None] @ rows.flatten(1).T  # (Q, rows)
    *start, last = (f.cpu().double() for f in factors)
    start.append(last / norms[:, None, None])
    together = max(1, ENTRIES // (len(rows) * rank * max(shape)))
    chunks = [slice(q, q + together) for q in range(0, len(exact), together)]
    parts = [
        _fit_units(rows, targets[units], [f[units] for f in start], max_iter) for units in chunks
    ]
    *fitted, last = (torch.cat(mode) for mode in zip(*parts, strict=True))
    return [f.to(weight) for f in (*fitted, last * norms[:, None, None])]


def _fit_units(rows: Tensor, targets: Tensor, factors: list[Tensor], max_iter: int) -> list[Tensor]:
    """Fit factors of some units, each ``(Q, R, I_d)``, to their outputs ``(Q, rows)``."""
    lengths = torch.linalg.vector_norm(targets, dim=1).clamp_min(1e-300)
    before = torch.full_like(lengths, torch.inf)
    for _ in range(max_iter):
        for d, factor in enumerate(factors):
            # Eq. (14): linear in W_d once the other modes are fixed
            z = contract_except(rows, factors, d).movedim(0, 1).flatten(2)  # (Q, rows, R * I_d)
            gram = z.mT @ z
            diagonal = gram.diagonal(dim1=1, dim2=2)
            diagonal += DAMPING * diagonal.mean(dim=1, keepdim=True).clamp_min(1e-300)
            miss = targets[..., None] - z @ factor.reshape(len(z), -1, 1)
            factors[d] = factor + torch.linalg.solve(gram, z.mT @ miss).reshape(factor.shape)
        error = (
            torch.linalg.vector_norm(targets - dense_weight(factors) @ rows.flatten(1).T, dim=1)
            / lengths
        )
        if bool((before - error < OUTPUT_TOLERANCE).all()):
            break
        before = error
    return factors


def _gram(factors: Sequence[Tensor]) -> Tensor:
    """Return the entrywise product of each factor's inner products, ``(Q, R, R)``."""
    product = factors[0] @ factors[0].transpose(1, 2)
    for factor in factors[1:]:
        product = product * (factor @ factor.transpose(1, 2))
    return product
