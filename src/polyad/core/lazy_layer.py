"""`LazyRankRLinear`: a `RankRLinear` whose sample shape is that of the first batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

from polyad.core.layer import RankRLinear, Start
from polyad.core.plan import TRACED_BATCH, check_shape, plan_inner
from polyad.errors import InputError


class LazyRankRLinear(LazyModuleMixin, RankRLinear):
    """A `RankRLinear` that takes its sample shape from the first batch it sees.

    The first axis of that batch counts samples, all others are modes. With it the module becomes a
    `RankRLinear`. As with torch's own lazy modules, run one batch before the optimizer is made.

    Parameters
    ----------
    out_features, rank, bias, device, dtype, start
        See `RankRLinear`.

    Examples
    --------
    >>> layer = LazyRankRLinear(10, rank=2)
    >>> layer(torch.zeros(8, 3, 4, 5)).shape
    torch.Size([8, 10])
    >>> layer
    RankRLinear(
      in_shape=(3, 4, 5), out_features=10, rank=2, bias=True
      (factors): ParameterList(...
    """

    cls_to_become = RankRLinear

    def __init__(
        self,
        out_features: int,
        rank: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        start: Start = "unit-variance",
    ) -> None:
        super().__init__((1,), out_features, rank, bias, "meta", dtype, start=start)
        self.in_shape = ()
        # stands for all factors until their number is known, and keeps device and type
        waiting = UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg]
        self.factors = _Waiting([waiting])
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))
        self.register_load_state_dict_pre_hook(_take_shape)  # type: ignore[no-untyped-call]

    @classmethod
    def from_dense(cls, *arguments: Any, **options: Any) -> tuple[RankRLinear, float]:
        """Return what `RankRLinear.from_dense` does: the shape is known there."""
        return RankRLinear.from_dense(*arguments, **options)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new factors; before the first batch there are none."""
        if not self.has_uninitialized_params():
            super().reset_parameters(generator)

    def has_uninitialized_params(self) -> bool:
        """Return whether no batch has been seen yet."""
        return isinstance(self.factors[0], UninitializedParameter)

    def initialize_parameters(self, x: Tensor) -> None:
        """Make and draw the factors for samples like those of ``x``, ``(n, I_1, ..., I_D)``."""
        if self.has_uninitialized_params():
            if x.ndim < 2:
                raise InputError(
                    f"the first batch must be (n, I_1, ..., I_D), got {tuple(x.shape)}; pass one "
                    "sample as x[None]"
                )
            self._materialize(tuple(x.shape[1:]))
            self.reset_parameters()

    def _materialize(self, shape: tuple[int, ...]) -> None:
        check_shape(shape, self.out_features, self.rank)
        like: Any = self.factors[0]
        self.in_shape = shape
        self._traced = plan_inner(shape, self.out_features, self.rank, TRACED_BATCH)
        empty = [
            torch.empty(self.out_features, self.rank, size, device=like.device, dtype=like.dtype)
            for size in shape
        ]
        self.factors = nn.ParameterList(nn.Parameter(e, like.requires_grad) for e in empty)


class _Waiting(nn.ParameterList):
    """The factors before the first batch; they are saved and loaded as torch's lazy ones are."""

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        del keep_vars  # what has no numbers cannot be detached
        destination.update({f"{prefix}{name}": p for name, p in self.named_parameters()})

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *more: Any) -> None:
        if not isinstance(state.get(f"{prefix}0"), UninitializedParameter):
            super()._load_from_state_dict(state, prefix, *more)


def _take_shape(module: nn.Module, state: Mapping[str, Any], prefix: str, *_: object) -> None:
    """Make the factors for weights that are about to be loaded."""
    if not isinstance(module, LazyRankRLinear) or not module.has_uninitialized_params():
        return
    names = [f"{prefix}factors.{d}" for d in range(len(state))]
    known = [state[name] for name in names if name in state]
    shapes = [f.shape for f in known if not isinstance(f, UninitializedParameter)]
    if shapes:
        module._materialize(tuple(shape[-1] for shape in shapes))
