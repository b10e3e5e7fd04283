"""A stream of tasks through a cluster: few at a time, and what happens when workers die."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from uuid import uuid4

from polyad.errors import ClusterError, PolyadError

Item = TypeVar("Item")

AHEAD = 2  # tasks in flight for each thread of the cluster: one running, one ready
CHECK_SECONDS = 5.0
FETCH_SECONDS = 10.0
PATIENCE_SECONDS = 300.0  # without any worker
BLAMES = 3  # Dask gives a task up after four dead workers; so many times we hand it in again
NOT_YET = object()


def stream(
    client: Any,
    function: Callable[..., Any],
    items: Iterable[Item],
    *,
    shared: Any = None,
    patience: float = PATIENCE_SECONDS,
) -> Generator[tuple[Item, Any], None, None]:
    """Yield each item with the result of ``function(item)``, in the order in which they end.

    At most a few tasks per thread are on the cluster at a time, so that neither scheduler nor
    workers hold more than that, however many items there are. A task whose worker dies is done
    elsewhere.

    Parameters
    ----------
    client : distributed.Client or None
        None runs the items one by one in this process.
    function : callable
        Sent by reference: it must be importable on the workers.
    items : iterable
    shared : object, optional
        If given, ``function(shared, item)`` is called. Each worker is sent it once and keeps it.
    patience : float
        Seconds to wait while the cluster has no worker at all.

    Yields
    ------
    item
    outcome
        The result, or the exception that ``function`` raised.

    Raises
    ------
    ClusterError
        The scheduler is gone, there is no worker, or a task kills every worker that runs it.
    """
    if client is None:
        here = function if shared is None else partial(function, shared)
        for item in items:
            yield item, _outcome(here, item)
        return
    flight = _Flight(client, function, patience)
    if shared is not None:
        flight.share(shared)
    import dask

    try:
        # Few are on their way at a time, so that one may be large: no news to the user
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            yield from flight.run(iter(items))
    finally:
        flight.land()


def explained(error: Exception, what: str) -> Exception:
    """Return an error that says what failed; our own errors say enough."""
    if isinstance(error, PolyadError):
        return error
    failed = ClusterError(f"{what}: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed


def identity(value: Item) -> Item:
    """Return the value: a task that does this has it as its result."""
    return value


def _outcome(function: Callable[[Item], Any], item: Item) -> Any:
    try:
        return function(item)
    except Exception as error:  # the caller decides, as for one that a worker raised
        return error


class _Flight:
    """The tasks on the cluster at one moment."""

    def __init__(self, client: Any, function: Callable[..., Any], patience: float) -> None:
        self.client, self.function, self.patience = client, function, patience
        self.name = f"polyad-{uuid4().hex[:12]}"
        self.shared: tuple[Any, ...] = ()
        self.flying: dict[str, tuple[Any, Any, int]] = {}  # key: future, item, times handed in
        self.landed: SimpleQueue[str] = SimpleQueue()
        self.launched = 0
        self.met: set[str] = set()  # workers
        self.idle: list[str] = []  # of these, who was given nothing yet
        self.room = 0
        self.checked = -CHECK_SECONDS
        self.last_seen = time.monotonic()  # when there was a worker

    def share(self, value: Any) -> None:
        """Bring a value to the cluster.

        It is the result of a task, not scattered data: if all workers that hold it die, Dask makes
        it again from the scheduler's copy of the task. Nor is it a plugin: a worker that starts
        would import torch before it registers, which a slow disk can make too slow for its nanny.
        """
        future = self.client.submit(identity, value, key=f"{self.name}-shared", pure=False)
        self.shared = (future,)

    def run(self, items: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
        from distributed import KilledWorker

        waiting = True
        while True:
            self.check()
            while waiting and len(self.flying) < self.room:
                asked = time.monotonic()
                try:
                    self.launch(next(items))
                except StopIteration:
                    waiting = False
                self.last_seen += time.monotonic() - asked  # no time to wait for workers in
            if not waiting and not self.flying:
                return
            try:
                key = self.landed.get(timeout=CHECK_SECONDS)
            except Empty:
                continue
            future, item, times = self.flying.pop(key)
            outcome = self.result(future)
            if outcome is NOT_YET:
                self.flying[key] = future, item, times
                self.landed.put(key)
                continue
            del future  # lets the worker forget the result
            if isinstance(outcome, KilledWorker):
                if times >= BLAMES:
                    raise ClusterError(
                        f"a task ended {4 * times} workers that ran it, last "
                        f"{getattr(outcome.last_worker, 'address', '?')}; most likely they lack "
                        "memory: give them more, or take a smaller tile"
                    ) from outcome
                self.launch(item, times + 1)
                continue
            yield item, outcome

    def launch(self, item: Any, times: int = 1) -> None:
        """Hand one item in."""
        self.launched += 1
        key = f"{self.name}-{self.launched}"
        options: dict[str, Any] = {"key": key, "pure": False}
        if self.idle:
            # Dask gives a task to a worker that holds what is shared: each gets it by its first one
            options |= {"workers": [self.idle.pop(0)], "allow_other_workers": True}
        future = self.client.submit(self.function, *self.shared, item, **options)
        self.flying[key] = future, item, times
        future.add_done_callback(lambda done: self.landed.put(done.key))

    def result(self, future: Any) -> Any:
        """Return what a task gave or raised; losing the scheduler is an error of ours.

        The worker may die before the result is fetched; then the task is done again elsewhere,
        which takes its time.
        """
        try:
            return future.result(timeout=FETCH_SECONDS)
        except TimeoutError as error:
            return error if future.status == "error" else NOT_YET
        except CancelledError as error:
            raise self.lost(error) from error
        except Exception as error:
            if self.client.status != "running":
                raise self.lost(error) from error
            return error

    def check(self) -> None:
        """See now and then whether the scheduler is there and how many workers it has."""
        if self.client.status != "running":
            raise self.lost(None)
        now = time.monotonic()
        if now - self.checked < CHECK_SECONDS:
            return
        self.checked = now
        try:
            workers = self.client.nthreads()
        except Exception as error:
            raise self.lost(error) from error
        threads = sum(workers.values())
        self.idle += [address for address in workers if address not in self.met]
        self.met.update(workers)
        if threads:
            self.last_seen = now
        elif now - self.last_seen > self.patience:
            raise ClusterError(
                f"the cluster has had no worker for {self.patience:.0f} s; start workers with "
                "dask worker ADDRESS"
            )
        self.room = max(AHEAD * threads + 1, 2)

    def lost(self, error: BaseException | None) -> ClusterError:
        """Return the error that says that the scheduler is gone."""
        address = getattr(self.client, "_start_arg", None) or "of this cluster"
        why = f" ({error})" if error is not None and str(error) else ""
        return ClusterError(
            f"the connection to the Dask scheduler {address} was lost{why}; start it again"
        )

    def land(self) -> None:
        """Take back what is still on the cluster."""
        left = [*(future for future, _, _ in self.flying.values()), *self.shared]
        self.flying.clear()
        self.shared = ()
        if left and self.client.status == "running":
            self.client.cancel(left, asynchronous=False)
