"""Other models behind the same contract: what the paper compares with, and what users would pick.

Each takes samples ``(n, s, s, bands)``, standardizes what it needs from the training samples alone,
and predicts like any scikit-learn classifier.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.baselines.cnn import CNNClassifier
    from polyad.baselines.dense import DenseClassifier
    from polyad.baselines.svm import PatchSVC

__all__ = ["CNNClassifier", "DenseClassifier", "PatchSVC"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        cnn="CNNClassifier",
        dense="DenseClassifier",
        svm="PatchSVC",
    )
