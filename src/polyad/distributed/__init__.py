"""Maps and runs on a Dask cluster, and maps that go on after a kill.

Workers read their own windows of the scene, so the scheduler passes tile numbers and finished class
ids, never spectra. Finished tiles are kept beside the output with a ledger; the output itself is
written in one pass, in order, so it is the same file whatever happened on the way.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.distributed.blocks import map_blocks
    from polyad.distributed.cluster import open_cluster
    from polyad.distributed.ledger import BrokenLedgerWarning
    from polyad.distributed.mapping import map_cluster, map_many, map_on, map_scene
    from polyad.distributed.runs import reproduce_on, spread_runs

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

if not TYPE_CHECKING:
    # A resumable map needs neither dask nor the experiments
    __getattr__, __dir__ = lazy_names(
        __name__,
        blocks="map_blocks",
        cluster="open_cluster",
        ledger="BrokenLedgerWarning",
        mapping="map_cluster map_many map_on map_scene",
        runs="reproduce_on spread_runs",
    )
