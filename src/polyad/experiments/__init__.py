"""The paper again: protocols, runs, statistics, tables, figures and a report; and its baselines.

`reproduce` is the one call; ``polyad reproduce`` on the command line calls it.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.experiments.baselines import CNNClassifier, DenseClassifier, PatchSVC
    from polyad.experiments.report import NothingToRun, Reproduction, reproduce
    from polyad.experiments.settings import RunSettings

__all__ = [
    "CNNClassifier",
    "DenseClassifier",
    "NothingToRun",
    "PatchSVC",
    "Reproduction",
    "RunSettings",
    "reproduce",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        baselines="CNNClassifier DenseClassifier PatchSVC",
        report="NothingToRun Reproduction reproduce",
        settings="RunSettings",
    )
