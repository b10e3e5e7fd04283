"""How the work reaches the workers: a plugin, which Dask also gives to those that start later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy.typing as npt
import torch
from distributed import WorkerPlugin, get_worker

from polyad.distributed.work import Part, TileWork
from polyad.errors import ClusterError, PolyadError

Array = npt.NDArray[Any]


class WorkPlugin(WorkerPlugin):
    """Holds a `TileWork` in each worker process, and torch to one thread."""

    def __init__(self, work: TileWork) -> None:
        self.work = work

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Take one torch thread for each thread of the worker."""
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002
        """Leave the worker as it was."""
        torch.set_num_threads(self.threads)


def work_on(name: str, part: Part) -> tuple[Array, Array | None]:
    """Do one tile with the work that the plugin ``name`` brought."""
    plugin = get_worker().plugins.get(name)
    if not isinstance(plugin, WorkPlugin):
        raise ClusterError("the worker has lost the model; give the same command again")
    if torch.get_num_threads() != 1:  # torch keeps the number for each thread that runs it
        torch.set_num_threads(1)
    plugin.work.check_versions()
    return plugin.work(part)


@contextmanager
def on_workers(
    client: Any, work: TileWork, name: str
) -> Iterator[Callable[[Part], tuple[Array, Array | None]]]:
    """Give ``work`` to all workers, now and later; yield the function to submit."""
    try:
        client.register_plugin(WorkPlugin(work), name=name)
    except PolyadError:
        raise
    except Exception as error:  # whatever the workers' environment has to say
        raise ClusterError(
            f"the workers do not take the model ({type(error).__name__}: {error}); install the "
            "same polyad on every machine of the cluster"
        ) from error
    try:
        yield partial(work_on, name)
    finally:
        if client.status == "running":
            with suppress(Exception):  # the cluster may go away while we say good-bye
                client.unregister_worker_plugin(name)
