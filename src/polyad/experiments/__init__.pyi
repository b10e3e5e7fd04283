from .baselines import CNNClassifier as CNNClassifier
from .baselines import DenseClassifier as DenseClassifier
from .baselines import PatchSVC as PatchSVC
from .report import NothingToRun as NothingToRun
from .report import Reproduction as Reproduction
from .report import reproduce as reproduce
from .settings import RunSettings as RunSettings
