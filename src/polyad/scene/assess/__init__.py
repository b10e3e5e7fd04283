"""How good a map is: scores, examinations, samples to check, areas, reports."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.assess.areas import AreaEstimates, estimate_areas
    from polyad.scene.assess.evaluation import (
        Examination,
        ValueExamination,
        cross_validate,
        evaluate,
        examine,
        examine_values,
        held_out,
    )
    from polyad.scene.assess.pages import RunRecord, record_run
    from polyad.scene.assess.report import (
        write_area_report,
        write_report,
        write_training_report,
        write_value_report,
        write_value_training_report,
    )
    from polyad.scene.assess.sample import Sample, draw_sample, parse_by_stratum
    from polyad.scene.assess.scores import Scores, score

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
        areas="AreaEstimates estimate_areas",
        evaluation="Examination ValueExamination cross_validate evaluate examine examine_values "
        "held_out",
        pages="RunRecord record_run",
        report="write_area_report write_report write_training_report write_value_report "
        "write_value_training_report",
        sample="Sample draw_sample parse_by_stratum",
        scores="Scores score",
    )
