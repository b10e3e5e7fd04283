from .classifier import RankRClassifier as RankRClassifier
from .converters import register_converters as register_converters
from .importance import ModeImportance as ModeImportance
from .importance import mode_importance as mode_importance
from .persistence import load as load
from .persistence import save as save
from .regressor import RankRRegressor as RankRRegressor
from .scaler import ModeStandardScaler as ModeStandardScaler
