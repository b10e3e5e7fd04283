"""polyad: Rank-R networks for tensors of any order, and maps from a few labelled pixels."""

from polyad.core import Plan, RankRLinear, RankRNet, plan_inner
from polyad.estimators import ModeStandardScaler, RankRClassifier, RankRRegressor, load, save

__all__ = [
    "ModeStandardScaler",
    "Plan",
    "RankRClassifier",
    "RankRLinear",
    "RankRNet",
    "RankRRegressor",
    "load",
    "plan_inner",
    "save",
]
