"""Maps and runs on a Dask cluster, and maps that can be resumed after a kill.

Workers read their own windows of the scene, so the scheduler passes tile numbers and finished class
ids, never spectra. What a tile needs of the whole scene is computed once, and sent with the tile.
Finished tiles are kept beside the output with a ledger; the output itself is written in one pass,
in order, so it is the same file whatever happened on the way.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.distributed.cluster import open_cluster, reproduce_on
    from polyad.distributed.ledger import BrokenLedgerWarning
    from polyad.distributed.maps import MapSummary, map_files, map_lazy

__all__ = [
    "BrokenLedgerWarning",
    "MapSummary",
    "map_files",
    "map_lazy",
    "open_cluster",
    "reproduce_on",
]

if not TYPE_CHECKING:
    # A resumable map needs neither dask nor the experiments
    __getattr__, __dir__ = lazy_names(
        __name__,
        cluster="open_cluster reproduce_on",
        ledger="BrokenLedgerWarning",
        maps="MapSummary map_files map_lazy",
    )
