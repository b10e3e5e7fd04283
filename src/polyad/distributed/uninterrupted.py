"""What a local cluster's workers import as they start: Ctrl-C is for the process they serve.

A terminal interrupts all processes of a command. The one that was started decides what is kept, and
ends its workers.
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:  # noqa: ARG001 - as Dask calls it
    """Ignore interrupts in this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
