"""The paper again: protocols, runs, statistics, tables, figures and a report.

`reproduce` is the one call; ``polyad reproduce`` on the command line calls it.
"""

from polyad.experiments.protocol import Protocol
from polyad.experiments.reproduction import Reproduction, reproduce

__all__ = ["Protocol", "Reproduction", "reproduce"]
