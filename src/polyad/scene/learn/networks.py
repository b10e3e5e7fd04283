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

    All members must take the same samples, standardized alike, and know the same classes.

    Parameters
    ----------
    members : sequence of RankRClassifier
    weights : sequence of float, optional
        Of the members' logits; by default one over their number.
    """
    first = members[0]
    networks = [m.network_ for m in members]
    shares = [1 / len(networks)] * len(networks) if weights is None else list(weights)
    joined = join_networks(networks, shares)
    return _dressed(first, joined, first.scaler_, first.sample_shape_)


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
    center = spectral.new_ones(*spectral.shape[:2], 1)
    factors = [padded(side, window) for side in sides or [center, center]] + [spectral]
    wide = RankRNet(
        [f.shape[-1] for f in factors],
        len(spectral),
        len(network.output.weight),
        spectral.shape[1],
        network.activation,
        hidden_bias=network.hidden.bias is not None,
        output_bias=network.output.bias is not None,
        start=network.hidden.start,
        device="meta",
        dtype=spectral.dtype,
    )
    state = {n: v for n, v in network.state_dict().items() if "factors" not in n}
    state |= {f"hidden.factors.{d}": f for d, f in enumerate(factors)}
    wide.load_state_dict(state, assign=True)
    return _dressed(estimator, wide, estimator.scaler_, tuple(wide.hidden.in_shape))


def padded(factor: torch.Tensor, window: int) -> torch.Tensor:
    """Return a spatial factor ``(Q, R, s)`` with zeros on both sides, ``(Q, R, window)``."""
    margin = (window - factor.shape[-1]) // 2
    return torch.nn.functional.pad(factor, (margin, margin))


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
    factors = [torch.cat([layer[0][d] for layer in layers]) for d in range(len(layers[0][0]))]
    count, groups = len(first.target_mean_), 1 + max(member.group for member in members)
    units = [len(layer[1]) for layer in layers]
    weight = torch.zeros(count * groups, sum(units), dtype=torch.float64)
    bias = torch.zeros(count * groups, dtype=torch.float64)
    mean, scale = first.target_mean_, first.target_scale_
    start = 0
    for member, width in zip(members, units, strict=True):
        own, rows = member.estimator, slice(member.group * count, (member.group + 1) * count)
        output = own.network_.output
        share = torch.from_numpy(member.weight * own.target_scale_ / scale)  # (targets,)
        moved = torch.from_numpy(member.weight * (own.target_mean_ - mean) / scale)
        weight[rows, start : start + width] = share[:, None] * output.weight.detach().double()
        bias[rows] += share * output.bias.detach().double() + moved
        start += width
    network = RankRNet(
        [f.shape[-1] for f in factors],
        start,
        len(bias),
        first.network_.hidden.rank,
        first.network_.activation,
        hidden_bias=True,
        output_bias=True,
        start=first.network_.hidden.start,
        device="meta",
        dtype=torch.float32,
    )
    state = {f"hidden.factors.{d}": f for d, f in enumerate(factors)}
    state["hidden.bias"] = torch.cat([layer[1] for layer in layers])
    state |= {"output.weight": weight, "output.bias": bias}
    network.load_state_dict({k: v.float().contiguous() for k, v in state.items()}, assign=True)
    twin = _dressed(
        first, network, scaler, tuple(network.hidden.in_shape), standardize=-1, hidden_bias=True
    )
    return _with_targets(twin, np.tile(mean, groups), np.tile(scale, groups))


def part_of(estimator: RankRRegressor, outputs: int) -> RankRRegressor:
    """Return the regressor of the first outputs, without the hidden units of the others."""
    network = estimator.network_
    weight = network.output.weight.detach()[:outputs]
    kept = (weight != 0).any(dim=0)
    if not bool(kept.any()):  # a constant
        kept[0] = True
    factors = [f.detach()[kept] for f in network.hidden.factors]
    state = {f"hidden.factors.{d}": f for d, f in enumerate(factors)}
    if network.hidden.bias is not None:
        state["hidden.bias"] = network.hidden.bias.detach()[kept]
    state |= {"output.weight": weight[:, kept]}
    if network.output.bias is not None:
        state["output.bias"] = network.output.bias.detach()[:outputs]
    smaller = network.like({k: v.contiguous() for k, v in state.items()})
    twin = _dressed(estimator, smaller, estimator.scaler_, tuple(smaller.hidden.in_shape))
    return _with_targets(twin, estimator.target_mean_[:outputs], estimator.target_scale_[:outputs])


def _on_bands(
    member: Member, scaler: ModeStandardScaler, window: int
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the factors on standardized bands of windows, and the bias of each hidden unit."""
    own, layer = member.estimator, member.estimator.network_.hidden
    *sides, spectral = (f.detach().double() for f in layer.factors)  # (Q, R, ...)
    features = spectral.shape[-1]
    center, unit = np.zeros(features), np.ones(features)
    if own.scaler_ is not None:
        center, unit = own.scaler_.mean_, own.scaler_.scale_
    spectral = spectral / torch.from_numpy(unit)
    moved = -(spectral @ torch.from_numpy(center))  # (Q, R)
    mean, scale = scaler.mean_, scaler.scale_
    if member.view is not None:
        view = member.view
        spectral = spectral @ torch.from_numpy(view.projection_ / view.scale_[:, None]).T
        moved = moved - spectral @ torch.from_numpy(view.mean_)
    moved = moved + spectral @ torch.from_numpy(mean)
    spectral = spectral * torch.from_numpy(scale)
    for side in sides:
        moved = moved * side.sum(dim=-1)
    bias = moved.sum(dim=1)
    if layer.bias is not None:
        bias = bias + layer.bias.detach().double()
    if window == 1 and not sides:
        return [spectral], bias
    center_only = spectral.new_ones(*spectral.shape[:2], 1)
    wide = [padded(side, window) for side in sides or [center_only, center_only]]
    return [*wide, spectral], bias


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
