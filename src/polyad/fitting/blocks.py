r"""The inner steps of the alternating solver on the CPU: written-out gradients, no graph.

A block steps one factor, or the output layer, on one batch with all else fixed. Samples run
fastest, so that the terms of a unit are merged with the mode: the contracted input is
``z``, ``(Q, K, n)`` with ``K = R * I_d``, and the factor is ``w``, ``(Q, K)``; then
:math:`a_q = w_q z_q` (Eq. 14) for any rank. Where all units see the same input, ``z`` is
``(1, K, n)``. Biases are ``(1, size)``, or of size zero where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from polyad.fitting.joint import BETA1, BETA2, EPS

Array = npt.NDArray[np.floating]


class Activation(NamedTuple):
    """An activation ``g``, written over ``a``, and its derivative by ``u = g(a)``."""

    over: Callable[[Array], Array]
    slope: Callable[[Array], Array]


ACTIVATIONS = {
    "tanh": Activation(lambda a: np.tanh(a, out=a), lambda u: 1 - u * u),
    "sigmoid": Activation(lambda a: expit(a, out=a), lambda u: u * (1 - u)),
    "relu": Activation(lambda a: np.maximum(a, 0, out=a), lambda u: (u > 0).astype(u.dtype)),
    "identity": Activation(lambda a: a, np.ones_like),
}


class Rates(NamedTuple):
    r"""The constants of one Adam step.

    The running means are kept without their factors :math:`1 - \beta`, and the learning rate and
    both corrections of bias are moved into the divisor: :math:`w \mathrel{-}= m / (s \sqrt{v} + e)`
    is Adam's step in fewer operations, and without a temporary array.
    """

    beta1: float
    beta2: float
    scale: float
    eps: float
    decay: float


def adam_rates(steps: int, learning_rate: float, weight_decay: float) -> list[Rates]:
    """Return the constants of each of ``steps`` Adam steps."""
    decay = 1 - learning_rate * weight_decay
    rates = []
    for t in range(1, steps + 1):
        rate = learning_rate * (1 - BETA1) / (1 - BETA1**t)
        unbias = ((1 - BETA2) / (1 - BETA2**t)) ** 0.5
        rates.append(Rates(BETA1, BETA2, unbias / rate, EPS / rate, decay))
    return rates


class Goal(NamedTuple):
    """What a batch is fitted to: targets ``(C, n)``, and weights ``(n,)`` over the batch's size."""

    target: Array
    share: Array
    log_loss: bool


def mode_block(
    z: Array,
    w: Array,
    bias: Array,
    output: tuple[Array, Array],
    goal: Goal,
    activation: str,
    rates: list[Rates],
) -> None:
    """Step ``w`` and ``bias`` in place, once for each of ``rates``.

    ``output`` is the output layer: weights ``(C, Q)`` and bias.
    """
    v, c = output
    moments, bias_moments = _moments(w), _moments(bias)
    slope = ACTIVATIONS[activation].slope
    units = np.empty((len(w), z.shape[-1]), w.dtype)  # memory for all steps
    for step in rates:
        u = hidden(z, w, bias, activation, out=units)
        by = v.T @ _residual(_affine(v, c, u), goal)  # (Q, n)
        by *= slope(u)
        g = by @ z[0].T if len(z) == 1 else np.matmul(z, by[..., None])[..., 0]  # (Q, K)
        _adam(w, moments, g, step)
        if bias.size:
            _adam(bias, bias_moments, by.sum(axis=1)[None], step._replace(decay=1.0))


def output_block(u: Array, v: Array, c: Array, goal: Goal, rates: list[Rates]) -> None:
    """Step ``v`` and ``c`` in place for hidden units ``u``, ``(Q, n)``."""
    moments, bias_moments = _moments(v), _moments(c)
    for step in rates:
        by = _residual(_affine(v, c, u), goal)  # (C, n)
        _adam(v, moments, by @ u.T, step)
        if c.size:
            _adam(c, bias_moments, by.sum(axis=1)[None], step._replace(decay=1.0))


def hidden(z: Array, w: Array, bias: Array, activation: str, out: Array | None = None) -> Array:
    """Return the hidden units, ``(Q, n)``, in ``out`` if it is given."""
    a = np.empty((len(w), z.shape[-1]), w.dtype) if out is None else out
    if len(z) == 1:
        np.matmul(w, z[0], out=a)
    else:
        np.matmul(w[:, None, :], z, out=a[:, None, :])
    if bias.size:
        a += bias.T
    return ACTIVATIONS[activation].over(a)


def open_left(z: Array, kr: Array, out: Array) -> None:
    """Contract ``z``, ``(Q * R, left, right, n)``, with ``kr`` over the right modes."""
    np.matmul(kr[:, None, None, :], z, out=out[:, :, None, :])


def open_right(z: Array, kr: Array, out: Array) -> None:
    """Contract ``z``, ``(Q * R, left, right, n)``, with ``kr`` over the left modes."""
    terms, left, _, _ = z.shape
    np.matmul(kr[:, None, :], z.reshape(terms, left, -1), out=out.reshape(terms, 1, -1))


def _affine(v: Array, c: Array, u: Array) -> Array:
    outputs = v @ u  # (C, n)
    if c.size:
        outputs += c.T
    return outputs


def _residual(p: Array, goal: Goal) -> Array:
    """Turn outputs into the gradient of the batch's mean loss by them, in place."""
    if goal.log_loss:
        p -= np.maximum.reduce(p)
        np.exp(p, out=p)
        p /= np.add.reduce(p)
    p -= goal.target
    p *= goal.share
    return p


def _moments(w: Array) -> tuple[Array, Array]:
    return np.zeros_like(w), np.zeros_like(w)


def _adam(w: Array, moments: tuple[Array, Array], g: Array, step: Rates) -> None:
    """Take one Adam step in place; ``g`` is overwritten."""
    mean, square = moments
    mean *= step.beta1
    mean += g
    square *= step.beta2
    g *= g
    square += g
    np.sqrt(square, out=g)
    g *= step.scale
    g += step.eps
    np.divide(mean, g, out=g)
    if step.decay != 1:
        w *= step.decay
    w -= g
