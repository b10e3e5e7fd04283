r"""Regressors of different views and windows as one network on the scene's bands.

A member sees spectra through a scaler and perhaps a whitening: both are affine in the bands. With
bands standardized alike for all, :math:`b = (x - \mu) / \sigma`, a spectral factor becomes another
one on :math:`b`, and what is left is a constant of each hidden unit. Outputs are linear, so a
weighted mean of members is one network: hidden units side by side, output weights multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from polyad.core.network import RankRNet
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.learn.steps.folding import padded
from polyad.scene.learn.steps.whitening import NoiseWhitening

Array = npt.NDArray[Any]


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
    parameters = first.get_params() | {"hidden": start, "standardize": -1, "hidden_bias": True}
    targets = np.tile(mean, groups), np.tile(scale, groups)
    return _dressed(RankRRegressor(**parameters), network, first, scaler, targets)


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
    twin = RankRRegressor(**(estimator.get_params() | {"hidden": int(kept.sum())}))
    targets = estimator.target_mean_[:outputs], estimator.target_scale_[:outputs]
    smaller = network.like({k: v.contiguous() for k, v in state.items()})
    return _dressed(twin, smaller, estimator, estimator.scaler_, targets)


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
    twin: RankRRegressor,
    network: RankRNet,
    like: RankRRegressor,
    scaler: ModeStandardScaler | None,
    targets: tuple[Array, Array],
) -> RankRRegressor:
    """Give a regressor all that `fit` would have; ``targets`` are their mean and scale."""
    shape = tuple(network.hidden.in_shape)
    twin.network_, twin.scaler_ = network, None
    if scaler is not None:
        twin.scaler_ = own = ModeStandardScaler(-1)
        own.mean_, own.scale_ = scaler.mean_, scaler.scale_
        own.sample_shape_, own.n_features_in_ = shape, shape[0]
    twin.sample_shape_, twin.n_features_in_ = shape, shape[0]
    twin.target_mean_, twin.target_scale_ = targets
    twin._one_target = len(twin.target_mean_) == 1
    twin.history_, twin.n_iter_ = like.history_, like.n_iter_
    return twin
