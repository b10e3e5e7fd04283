"""The paper again: protocols, runs, statistics, tables, figures and a report; and its baselines.

`reproduce` is the one call; ``polyad reproduce`` on the command line calls it.
"""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
