"""The runs of an experiment on a cluster; their records are the same as without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from polyad.distributed.stream import stream
from polyad.experiments.protocol import Protocol
from polyad.experiments.records import Record
from polyad.experiments.runs import run_one

Outcome = tuple[Record, npt.NDArray[np.uint16] | None]


def spread_runs(protocols: Sequence[Protocol], client: Any) -> Iterator[Outcome]:
    """Yield the outcome of each run as it ends.

    A run draws everything from its own seed, so where it is done changes nothing but its seconds.

    Parameters
    ----------
    protocols : sequence of Protocol
    client : distributed.Client or None
        None does the runs here, one after the other.

    Yields
    ------
    record : Record
    class_map : ndarray or None
        See `polyad.experiments.runs.run_one`.
    """
    for _, outcome in stream(client, run_in_one_thread, protocols):
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


def run_in_one_thread(protocol: Protocol) -> Outcome:
    """Do one run with one torch thread, as `polyad.experiments.runs` does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return run_one(protocol)
    finally:
        torch.set_num_threads(before)
