"""scikit-learn estimators around the Rank-R network."""

from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.persistence import load, save
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler

__all__ = ["ModeStandardScaler", "RankRClassifier", "RankRRegressor", "load", "save"]
