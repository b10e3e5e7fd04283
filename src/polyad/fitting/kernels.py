"""The blocks of `polyad.fitting.blocks`, compiled by numba (extra ``polyad[fast]``).

All inner steps of a block run in one call. A unit's gradient, its Adam step and its next
pre-activation need the same rows of the contracted input, so a tile of rows is read from memory
once per step and used twice while it is in the first-level cache; units are visited forth and
back, so that a step begins with what the last one left in the second-level cache.

The first call compiles for its dtype (some seconds); numba keeps the result on disk. Reductions
may be reordered and contracted, but NaN and infinity keep their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[np.floating]

TILE_BYTES = 24 * 1024  # of the contracted input in the first-level cache at a time
TANH, SIGMOID, RELU = range(3)  # as in `polyad.fitting.blocks.KINDS`; the identity is none of them

_LOG2E = 1 / math.log(2)
_LN2_HIGH = 0.693145751953125  # few bits, so that a whole multiple of it is exact in float32 too
_LN2_LOW = 1.4286068203094172321e-6  # the rest, to more digits than their difference would have


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function``, with a cache on disk where there is a place to write one."""
    # sums in any order, but not in _expm1, which is right only as it is written
    free = {"contract"} if function.__name__ == "_expm1" else {"reassoc", "contract", "nsz"}
    options: dict[str, Any] = {
        "fastmath": free,
        "error_model": "numpy",  # a division by zero is no exception, so that loops vectorise
        "nogil": True,
    }
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no directory that it may write to
        return njit(**options)(function)


# -- rows: out[o] and x[q] are vectors, z[k, start:stop] is a run of rows; no view is made -------


@_compiled
def _dot_rows(z: Array, k: int, start: int, stop: int, x: Array, q: int, g: Array) -> None:
    """``g[i] = <z[k, i], x[q]>``, four rows at a time."""
    n = z.shape[2]
    zero = z.dtype.type(0)
    last = stop - (stop - start) % 4
    for i in range(start, last, 4):
        s0, s1, s2, s3 = zero, zero, zero, zero
        for j in range(n):
            s0 += z[k, i, j] * x[q, j]
            s1 += z[k, i + 1, j] * x[q, j]
            s2 += z[k, i + 2, j] * x[q, j]
            s3 += z[k, i + 3, j] * x[q, j]
        g[i], g[i + 1], g[i + 2], g[i + 3] = s0, s1, s2, s3
    for i in range(last, stop):
        s0 = zero
        for j in range(n):
            s0 += z[k, i, j] * x[q, j]
        g[i] = s0


@_compiled
def _add_rows(
    z: Array, k: int, start: int, stop: int, w: Array, q: int, out: Array, o: int
) -> None:
    """``out[o] += sum_i w[q, i] z[k, i]``, four rows at a time."""
    n = z.shape[2]
    last = stop - (stop - start) % 4
    for i in range(start, last, 4):
        w0, w1, w2, w3 = w[q, i], w[q, i + 1], w[q, i + 2], w[q, i + 3]
        for j in range(n):
            out[o, j] += (
                w0 * z[k, i, j] + w1 * z[k, i + 1, j] + w2 * z[k, i + 2, j] + w3 * z[k, i + 3, j]
            )
    for i in range(last, stop):
        w0 = w[q, i]
        for j in range(n):
            out[o, j] += w0 * z[k, i, j]


@_compiled
def _adam(
    w: Array,
    mean: Array,
    square: Array,
    q: int,
    start: int,
    stop: int,
    g: Array,
    decay: Any,
    rates: Array,
    t: int,
) -> None:
    """Adam step ``t`` of ``w[q, start:stop]``; ``rates`` as `polyad.fitting.blocks.rates`."""
    b1, c1, b2, c2 = rates[t, 0], rates[t, 1], rates[t, 2], rates[t, 3]
    rate, unbias, eps = rates[t, 4], rates[t, 5], rates[t, 6]
    for i in range(np.uintp(start), np.uintp(stop)):  # unsigned: no test for negative indices
        mean[q, i] = b1 * mean[q, i] + c1 * g[i]
        square[q, i] = b2 * square[q, i] + c2 * (g[i] * g[i])
        w[q, i] = decay * w[q, i] - rate * mean[q, i] / (np.sqrt(square[q, i]) * unbias + eps)


@_compiled
def _step_unit(
    z: Array,
    k: int,
    w: Array,
    mean: Array,
    square: Array,
    q: int,
    by: Array,
    out: Array,
    g: Array,
    rates: Array,
    t: int,
) -> None:
    """Step ``w[q]`` along ``z[k] @ by[q]`` and add ``w[q] @ z[k]`` to ``out[q]``."""
    rows = w.shape[1]
    tile = max(4, TILE_BYTES // (z.shape[2] * z.itemsize) // 4 * 4)
    for start in range(0, rows, tile):
        stop = min(start + tile, rows)
        _dot_rows(z, k, start, stop, by, q, g)
        _adam(w, mean, square, q, start, stop, g, rates[t, 7], rates, t)
        if t + 1 < len(rates):  # after the last step nobody asks for the pre-activation
            _add_rows(z, k, start, stop, w, q, out, q)


# -- activations and losses ---------------------------------------------------------------------


@_compiled
def _expm1(y: Array, power: Array) -> None:
    """``y = exp(y) - 1`` in place for ``|y| < 700`` (87 in float32); ``power`` is scratch.

    With ``y = k ln 2 + r``, ``|r| <= ln 2 / 2``: ``exp(y) - 1 = 2^k (exp(r) - 1) + (2^k - 1)``,
    the first by its Taylor series, the power of two by its bits. Plain loops that vectorise,
    where calls of the C library would not.
    """
    if y.itemsize == 4:
        bits = power.view(np.int32)
        for i in range(len(y)):
            k = np.int32(y[i] * np.float32(_LOG2E) + np.float32(1000.5)) - np.int32(1000)
            y[i] -= np.float32(k) * np.float32(_LN2_HIGH)
            y[i] -= np.float32(k) * np.float32(_LN2_LOW)
            bits[i] = np.int32(k + np.int32(127)) << np.int32(23)
        for i in range(len(y)):
            r = y[i]
            s = r * np.float32(1 / 5040) + np.float32(1 / 720)
            s = s * r + np.float32(1 / 120)
            s = s * r + np.float32(1 / 24)
            s = s * r + np.float32(1 / 6)
            s = s * r + np.float32(1 / 2)
            s = s * r * r + r
            y[i] = s * power[i] + (power[i] - np.float32(1))
    else:
        long = power.view(np.int64)
        for i in range(len(y)):
            whole = np.int64(y[i] * _LOG2E + 2000.5) - 2000
            y[i] -= whole * _LN2_HIGH
            y[i] -= whole * _LN2_LOW
            long[i] = (whole + 1023) << 52
        for i in range(len(y)):
            x = y[i]
            e = x / 6227020800 + 1 / 479001600
            e = e * x + 1 / 39916800
            e = e * x + 1 / 3628800
            e = e * x + 1 / 362880
            e = e * x + 1 / 40320
            e = e * x + 1 / 5040
            e = e * x + 1 / 720
            e = e * x + 1 / 120
            e = e * x + 1 / 24
            e = e * x + 1 / 6
            e = e * x + 1 / 2
            e = e * x * x + x
            y[i] = e * power[i] + (power[i] - 1)


@_compiled
def _activate(a: Array, kind: int, power: Array) -> None:
    """Apply ``g`` to ``a`` in place."""
    number = a.dtype.type
    far, zero, one, two = number(40), number(0), number(1), number(2)
    if kind == TANH:  # (exp(2a) - 1) / (exp(2a) + 1); beyond 20 it is one
        for i in range(len(a)):
            a[i] = min(max(two * a[i], -far), far)
        _expm1(a, power)
        for i in range(len(a)):
            a[i] = a[i] / (a[i] + two)
    elif kind == SIGMOID:  # exp(a) / (exp(a) + 1)
        for i in range(len(a)):
            a[i] = min(max(a[i], -far), far)
        _expm1(a, power)
        for i in range(len(a)):
            a[i] = (a[i] + one) / (a[i] + two)
    elif kind == RELU:
        for i in range(len(a)):
            a[i] = max(a[i], zero)


@_compiled
def _times_slope(by: Array, u: Array, kind: int) -> None:
    """``by *= g'``, the slope written in terms of ``u = g(a)``."""
    zero, one = u.dtype.type(0), u.dtype.type(1)
    if kind == TANH:
        for i in range(len(u)):
            by[i] *= one - u[i] * u[i]
    elif kind == SIGMOID:
        for i in range(len(u)):
            by[i] *= u[i] * (one - u[i])
    elif kind == RELU:
        for i in range(len(u)):
            by[i] = by[i] if u[i] > zero else zero


@_compiled
def _affine(weight: Array, bias: Array, z: Array, out: Array) -> None:
    """``out[q] = weight[q] @ z[q] + bias[q]``; an empty ``bias`` is none."""
    for q in range(len(weight)):
        start = bias[0, q] if bias.size else out.dtype.type(0)
        for j in range(out.shape[1]):
            out[q, j] = start
        _add_rows(z, min(q, len(z) - 1), 0, z.shape[1], weight, q, out, q)


@_compiled
def _residual(p: Array, target: Array, share: Array, log_loss: bool, power: Array) -> None:
    """Turn outputs ``p``, ``(C, n)``, into the gradient of the mean loss by them."""
    classes, n = p.shape
    number = p.dtype.type
    if log_loss:
        lowest, one = number(-87), number(1)
        top = p[0].copy()
        for c in range(1, classes):
            for j in range(n):
                top[j] = max(top[j], p[c, j])
        for c in range(classes):
            for j in range(n):
                p[c, j] = max(p[c, j] - top[j], lowest)
        _expm1(p.reshape(p.size), power)
        top[:] = number(0)
        for c in range(classes):
            for j in range(n):
                p[c, j] += one
                top[j] += p[c, j]
        for c in range(classes):
            for j in range(n):
                p[c, j] /= top[j]
    for c in range(classes):
        for j in range(n):
            p[c, j] = (p[c, j] - target[c, j]) * share[j]


# -- blocks: their contracts are written in `polyad.fitting.blocks` -------------------------------


@_compiled
def _begin(
    out: Array, q: int, by: Array, bias: Array, moments: Array, rates: Array, t: int
) -> None:
    """Step bias ``q``, if there is one, and begin the unit's next pre-activation with it."""
    start = out.dtype.type(0)
    if bias.size:
        g = np.zeros(bias.size, out.dtype)
        for j in range(by.shape[1]):
            g[q] += by[q, j]
        _adam(bias, moments[:1], moments[1:], 0, q, q + 1, g, rates[t, 8], rates, t)
        start = bias[0, q]
    for j in range(out.shape[1]):
        out[q, j] = start


@_compiled
def mode_block(
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
    """Step one factor."""
    units, n = len(w), len(share)
    u, by, p = np.empty((units, n), w.dtype), np.empty((units, n), w.dtype), np.empty_like(target)
    power, g = np.empty(max(u.size, p.size), w.dtype), np.empty(w.shape[1], w.dtype)
    mean, square = np.zeros_like(w), np.zeros_like(w)
    moments = np.zeros((2, bias.size), w.dtype)
    none, v_rows = np.empty((1, 0), w.dtype), v.T.copy()
    _affine(w, bias, z, u)
    for t in range(len(rates)):
        _activate(u.reshape(u.size), kind, power)
        _affine(v, c, u.reshape(1, units, n), p)
        _residual(p, target, share, log_loss, power)
        _affine(v_rows, none, p.reshape(1, len(p), n), by)
        _times_slope(by.reshape(by.size), u.reshape(u.size), kind)
        for i in range(units):
            q = units - 1 - i if t % 2 == 0 else i
            _begin(u, q, by, bias, moments, rates, t)
            _step_unit(z, min(q, len(z) - 1), w, mean, square, q, by, u, g, rates, t)


@_compiled
def output_block(
    u: Array, v: Array, c: Array, target: Array, share: Array, log_loss: bool, rates: Array
) -> None:
    """Step the output layer."""
    p, by = np.empty_like(target), np.empty_like(target)
    power, g = np.empty(p.size, v.dtype), np.empty(v.shape[1], v.dtype)
    mean, square = np.zeros_like(v), np.zeros_like(v)
    moments = np.zeros((2, c.size), v.dtype)
    z = u.reshape(1, len(u), u.shape[1])
    _affine(v, c, z, p)
    for t in range(len(rates)):
        by[:] = p
        _residual(by, target, share, log_loss, power)
        for q in range(len(v)):
            _begin(p, q, by, c, moments, rates, t)
            _step_unit(z, 0, v, mean, square, q, by, p, g, rates, t)


@_compiled
def hidden(z: Array, w: Array, bias: Array, kind: int) -> Array:
    """Return the hidden units."""
    u = np.empty((len(w), z.shape[2]), w.dtype)
    _affine(w, bias, z, u)
    _activate(u.reshape(u.size), kind, np.empty(u.size, w.dtype))
    return u


@_compiled
def open_left(z: Array, kr: Array, out: Array) -> None:
    """Contract the right modes."""
    terms, left, right, n = z.shape
    rows = z.reshape(terms * left, right, n)
    flat = out.reshape(terms * left, n)
    flat[:] = z.dtype.type(0)
    for k in range(terms * left):
        _add_rows(rows, k, 0, right, kr, k // left, flat, k)


@_compiled
def open_right(z: Array, kr: Array, out: Array) -> None:
    """Contract the left modes."""
    terms, left, right, n = z.shape
    rows = z.reshape(terms, left, right * n)
    flat = out.reshape(terms, right * n)
    flat[:] = z.dtype.type(0)
    for k in range(terms):
        _add_rows(rows, k, 0, left, kr, k, flat, k)
