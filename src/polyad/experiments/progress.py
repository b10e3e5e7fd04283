"""One line that says how far the runs are, when they will be done, and how good the last were."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from tqdm import tqdm

from polyad.experiments.models import MODELS
from polyad.experiments.protocol import Protocol
from polyad.experiments.records import Record


def cost(protocol: Protocol) -> float:
    """Return about how long a run takes, in any unit: only shares of it are used."""
    model = MODELS[protocol.model]
    return model.cost * (protocol.epochs if model.iterative else 100) * protocol.samples_per_class


class Progress:
    """A live display of the runs.

    Parameters
    ----------
    protocols : sequence of Protocol
        The runs to come.
    done_before : int
        Runs that have their record already.
    show : bool
    """

    def __init__(self, protocols: Sequence[Protocol], done_before: int, show: bool = True) -> None:
        self.left = sum(cost(p) for p in protocols)
        self.spent = 0.0
        self.started = time.monotonic()
        self.last: deque[str] = deque(maxlen=3)
        self.bar = tqdm(
            total=done_before + len(protocols),
            initial=done_before,
            unit="run",
            disable=not (show and protocols),
            bar_format="{n_fmt}/{total_fmt} runs |{bar}| {elapsed} gone{postfix}",
        )

    def update(self, record: Record) -> None:
        """Count one run as done."""
        used = cost(record.protocol)
        self.spent, self.left = self.spent + used, self.left - used
        accuracy = 100 * float(record.final["oa"] or 0.0)
        self.last.append(f"{record.protocol.model} {accuracy:.1f}")
        self.bar.set_postfix_str(f"done {self.expected_end()}; last {', '.join(self.last)}")
        self.bar.update()

    def expected_end(self) -> str:
        """Return the time at which the last run will be done, if all goes on like this."""
        if self.spent <= 0:
            return "?"
        seconds = (time.monotonic() - self.started) * self.left / self.spent
        end = datetime.now() + timedelta(seconds=seconds)
        return end.strftime("%H:%M" if seconds < 12 * 3600 else "%a %H:%M")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.close()
