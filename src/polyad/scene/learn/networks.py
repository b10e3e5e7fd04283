r"""Several fitted networks as one Rank-R network on the scene's bands.

The mean of the logits of M networks is the normalized geometric mean of their probabilities. And
it is a Rank-R network again: the hidden units side by side, the output weights divided by M.

A hidden unit sees whitened spectra :math:`z = P^\top (x - \mu) / s` through its spectral factor
:math:`w`; since :math:`w^\top z = (P w)^\top (x - \mu) / s`, the factor :math:`P w` on
standardized bands does the same. Outputs of regressors are linear, so that a weighted mean of them
is one network too, with what a scaler or a whitening leaves as a constant of each hidden unit.
So an ensemble is saved, mapped and distributed as any other model, and mapping needs no extra step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from polyad.core.network import RankRNet, join_networks
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.learn.whitening import NoiseWhitening

Array = npt.NDArray[Any]
Estimator = TypeVar("Estimator", RankRClassifier, RankRRegressor)


def merge(
    members: Sequence[RankRClassifier], weights: Sequence[float] | None = None
) -> RankRClassifier:
    """Return one classifier whose logits are the members' logits, averaged or weighted.

    All members must take the same samples, standardized alike, and know the same classes. The
    weights are by default one over their number.
    """
    shares = [1 / len(members)] * len(members) if weights is None else list(weights)
    network = join_networks([member.network_ for member in members], shares)
    return _dressed(members[0], network, members[0].scaler_, members[0].sample_shape_)


# -- views folded into a network -------------------------------------------------------------------


def fold_whitening(
    estimator: RankRClassifier, whitening: NoiseWhitening, unit: float = 1.0
) -> RankRClassifier:
    """Return a classifier of windows of bands that predicts as ``estimator`` does on components.

    Parameters
    ----------
    estimator : RankRClassifier
        Fitted with ``standardize=None`` on samples ``(..., components)`` divided by ``unit``.
    whitening : NoiseWhitening
        That made the components.
    unit : float
    """
    layer = estimator.network_.hidden
    shape = (*layer.in_shape[:-1], len(whitening.mean_))
    projection = torch.from_numpy(whitening.projection_ / unit)  # (bands, components)
    spectral = layer.factors[-1].detach()  # (Q, R, components)
    folded_in = (spectral.double() @ projection.T).to(spectral.dtype)  # (Q, R, bands)
    network = estimator.network_.like({f"hidden.factors.{len(shape) - 1}": folded_in})
    scaler = ModeStandardScaler(-1)
    scaler.mean_, scaler.scale_ = whitening.mean_, whitening.scale_
    return _dressed(estimator, network, scaler, shape, standardize=-1)


def on_windows(estimator: RankRClassifier, window: int) -> RankRClassifier:
    """Return a classifier of ``window x window`` windows that predicts as ``estimator`` does.

    Parameters
    ----------
    estimator : RankRClassifier
        Of spectra ``(bands,)`` or of smaller windows ``(s, s, bands)``, standardized by band. What
        lies around them gets zero weights.
    window : int
        With 1, a network on spectra stays one.
    """
    if len(estimator.network_.hidden.in_shape) == 1 == window:
        return estimator
    network = estimator.network_
    *sides, spectral = (f.detach() for f in network.hidden.factors)
    state = {n: v for n, v in network.state_dict().items() if "factors" not in n}
    wide = _network(network, [*_padded(sides, spectral, window), spectral], state)
    return _dressed(estimator, wide, estimator.scaler_, tuple(wide.hidden.in_shape))


def _padded(
    sides: Sequence[torch.Tensor], spectral: torch.Tensor, window: int
) -> list[torch.Tensor]:
    """Return spatial factors ``(Q, R, s)`` with zeros around them, ``(Q, R, window)``."""
    center = spectral.new_ones(*spectral.shape[:2], 1)
    margins = [(side, (window - side.shape[-1]) // 2) for side in sides or (center, center)]
    return [torch.nn.functional.pad(side, (margin, margin)) for side, margin in margins]


def _network(
    like: RankRNet, factors: Sequence[torch.Tensor], state: dict[str, torch.Tensor]
) -> RankRNet:
    """Return the network of some factors and the other entries of its ``state``."""
    network = RankRNet(
        [f.shape[-1] for f in factors],
        len(factors[0]),
        len(state["output.weight"]),
        like.hidden.rank,
        like.activation,
        hidden_bias="hidden.bias" in state,
        output_bias="output.bias" in state,
        start=like.hidden.start,
        device="meta",
        dtype=factors[0].dtype,
    )
    state = state | {f"hidden.factors.{d}": f for d, f in enumerate(factors)}
    network.load_state_dict(state, assign=True)
    return network


# -- regressors ------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A fitted regressor, what it sees and what becomes of its outputs.

    Attributes
    ----------
    estimator : RankRRegressor
        Of spectra ``(features,)`` or of windows ``(s, s, features)``, standardized by feature.
    view : NoiseWhitening or None
        That made its features of bands; None if they are the bands.
    weight : float
        Of its outputs.
    group : int
        Which block of outputs of the joined network they are added to.
    """

    estimator: RankRRegressor
    view: NoiseWhitening | None
    weight: float
    group: int


def joined(members: Sequence[Member], scaler: ModeStandardScaler, window: int) -> RankRRegressor:
    """Return the regressor of windows of bands whose outputs are weighted sums of the members'.

    Parameters
    ----------
    members : sequence of Member
        The weights of each group add up to one; all have the same targets and the same rank.
    scaler : ModeStandardScaler
        Fitted on the scene's bands.
    window : int
        At least the members' own; with 1 the regressor takes spectra ``(bands,)``.
    """
    first = members[0].estimator
    layers = [_on_bands(member, scaler, window) for member in members]
    factors = [torch.cat(each).float() for each in zip(*(f for f, _ in layers), strict=True)]
    count, groups = len(first.target_mean_), 1 + max(member.group for member in members)
    units = [len(layer[1]) for layer in layers]
    weight = torch.zeros(count * groups, sum(units), dtype=torch.float64)
    bias = torch.zeros(count * groups, dtype=torch.float64)
    mean, scale = first.target_mean_, first.target_scale_
    start = 0
    for member, width in zip(members, units, strict=True):
        fitted, rows = member.estimator, slice(member.group * count, (member.group + 1) * count)
        output = fitted.network_.output
        share = torch.from_numpy(member.weight * fitted.target_scale_ / scale)  # (targets,)
        moved = torch.from_numpy(member.weight * (fitted.target_mean_ - mean) / scale)
        weight[rows, start : start + width] = share[:, None] * output.weight.detach().double()
        bias[rows] += share * output.bias.detach().double() + moved
        start += width
    state = {"output.weight": weight.float(), "output.bias": bias.float()}
    state["hidden.bias"] = torch.cat([layer[1] for layer in layers]).float()
    network = _network(first.network_, [f.contiguous() for f in factors], state)
    twin = _dressed(
        first, network, scaler, tuple(network.hidden.in_shape), standardize=-1, hidden_bias=True
    )
    return _with_targets(twin, np.tile(mean, groups), np.tile(scale, groups))


def part_of(estimator: RankRRegressor, outputs: int) -> RankRRegressor:
    """Return the regressor of the first outputs, without the hidden units of the others."""
    network, scaler = estimator.network_, estimator.scaler_
    kept = (network.output.weight.detach()[:outputs] != 0).any(dim=0)
    if not bool(kept.any()):  # a constant
        kept[0] = True
    state = network.state_dict()
    state = {k: v[kept] if "hidden" in k else v[:outputs] for k, v in state.items()}
    state["output.weight"] = state["output.weight"][:, kept]
    smaller = network.like({k: v.contiguous() for k, v in state.items()})
    twin = _dressed(estimator, smaller, scaler, tuple(smaller.hidden.in_shape))
    return _with_targets(twin, estimator.target_mean_[:outputs], estimator.target_scale_[:outputs])


def _on_bands(
    member: Member, scaler: ModeStandardScaler, window: int
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the factors on standardized bands of windows, and the bias of each hidden unit."""
    inner, layer = member.estimator.scaler_, member.estimator.network_.hidden
    *sides, spectral = (f.detach().double() for f in layer.factors)  # (Q, R, ...)
    features = spectral.shape[-1]
    center, unit = np.zeros(features), np.ones(features)
    if inner is not None:
        center, unit = inner.mean_, inner.scale_
    spectral = spectral / torch.from_numpy(unit)
    moved = -(spectral @ torch.from_numpy(center))  # (Q, R)
    if (view := member.view) is not None:
        spectral = spectral @ torch.from_numpy(view.projection_ / view.scale_[:, None]).T
        moved = moved - spectral @ torch.from_numpy(view.mean_)
    moved = moved + spectral @ torch.from_numpy(scaler.mean_)
    spectral = spectral * torch.from_numpy(scaler.scale_)
    for side in sides:
        moved = moved * side.sum(dim=-1)
    bias = moved.sum(dim=1)
    if layer.bias is not None:
        bias = bias + layer.bias.detach().double()
    if window == 1 and not sides:
        return [spectral], bias
    return [*_padded(sides, spectral, window), spectral], bias


def _dressed(
    like: Estimator,
    network: RankRNet,
    scaler: ModeStandardScaler | None,
    shape: tuple[int, ...],
    **parameters: Any,
) -> Estimator:
    """Return an estimator with all that `fit` would have given it, for samples of ``shape``."""
    twin = type(like)(**(like.get_params() | {"hidden": network.hidden.out_features} | parameters))
    twin.__dict__.update({k: v for k, v in vars(like).items() if k.endswith("_")})
    twin.network_, twin.scaler_ = network, copy.copy(scaler)
    if twin.scaler_ is not None:
        twin.scaler_.sample_shape_, twin.scaler_.n_features_in_ = shape, shape[0]
    twin.sample_shape_, twin.n_features_in_ = shape, shape[0]
    return twin


def _with_targets(twin: RankRRegressor, mean: Array, scale: Array) -> RankRRegressor:
    twin.target_mean_, twin.target_scale_ = mean, scale
    twin._one_target = len(mean) == 1
    return twin
