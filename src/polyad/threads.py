"""How many cores there are, how many threads a piece of work deserves, how they are kept apart.

The threads of torch and of BLAS synchronize at the end of every operation. On a busy machine one of
them has to wait for a core, each time for a slice of the scheduler's, and an operation of
microseconds takes milliseconds. So threads share an operation only if it is long, where the
synchronization overhead is small; independent tasks are spread over threads by `run_tasks`, without
synchronization; everything else is done by one thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")

# Of one operation, for each thread that shares it: some hundredths of a second. Measured on two
# cores with two busy neighbors, see docs/benchmarks.md.
LEAST_FLOPS = 2e9


def usable_cores() -> int:
    """Return how many cores this process may use; all of them where the system does not tell.

    Examples
    --------
    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(flops: float, available: int | None = None) -> int:
    """Return how many threads may share one operation of this size.

    Parameters
    ----------
    flops : float
        Floating-point operations of the largest operation that is done over and over.
    available : int, optional
        At most so many; by default torch's number in this thread.

    Examples
    --------
    >>> threads_for(1e8, available=8), threads_for(5e9, available=8), threads_for(1e12, available=8)
    (1, 2, 8)
    """
    most = torch.get_num_threads() if available is None else available
    return int(min(max(flops // LEAST_FLOPS, 1), most))


@contextmanager
def limit_threads(most: int) -> Iterator[None]:
    """Let torch and BLAS use at most this many threads in the block.

    Afterwards the numbers are what they were, in this thread and for new threads, also if several
    threads are in such a block at a time. Until then a new thread takes over the limit.

    Examples
    --------
    >>> before = torch.get_num_threads()
    >>> with limit_threads(1):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    own = _limits.enter(most)
    try:
        yield
    finally:
        _limits.leave(most, own)


def run_tasks(function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Return ``[function(task) for task in tasks]``, done by as many threads as torch has here.

    One of them is the caller's; the others are kept for the next call, since new ones would take
    milliseconds to find a core and memory of their own. Each task is done with one thread of torch
    and BLAS. ``function`` is called from several threads at a time, so what it changes must be its
    own. After an error no further task is begun; of several errors the one of the first task is
    raised.

    Examples
    --------
    >>> run_tasks(abs, [-1, 2])
    [1, 2]
    """
    tasks = list(tasks)
    workers = min(torch.get_num_threads(), len(tasks))
    with limit_threads(1):
        if workers < 2:
            return [function(task) for task in tasks]
        left = deque(enumerate(tasks))  # threads may take from it and clear it at a time
        results: dict[int, Result] = {}
        errors: dict[int, Exception] = {}

        def work() -> None:
            while left:
                try:
                    place, task = left.popleft()
                except IndexError:  # another thread took the last
                    return
                try:
                    results[place] = function(task)
                except Exception as error:
                    errors[place] = error
                    left.clear()

        helping = [_helpers().submit(work) for _ in range(workers - 1)]
        try:
            work()
        finally:
            left.clear()
            wait([begun for begun in helping if not begun.cancel()])
        if errors:
            raise errors[min(errors)]
        return [results[place] for place in range(len(tasks))]


@lru_cache(maxsize=1)
def _helpers() -> ThreadPoolExecutor:
    """Return the threads of `run_tasks`; each begins when one more is needed than there are."""
    return ThreadPoolExecutor(max(64, usable_cores()), "polyad", initializer=_take_one_thread)


if hasattr(os, "register_at_fork"):  # a child of this process has none of its threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def stream_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    threads: int | None = None,
    ahead: int = 4,
) -> Generator[Result, None, None]:
    """Yield ``function(task)`` of each task, in their order, while other threads do the next ones.

    As `run_tasks`, for results that are used one by one. At most ``ahead`` more than ``threads``
    tasks are taken before the first result is asked for. An error comes where its result would;
    whoever stops early waits for what is under way.

    Parameters
    ----------
    function : callable
    tasks : iterable
    threads : int, optional
        By default as many as torch has here.
    ahead : int, default=4

    Examples
    --------
    >>> list(stream_tasks(abs, [-1, 2]))
    [1, 2]
    """

    def alone(task: Task) -> Result:
        with limit_threads(1):
            return function(task)

    threads = torch.get_num_threads() if threads is None else threads
    coming: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, "polyad-ahead") as pool:
        try:
            for task in tasks:
                coming.append(pool.submit(alone, task))
                if len(coming) >= threads + ahead:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for waiting in coming:
                waiting.cancel()


def one_ahead(
    function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[tuple[Task, Result]]:
    """Yield each task with ``function(task)``, the next of which another thread does meanwhile.

    No more than two results are held at a time, the one that was yielded and the next, if the
    caller drops his before he asks for more.

    Examples
    --------
    >>> list(one_ahead(abs, [-1, 2]))
    [(-1, 1), (2, 2)]
    """
    return stream_tasks(lambda task: (task, function(task)), tasks, threads=1, ahead=1)


class _Limits:
    """The blocks of `limit_threads` that are under way in this process.

    Torch keeps its number for each thread, and one for threads to come; a BLAS has one number for
    all. Whoever comes first remembers the numbers, whoever goes last puts them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[int] = []
        self._usual = 1
        self._blas: list[tuple[Any, int]] = []
        self.thread = threading.local()

    def enter(self, most: int) -> int:
        """Set the limit; return this thread's own number of threads."""
        with self._lock:
            own = torch.get_num_threads()
            if not self._inside:
                self._usual = own
                self._blas = [(library, library.num_threads) for library in _blas_libraries()]
            elif own in self._inside and not getattr(self.thread, "known", False):
                own = self._usual  # a thread that was started in another thread's block
            self._inside.append(most)
            self.thread.known = True  # its number, now or after the block, is its own
            torch.set_num_threads(min(most, own))
            self._limit_blas()
            return own

    def leave(self, most: int, own: int) -> None:
        """Give this thread its number back."""
        with self._lock:
            self._inside.remove(most)
            torch.set_num_threads(own)
            self._limit_blas()

    def _limit_blas(self) -> None:
        for library, usual in self._blas:
            library.set_num_threads(min([usual, *self._inside]))


_limits = _Limits()


def _take_one_thread() -> None:
    """Begin a thread of `run_tasks`: whatever new threads get just now, this one has one."""
    _limits.thread.known = True
    torch.set_num_threads(1)


def _blas_libraries() -> list[Any]:
    # scipy and scikit-learn bring a BLAS of their own when they are imported
    return _find_blas("scipy.linalg" in sys.modules, "sklearn" in sys.modules)


@lru_cache(maxsize=4)
def _find_blas(*_: bool) -> list[Any]:
    return ThreadpoolController().select(user_api="blas").lib_controllers
