"""How good a map is: scores, examinations, reports."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.assess.evaluation import Examination, evaluate, examine, held_out
    from polyad.scene.assess.report import write_report
    from polyad.scene.assess.scores import Scores, score

__all__ = [
    "Examination",
    "Scores",
    "evaluate",
    "examine",
    "held_out",
    "score",
    "write_report",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        evaluation="Examination evaluate examine held_out",
        report="write_report",
        scores="Scores score",
    )
