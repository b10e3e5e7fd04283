"""A connected Dask client, and a stream of tasks through it that outlives workers."""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import uuid4

from polyad.errors import ClusterError, PolyadError

if TYPE_CHECKING:
    from polyad.experiments.report import Reproduction
    from polyad.experiments.runs import Outcome
    from polyad.experiments.settings import Plan, RunSettings

Client: TypeAlias = Any  # of Dask, whose types are incomplete
Future: TypeAlias = Any
Cluster: TypeAlias = str | os.PathLike[str] | Client | None
CONNECT_SECONDS = 30
CLOSE_SECONDS = 30
START_SECONDS = 180


@contextmanager
def open_cluster(cluster: Cluster) -> Iterator[Client | None]:
    """Connect to a cluster, or start one of this machine's cores.

    Nothing but the place that ``cluster`` names is contacted. A local cluster listens on 127.0.0.1
    alone, and to nobody but itself: it is started with TLS and with certificates that live in its
    processes, since whoever reaches a scheduler can have it run code. Of a cluster of your own,
    settings for TLS are Dask's (``distributed.comm.tls``).

    Parameters
    ----------
    cluster : str or path-like or distributed.Client or None
        ``local`` (a process for each core), ``local:4`` (four of them), the address of a scheduler
        (``tcp://...`` or ``tls://...``), or the file that ``dask scheduler --scheduler-file``
        wrote. A client is given back, and left open. None stands for no cluster.

    Yields
    ------
    distributed.Client or None
    """
    if not isinstance(cluster, str | os.PathLike):
        yield cluster
        return
    text = os.fspath(cluster)
    distributed = import_distributed()
    if text == "local" or text.startswith("local:"):
        with _local(distributed, text) as client:
            yield client
        return
    kind = "address" if "://" in text else "scheduler_file"
    if kind == "scheduler_file" and not Path(text).is_file():
        raise ClusterError(
            f"--cluster {text}: expected local, an address such as tcp://10.0.0.1:8786, or a "
            "scheduler file, got no such file; start one with dask scheduler --scheduler-file"
        )
    client = None
    try:
        client = distributed.Client(**{kind: text}, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, ImportError, TypeError) as error:  # TypeError: no certificates
        reason = str(error)
    if client is None:
        # A client that could not connect waits, in a circle of references, to be closed. Closed at
        # an odd time, while another one is made, it would wait for that one's lock for ever.
        gc.collect()
        raise ClusterError(
            f"--cluster {text}: no scheduler answers there within {CONNECT_SECONDS} s ({reason}); "
            "check the address, its port, that the scheduler runs and, for tls://, the "
            "certificates in Dask's settings"
        )
    try:
        yield client
    finally:
        with suppress(TimeoutError):  # all is done; a busy scheduler finds out by itself
            client.close(timeout=CLOSE_SECONDS)


def import_distributed() -> ModuleType:
    """Return the package ``distributed``, or say how to get it."""
    try:
        import distributed
    except ImportError as error:
        raise ClusterError(
            "a cluster needs the packages dask and distributed, which are not installed; run "
            "pip install 'polyad[dask]'"
        ) from error
    return distributed


@contextmanager
def _local(distributed: ModuleType, text: str) -> Iterator[Client]:
    asked = text.removeprefix("local").removeprefix(":")
    if asked and (not asked.isdecimal() or int(asked) < 1):
        raise ClusterError(f"--cluster {text}: expected local or local:N, N workers, at least one")
    from polyad.threads import usable_cores  # imports torch

    workers = int(asked) if asked else usable_cores()
    import dask

    # A busy machine starts a worker more slowly than Dask waits: 30 s for a new one, 15 s for one
    # that died and comes back, after which the place of that worker is closed for good.
    # And Dask has its workers give memory back to the system at once. A tile takes as much again,
    # and pages that nobody has touched are dear: of glibc's memory 128 MB may stay.
    settings = {
        "distributed.comm.timeouts.connect": f"{START_SECONDS}s",
        "distributed.deploy.lost-worker-timeout": f"{START_SECONDS}s",
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**27,
        "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
        # Dask's pages of logs and tasks would be served to anybody here, without TLS
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    try:  # a key and a certificate for this cluster alone; both sides must show it
        security = distributed.Security.temporary()
    except ImportError as error:
        raise ClusterError(
            "--cluster local needs the package cryptography, without which any user of this "
            "machine could run code in it, and which is not installed; run pip install "
            "'polyad[dask]'"
        ) from error
    with (
        dask.config.set(settings),
        # By default a folder of /tmp that any user could have made; what lies there is unpickled
        TemporaryDirectory(prefix="polyad-", ignore_cleanup_errors=True) as private,
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=security,
            local_directory=private,
            preload=["polyad.distributed.cluster"],
            dashboard_address="127.0.0.1:0",  # Dask would else listen for all
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,  # a lost worker is replaced: no news to the user
        ) as cluster,
        # On one machine every worker can be reached: ids need not pass through the scheduler
        distributed.Client(cluster, set_as_default=False, direct_to_workers=True) as client,
    ):
        yield client


Item = TypeVar("Item")

AHEAD = 2  # tasks in flight for each thread of the cluster: one running, one ready
CHECK_SECONDS = 5.0
FETCH_SECONDS = 10.0
PATIENCE_SECONDS = 300.0  # without any worker
BLAMES = 3  # Dask gives a task up after four dead workers; so many times we hand it in again
NOT_YET = object()


def stream(
    client: Client | None,
    function: Callable[..., Any],
    items: Iterable[Item],
    *,
    shared: object = None,
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
            try:
                outcome = here(item)
            except Exception as error:  # the caller decides, as for one that a worker raised
                outcome = error
            yield item, outcome
        return
    flight = _Flight(client, function, patience)
    if shared is not None:
        # The result of a task, not scattered data: if all workers that hold it die, Dask makes it
        # again from the scheduler's copy of the task. Nor a plugin: a worker that starts would
        # import torch before it registers, which a slow disk can make too slow for its nanny.
        key = f"{flight.name}-shared"
        flight.shared = (client.submit(identity, shared, key=key, pure=False),)
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


class _Flight:
    """The tasks on the cluster at one moment."""

    def __init__(self, client: Client, function: Callable[..., Any], patience: float) -> None:
        self.client, self.function, self.patience = client, function, patience
        self.name = f"polyad-{uuid4().hex[:12]}"
        self.shared: tuple[Future, ...] = ()
        self.flying: dict[str, tuple[Future, Any, int]] = {}  # key: future, item, times handed in
        self.landed: SimpleQueue[str] = SimpleQueue()
        self.launched = 0
        self.met: set[str] = set()  # workers
        self.idle: list[str] = []  # of these, who was given nothing yet
        self.room = 0
        self.checked = -CHECK_SECONDS
        self.last_seen = time.monotonic()  # when there was a worker

    def run(self, items: Iterator[Item]) -> Iterator[tuple[Item, Any]]:
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

    def launch(self, item: object, times: int = 1) -> None:
        """Hand one item in."""
        self.launched += 1
        key = f"{self.name}-{self.launched}"
        # Dask gives a task to a worker that holds what is shared: each gets it by its first one
        first = {"workers": [self.idle.pop(0)], "allow_other_workers": True} if self.idle else {}
        future = self.client.submit(self.function, *self.shared, item, key=key, pure=False, **first)
        self.flying[key] = future, item, times
        future.add_done_callback(lambda done: self.landed.put(done.key))

    def result(self, future: Future) -> Any:
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


def dask_setup(worker: object) -> None:  # noqa: ARG001 - as Dask calls it
    """Ignore interrupts in a worker of a local cluster, which Dask has import this module first.

    A terminal interrupts all processes of a command. The one that was started decides what is
    kept, and ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def spread_runs(plan: Sequence[RunSettings], client: Client | None) -> Iterator[Outcome]:
    """Yield the outcome of each run as it ends; without a client they are done here.

    A run draws everything from its own seed, so where it is done changes nothing but its seconds.
    """
    from polyad.experiments.runs import run_in_one_thread

    for _, outcome in stream(client, run_in_one_thread, plan):
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


def reproduce_on(cluster: Cluster, plan: Plan | None = None, **options: Any) -> Reproduction:
    """Do what ``polyad reproduce --cluster CLUSTER`` asks for; see `open_cluster`.

    The options are those of `polyad.experiments.reproduce`; ``jobs`` is not used.
    """
    from polyad.experiments.report import reproduce

    with open_cluster(cluster) as client:
        return reproduce(plan, **options, spread=partial(spread_runs, client=client))
