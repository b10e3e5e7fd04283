"""The mathematics: plans, contractions, the layer and the network, for tensors of any order."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.core.capacity import generic_rank, sample_size, vc_bound
    from polyad.core.contract import (
        contract_except,
        cp_inner,
        dense_inner,
        dense_weight,
        khatri_rao,
    )
    from polyad.core.layer import RankRLinear, rank_r_linear
    from polyad.core.lazy_layer import LazyRankRLinear
    from polyad.core.network import ACTIVATIONS, RankRNet
    from polyad.core.plan import Plan, plan_inner

__all__ = [
    "ACTIVATIONS",
    "LazyRankRLinear",
    "Plan",
    "RankRLinear",
    "RankRNet",
    "contract_except",
    "cp_inner",
    "dense_inner",
    "dense_weight",
    "generic_rank",
    "khatri_rao",
    "plan_inner",
    "rank_r_linear",
    "sample_size",
    "vc_bound",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        capacity="generic_rank sample_size vc_bound",
        contract="contract_except cp_inner dense_inner dense_weight khatri_rao",
        layer="RankRLinear rank_r_linear",
        lazy_layer="LazyRankRLinear",
        network="ACTIVATIONS RankRNet",
        plan="Plan plan_inner",
    )
