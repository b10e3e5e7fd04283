"""How good a map is: scores, examinations, samples to check, areas, reports."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.assess.area_estimates import AreaEstimates, estimate_areas
    from polyad.scene.assess.area_report import write_area_report
    from polyad.scene.assess.cross_validation import cross_validate
    from polyad.scene.assess.evaluation import Examination, evaluate, examine, held_out
    from polyad.scene.assess.provenance import RunRecord, record_run
    from polyad.scene.assess.report import write_report
    from polyad.scene.assess.sample import Sample, draw_sample, parse_by_stratum
    from polyad.scene.assess.scores import Scores, score
    from polyad.scene.assess.training_report import write_training_report
    from polyad.scene.assess.value_evaluation import (
        ValueExamination,
        examine_values,
        write_value_report,
    )
    from polyad.scene.assess.value_training import write_value_training_report

__all__ = [
    "AreaEstimates",
    "Examination",
    "RunRecord",
    "Sample",
    "Scores",
    "ValueExamination",
    "cross_validate",
    "draw_sample",
    "estimate_areas",
    "evaluate",
    "examine",
    "examine_values",
    "held_out",
    "parse_by_stratum",
    "record_run",
    "score",
    "write_area_report",
    "write_report",
    "write_training_report",
    "write_value_report",
    "write_value_training_report",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        value_evaluation="ValueExamination examine_values write_value_report",
        area_estimates="AreaEstimates estimate_areas",
        area_report="write_area_report",
        cross_validation="cross_validate",
        evaluation="Examination evaluate examine held_out",
        provenance="RunRecord record_run",
        report="write_report",
        sample="Sample draw_sample parse_by_stratum",
        scores="Scores score",
        training_report="write_training_report",
        value_training="write_value_training_report",
    )
