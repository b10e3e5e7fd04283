"""The runs of an experiment on a cluster; their records are the same as without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from polyad.distributed.cluster import open_cluster
from polyad.distributed.stream import stream
from polyad.experiments.report import Reproduction, reproduce
from polyad.experiments.runs import Outcome, run_in_one_thread
from polyad.experiments.settings import RunSettings


def spread_runs(plan: Sequence[RunSettings], client: Any) -> Iterator[Outcome]:
    """Yield the outcome of each run as it ends.

    A run draws everything from its own seed, so where it is done changes nothing but its seconds.

    Parameters
    ----------
    plan : sequence of RunSettings
    client : distributed.Client or None
        None does the runs here, one after the other.

    Yields
    ------
    record : Record
    class_map : ndarray or None
        See `polyad.experiments.runs.run_one`.
    """
    for _, outcome in stream(client, run_in_one_thread, plan):
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


def reproduce_on(cluster: Any, **options: Any) -> Reproduction:
    """Do what ``polyad reproduce --cluster CLUSTER`` asks for.

    Parameters
    ----------
    cluster
        See `open_cluster`.
    **options
        Of `polyad.experiments.reproduce`; ``jobs`` is not used.
    """
    with open_cluster(cluster) as client:
        return reproduce(**options, spread=partial(spread_runs, client=client))
