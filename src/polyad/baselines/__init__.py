"""Other models behind the same contract: what the paper compares with, and what users would pick.

Each takes samples ``(n, s, s, bands)``, standardises what it needs from the training samples alone,
and predicts like any scikit-learn classifier.
"""

from polyad.baselines.cnn import CNNClassifier
from polyad.baselines.dense import DenseClassifier
from polyad.baselines.svm import PatchSVC

__all__ = ["CNNClassifier", "DenseClassifier", "PatchSVC"]
