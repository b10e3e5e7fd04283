"""scikit-learn estimators around the Rank-R network."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.estimators.classifier import RankRClassifier
    from polyad.estimators.converters import register_converters
    from polyad.estimators.importance import ModeImportance, mode_importance
    from polyad.estimators.persistence import load, save
    from polyad.estimators.regressor import RankRRegressor
    from polyad.estimators.scaler import ModeStandardScaler

__all__ = [
    "ModeImportance",
    "ModeStandardScaler",
    "RankRClassifier",
    "RankRRegressor",
    "load",
    "mode_importance",
    "register_converters",
    "save",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        classifier="RankRClassifier",
        converters="register_converters",
        importance="ModeImportance mode_importance",
        persistence="load save",
        regressor="RankRRegressor",
        scaler="ModeStandardScaler",
    )
