"""Independent tasks on one scene: done by threads here, or by the workers of a cluster.

What is learned of a whole scene is learned window by window. A task is a function of the scene, of
something that all tasks share, and of its own part; whoever runs it, the answer has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, Protocol

import xarray as xr

from polyad.threads import stream_tasks

SceneTask = Callable[[Any, Any, Any], Any]
"""Takes the scene, what is shared, and a task's own part. Of a module, so that it can be sent."""


class RunOnScene(Protocol):
    """Who does the tasks of a scene."""

    def __call__(
        self, function: SceneTask, shared: Any, tasks: Iterable[Any]
    ) -> Generator[Any, None, None]:
        """Yield ``function(scene, shared, task)`` of each task, in their order.

        Tasks are taken a few at a time. Whoever stops early closes the generator.
        """


def run_here(scene: xr.DataArray) -> RunOnScene:
    """Return what does the tasks of ``scene`` by as many threads as torch has here."""

    def run(function: SceneTask, shared: Any, tasks: Iterable[Any]) -> Generator[Any, None, None]:
        return stream_tasks(partial(function, scene, shared), tasks)

    return run
