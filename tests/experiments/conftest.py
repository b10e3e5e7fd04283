"""Records of runs that were never done, with the accuracies that a test asks for."""

from dataclasses import replace

import pytest

from polyad.experiments.records import RunRecord, fold
from polyad.experiments.settings import RunSettings


def make_record(accuracy, model="rank-1", seed=0, epochs=50, at=None, run=None, **changes):
    """Return a record of this overall accuracy, in percent, after every epoch (of ``at``).

    ``run`` has settings of the run that differ, ``changes`` fields of the record.
    """
    at = range(1, epochs + 1) if at is None else at
    settings = RunSettings("standin-tiny", model, 5, epochs=epochs, seed=seed)
    settings = replace(settings, **(run or {}))
    share = changes["curve"][-1] / 10_000 if changes.get("curve") else accuracy / 100
    fields = {
        "key": settings.key,
        "settings": settings.to_stored(),
        "epochs": fold(at),
        "curve": (round(100 * accuracy),) * len(at),
        "scores": {str(epochs): {"oa": share, "aa": share, "kappa": share, "oa_no_overlap": None}},
        "n_train": 15,
        "n_test": 585,
        "n_test_no_overlap": 0,
        "parameters": 42,
        "seconds": {"fit": 1.0, "evaluate": 0.5},
        "versions": {},
    }
    return RunRecord.from_data(fields | changes, "record")


@pytest.fixture
def record_of():
    return make_record
