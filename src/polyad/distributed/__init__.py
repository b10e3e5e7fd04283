"""Maps and runs on a Dask cluster, and maps that go on after a kill.

Workers read their own windows of the scene, so the scheduler passes tile numbers and finished class
ids, never spectra. Finished tiles are kept beside the output with a ledger; the output itself is
written in one pass, in order, so it is the same file whatever happened on the way.
"""

from typing import Any

from polyad.distributed.cluster import open_cluster
from polyad.distributed.ledger import BrokenLedgerWarning
from polyad.distributed.mapping import map_cluster, map_many, map_on, map_scene

__all__ = [
    "BrokenLedgerWarning",
    "map_blocks",
    "map_cluster",
    "map_many",
    "map_on",
    "map_scene",
    "open_cluster",
    "reproduce_on",
    "spread_runs",
]


def __getattr__(name: str) -> Any:
    # Imported when used: they need dask, or all of the experiments; a resumable map does not.
    if name == "map_blocks":
        from polyad.distributed.blocks import map_blocks

        return map_blocks
    if name in ("reproduce_on", "spread_runs"):
        from polyad.distributed import runs

        return getattr(runs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
