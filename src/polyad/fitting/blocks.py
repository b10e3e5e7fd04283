r"""The inner steps of the alternating solver on the CPU: written-out gradients, no graph.

A block steps one factor, or the output layer, on one batch with all else fixed. Samples run
fastest, so that the terms of a unit are merged with the mode: the contracted input is
``z``, ``(Q, K, n)`` with ``K = R * I_d``, and the factor is ``w``, ``(Q, K)``; then
:math:`a_q = w_q z_q` (Eq. 14) for any rank. Where all units see the same input, ``z`` is
``(1, K, n)``.

Each block exists twice: here in numpy, and in `polyad.fitting.kernels` compiled by numba, where a
step reads ``z`` once instead of twice. `compiled_blocks` is used where numba is installed
(``pip install 'polyad[fast]'``), `NUMPY` otherwise; the results agree to rounding.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from polyad.fitting.adam import BETA1, BETA2, EPS

Array = npt.NDArray[np.floating]

KINDS = {"tanh": 0, "sigmoid": 1, "relu": 2, "identity": 3}
_VALUES: tuple[Callable[[Array], Array], ...] = (
    np.tanh,
    expit,
    lambda a: np.maximum(a, 0),
    lambda a: a,
)
_SLOPES: tuple[Callable[[Array], Array], ...] = (
    lambda u: 1 - u * u,
    lambda u: u * (1 - u),
    lambda u: (u > 0).astype(u.dtype),
    np.ones_like,
)


class Blocks(NamedTuple):
    """The operations of a sweep. Biases are ``(1, size)``, or of size zero where there is none.

    Attributes
    ----------
    mode_block : callable
        ``(z, w, bias, v, c, target, share, log_loss, kind, rates)``; steps ``w`` and ``bias`` in
        place, once per row of ``rates``. ``v``, ``(C, Q)``, and ``c`` are the output layer,
        ``target`` is ``(C, n)``, ``share`` holds the samples' weights over the batch's size.
    output_block : callable
        ``(u, v, c, target, share, log_loss, rates)``; steps ``v`` and ``c`` in place for hidden
        units ``u``, ``(Q, n)``.
    hidden : callable
        ``(z, w, bias, kind)``; returns hidden units ``(Q, n)``.
    open_left, open_right : callable
        ``(z, kr, out)``; contract ``z``, ``(Q * R, left, right, n)``, with ``kr`` over the right
        or the left modes, so that the others stay open in ``out``.
    """

    mode_block: Callable[..., None]
    output_block: Callable[..., None]
    hidden: Callable[..., Array]
    open_left: Callable[[Array, Array, Array], None]
    open_right: Callable[[Array, Array, Array], None]


def choose_blocks() -> Blocks:
    """Return the compiled blocks where numba is installed, the numpy ones otherwise."""
    return compiled_blocks() if importlib.util.find_spec("numba") else NUMPY


@cache
def compiled_blocks() -> Blocks:
    """Return the blocks compiled by numba."""
    from polyad.fitting import kernels

    return Blocks(*(getattr(kernels, name) for name in Blocks._fields))


def rates(steps: int, learning_rate: float, weight_decay: float, dtype: npt.DTypeLike) -> Array:
    """Return what each Adam step needs, ``(steps, 9)``.

    Columns: the two means' factors and their complements; learning rate and root of the squares,
    freed of bias; epsilon; decay of weights and of biases.
    """
    t = np.arange(1, steps + 1)
    table = np.empty((steps, 9))
    table[:, :4] = BETA1, 1 - BETA1, BETA2, 1 - BETA2
    table[:, 4] = learning_rate / (1 - BETA1**t)
    table[:, 5] = 1 / np.sqrt(1 - BETA2**t)
    table[:, 6:] = EPS, 1 - learning_rate * weight_decay, 1.0
    return table.astype(dtype)


# -- in numpy -----------------------------------------------------------------------------------


def _mode_block(
    z: Array,
    w: Array,
    bias: Array,
    v: Array,
    c: Array,
    target: Array,
    share: Array,
    log_loss: bool,
    kind: int,
    rates: Array,
) -> None:
    moments, bias_moments = _moments(w), _moments(bias)
    for row in rates:
        u = _hidden(z, w, bias, kind)
        by = v.T @ _residual(_affine(v, c, u), target, share, log_loss)  # (Q, n)
        by *= _SLOPES[kind](u)
        g = by @ z[0].T if len(z) == 1 else np.matmul(z, by[..., None])[..., 0]  # (Q, K)
        _adam(w, moments, g, row, row[7])
        if bias.size:
            _adam(bias, bias_moments, by.sum(axis=1)[None], row, row[8])


def _output_block(
    u: Array, v: Array, c: Array, target: Array, share: Array, log_loss: bool, rates: Array
) -> None:
    moments, bias_moments = _moments(v), _moments(c)
    for row in rates:
        by = _residual(_affine(v, c, u), target, share, log_loss)  # (C, n)
        _adam(v, moments, by @ u.T, row, row[7])
        if c.size:
            _adam(c, bias_moments, by.sum(axis=1)[None], row, row[8])


def _hidden(z: Array, w: Array, bias: Array, kind: int) -> Array:
    a = w @ z[0] if len(z) == 1 else np.matmul(w[:, None, :], z)[:, 0]  # (Q, n)
    if bias.size:
        a += bias.T
    return _VALUES[kind](a)


def _open_left(z: Array, kr: Array, out: Array) -> None:
    np.matmul(kr[:, None, None, :], z, out=out[:, :, None, :])


def _open_right(z: Array, kr: Array, out: Array) -> None:
    terms, left, _, _ = z.shape
    np.matmul(kr[:, None, :], z.reshape(terms, left, -1), out=out.reshape(terms, 1, -1))


def _affine(v: Array, c: Array, u: Array) -> Array:
    outputs = v @ u  # (C, n)
    if c.size:
        outputs += c.T
    return outputs


def _residual(p: Array, target: Array, share: Array, log_loss: bool) -> Array:
    """Turn outputs into the gradient of the batch's mean loss by them, in place."""
    if log_loss:
        p -= p.max(axis=0)
        np.exp(p, out=p)
        p /= p.sum(axis=0)
    p -= target
    p *= share
    return p


def _moments(w: Array) -> tuple[Array, Array]:
    return np.zeros_like(w), np.zeros_like(w)


def _adam(w: Array, moments: tuple[Array, Array], g: Array, row: Array, decay: float) -> None:
    """Take one Adam step in place; ``g`` is overwritten."""
    b1, c1, b2, c2, rate, unbias, eps = row[:7]
    mean, square = moments
    mean *= b1
    mean += c1 * g
    square *= b2
    g *= g
    g *= c2
    square += g
    if decay != 1:
        w *= decay
    scale = np.sqrt(square)
    scale *= unbias
    scale += eps
    np.divide(mean, scale, out=scale)
    scale *= rate
    w -= scale


NUMPY = Blocks(_mode_block, _output_block, _hidden, _open_left, _open_right)
