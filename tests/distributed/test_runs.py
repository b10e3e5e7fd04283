"""Runs on a cluster leave the records that they leave without one."""

import numpy as np
import pytest

from polyad.distributed.cluster import spread_runs
from polyad.errors import PolyadError
from polyad.experiments.records import MapStore, RecordStore
from polyad.experiments.runs import run_all, run_one
from polyad.experiments.settings import RunSettings


def protocols():
    return [
        RunSettings("standin-tiny", model, 5, noise="pixel", epochs=2, seed=seed)
        for model in ("rank-1", "rank-2")
        for seed in (0, 1)
    ]


def timeless(record):
    return record.model_copy(update={"seconds": {}})


def test_records_and_maps_are_the_same_as_without_a_cluster(two_workers, tmp_path):
    records, maps = RecordStore(tmp_path / "records"), MapStore(tmp_path / "maps")
    done = run_all(
        protocols(),
        records,
        maps,
        progress=False,
        spread=lambda left: spread_runs(left, two_workers),
    )
    assert done == 4
    found = {record.key: record for record in records.load()}
    for protocol in protocols():
        wanted, class_map = run_one(protocol)
        assert timeless(found[protocol.key]) == timeless(wanted)
        if class_map is not None:
            np.testing.assert_array_equal(maps.load(protocol.cell), class_map)


def test_error_of_a_run_reaches_the_caller(two_workers):
    bad = RunSettings("no-such-scene", "rank-1", 5)
    with pytest.raises(PolyadError, match="no-such-scene"):
        list(spread_runs([bad], two_workers))
