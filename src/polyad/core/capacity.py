r"""How much a Rank-R network can represent, and how many samples bound its error.

The corollaries of the paper as calculators. Corollary 1 (universal approximation) holds from
`generic_rank` on and for no smaller R, however many units there are; Corollary 2 (learnability) is
`vc_bound` and `sample_size`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import index, mul

import numpy as np
import numpy.typing as npt

from polyad.core.network import ACTIVATIONS
from polyad.core.plan import check_shape
from polyad.errors import InputError

MAX_ENTRIES = 4096  # of a tensor whose generic rank is computed: an SVD with that many columns
PIECEWISE = ("relu", "identity")  # the other activations need one exponential


def generic_rank(in_shape: Sequence[int]) -> int:
    r"""Return the smallest R for which Rank-R networks are universal approximators.

    Sums of :math:`g(\langle W, X \rangle)` over weights of a set are dense in the continuous
    functions if and only if no nonzero homogeneous polynomial vanishes on that set [1]_. Minors,
    for example, vanish on matrices of low rank. On tensors of rank R or less no polynomial vanishes
    if and only if R terms fill the space up to a set of measure zero over the complex numbers,
    which is the definition of the generic rank. It is at most the
    ``min_i prod_{d != i} I_d`` of Theorem 1, and often far less.

    Parameters
    ----------
    in_shape : sequence of int

    Returns
    -------
    int

    Notes
    -----
    By Terracini's lemma, R terms fill the space where the derivative of the CP map has full rank at
    random factors; that rank is computed in double precision.

    References
    ----------
    .. [1] V. Ya. Lin and A. Pinkus, "Fundamentality of ridge functions", J. Approx. Theory 75,
       295-311, 1993.

    Examples
    --------
    >>> generic_rank((3, 4)), generic_rank((3, 4, 5)), generic_rank((5, 5, 200))
    (3, 6, 25)
    >>> generic_rank((3, 3, 3))  # 4 terms have 28 parameters for 27 entries, and do not suffice
    5
    """
    shape = tuple(map(index, in_shape))
    check_shape(shape, 1, 1)
    exact = math.prod(shape) // max(shape)
    if max(shape) >= exact:  # the fibres along the longest mode are independent
        return exact
    if math.prod(shape) > MAX_ENTRIES:
        raise InputError(
            f"in_shape must have at most {MAX_ENTRIES} entries, got {math.prod(shape)} of {shape}; "
            f"the rank of Theorem 1, {exact}, is an upper bound"
        )
    rng = np.random.default_rng(0)
    rank = math.ceil(math.prod(shape) / (sum(shape) - len(shape) + 1))  # parameters >= entries
    while np.linalg.matrix_rank(_tangents(shape, rank, rng)) < math.prod(shape):
        rank += 1
    return rank


def _tangents(
    shape: tuple[int, ...], rank: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return the derivative of the CP map at random factors, ``(R sum(I_d), prod(I_d))``."""
    factors = [rng.normal(size=(rank, 1, size)) for size in shape]
    rows = []
    for mode, size in enumerate(shape):
        row = np.ones((1, 1, 1))
        for other, factor in enumerate(factors):
            vectors = np.eye(size)[None] if other == mode else factor
            row = row[..., :, None] * vectors[..., None, :]
            row = row.reshape(*row.shape[:2], -1)  # (R, I_mode, entries so far)
        rows.append(row.reshape(-1, row.shape[-1]))
    return np.concatenate(rows)


def vc_bound(
    in_shape: Sequence[int], hidden: int, rank: int, n_outputs: int = 1, activation: str = "tanh"
) -> int:
    r"""Return an upper bound on the VC dimension of Rank-R networks with a fixed number of units.

    With P parameters (biases included) and Q units, tanh and sigmoid units have [1]_

    .. math:: (P (Q + 1))^2 + 11 P (Q + 1) (t + \log_2 (9 P (Q + 1)))

    for the t operations of one prediction, and ReLU units the bound of [2]_ for two layers,
    :math:`2 + 2 P \log_2 (2 r \log_2 r)` with :math:`r = 2e (Q D + (C - 1) (D + 1))`, as
    pre-activations are polynomials of degree D in the parameters.

    Parameters
    ----------
    in_shape : sequence of int
    hidden, rank : int
    n_outputs : int, default=1
        Number of classes C. One output is thresholded at zero. From two on, the class with the
        largest output is predicted, and the dimension is that of the 0-1 loss (graph dimension).
    activation : {"tanh", "sigmoid", "relu", "identity"}, default="tanh"

    Returns
    -------
    int

    References
    ----------
    .. [1] M. Anthony and P. L. Bartlett, "Neural Network Learning: Theoretical Foundations",
       Cambridge University Press, 1999, Theorem 8.14.
    .. [2] P. L. Bartlett, N. Harvey, C. Liaw and A. Mehrabian, "Nearly-tight VC-dimension and
       pseudodimension bounds for piecewise linear neural networks", JMLR 20(63), 2019.

    Examples
    --------
    >>> vc_bound((5, 5, 200), hidden=75, rank=1, n_outputs=16, activation="relu")
    511339
    """
    shape = tuple(map(index, in_shape))
    check_shape(shape, hidden, rank)
    if n_outputs < 1:
        raise InputError(f"n_outputs must be at least 1, got {n_outputs}")
    if activation not in ACTIVATIONS:
        raise InputError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    parameters = hidden * (rank * sum(shape) + 1 + n_outputs) + n_outputs
    rivals, order = max(1, n_outputs - 1), len(shape)
    if activation in PIECEWISE:
        r = 2 * math.e * (hidden * order + rivals * (order + 1))
        return math.floor(2 + 2 * parameters * math.log2(2 * r * math.log2(r)))
    # a term is contracted mode by mode, longest first; tanh is 1 - 2 / (exp(2 a) + 1)
    term = 2 * sum(accumulate(sorted(shape), mul)) + 1
    operations = hidden * (rank * term + 5 + 2 * n_outputs) + 2 * n_outputs + 1
    size = parameters * (hidden + 1)
    return size**2 + math.floor(11 * size * (operations + math.log2(9 * size)))


def sample_size(vc: int, epsilon: float, delta: float, *, realizable: bool = False) -> int:
    r"""Return how many samples suffice to learn a class of given VC dimension (PAC).

    With that many independent samples, and with probability :math:`1 - \delta`, a classifier of the
    least training error is within :math:`\epsilon` of the class's best error rate [1]_:
    :math:`64 / \epsilon^2 \, (2 d \ln(12 / \epsilon) + \ln(4 / \delta))`. If some classifier of the
    class makes no error, the larger of :math:`4 / \epsilon \, \log_2(2 / \delta)` and
    :math:`8 d / \epsilon \, \log_2(13 / \epsilon)` suffices [2]_. Neither says how
    long finding that classifier takes.

    Parameters
    ----------
    vc : int
        VC dimension d, or a bound on it (`vc_bound`).
    epsilon, delta : float in (0, 1)
    realizable : bool, default=False
        Whether some classifier of the class makes no error.

    Returns
    -------
    int

    References
    ----------
    .. [1] M. Anthony and P. L. Bartlett, "Neural Network Learning: Theoretical Foundations",
       Cambridge University Press, 1999, Theorem 4.2.
    .. [2] A. Blumer, A. Ehrenfeucht, D. Haussler and M. K. Warmuth, "Learnability and the
       Vapnik-Chervonenkis dimension", J. ACM 36(4), 929-965, 1989, Theorem 2.1.

    Examples
    --------
    >>> sample_size(3, epsilon=0.1, delta=0.05), sample_size(3, 0.1, 0.05, realizable=True)
    (211885, 1686)
    """
    if vc < 1:
        raise InputError(f"vc must be at least 1, got {vc}")
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, both excluded, got {value}")
    if realizable:
        by_class = 8 * vc / epsilon * math.log2(13 / epsilon)
        return math.ceil(max(4 / epsilon * math.log2(2 / delta), by_class))
    return math.ceil(64 / epsilon**2 * (2 * vc * math.log(12 / epsilon) + math.log(4 / delta)))
