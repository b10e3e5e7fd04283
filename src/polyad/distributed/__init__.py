"""Maps and runs on a Dask cluster, and maps that can be resumed after a kill.

Workers read their own windows of the scene, so the scheduler passes tile numbers and finished class
ids, never spectra. What a tile needs of the whole scene is computed once, and sent with the tile.
Finished tiles are kept beside the output with a ledger; the output itself is written in one pass,
in order, so it is the same file whatever happened on the way.
"""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
