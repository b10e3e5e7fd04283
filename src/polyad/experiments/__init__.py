"""The paper again: protocols, runs, statistics, tables, figures and a report.

`reproduce` is the one call; ``polyad reproduce`` on the command line calls it.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.experiments.protocol import Protocol
    from polyad.experiments.reproduction import Reproduction, reproduce

__all__ = ["Protocol", "Reproduction", "reproduce"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        protocol="Protocol",
        reproduction="Reproduction reproduce",
    )
