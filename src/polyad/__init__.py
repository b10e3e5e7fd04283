"""polyad: Rank-R networks for tensors of any order, and maps from a few labeled pixels."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.core import Plan, RankRLinear, RankRNet, plan_inner
    from polyad.estimators import ModeStandardScaler, RankRClassifier, RankRRegressor, load, save
    from polyad.scene import (
        SceneModel,
        cross_validate,
        evaluate,
        map_file,
        map_scene,
        open_labels,
        open_scene,
        select_bands,
        train,
    )

    __version__: str

__all__ = [
    "ModeStandardScaler",
    "Plan",
    "RankRClassifier",
    "RankRLinear",
    "RankRNet",
    "RankRRegressor",
    "SceneModel",
    "cross_validate",
    "evaluate",
    "load",
    "map_file",
    "map_scene",
    "open_labels",
    "open_scene",
    "plan_inner",
    "save",
    "select_bands",
    "train",
]

if not TYPE_CHECKING:
    _named, __dir__ = lazy_names(
        __name__,
        core="Plan RankRLinear RankRNet plan_inner",
        estimators="ModeStandardScaler RankRClassifier RankRRegressor load save",
        scene=(
            "SceneModel cross_validate evaluate map_file map_scene open_labels open_scene "
            "select_bands train"
        ),
    )

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            return version("polyad")
        return _named(name)
