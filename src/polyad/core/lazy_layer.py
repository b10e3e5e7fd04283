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
        self.factors = nn.ParameterList([waiting])
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))
        self.register_load_state_dict_pre_hook(_take_shape)  # type: ignore[no-untyped-call]

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


def _take_shape(module: nn.Module, state: Mapping[str, Any], prefix: str, *_: object) -> None:
    """Make the factors for weights that are about to be loaded."""
    if not isinstance(module, LazyRankRLinear) or not module.has_uninitialized_params():
        return
    names = [f"{prefix}factors.{d}" for d in range(len(state))]
    shapes = [state[name].shape for name in names if name in state]
    if shapes:
        module._materialize(tuple(shape[-1] for shape in shapes))
