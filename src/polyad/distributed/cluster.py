"""From ``--cluster local``, an address or a scheduler file to a connected Dask client."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polyad.errors import ClusterError

CONNECT_SECONDS = 30
CLOSE_SECONDS = 30
START_SECONDS = 180


@contextmanager
def open_cluster(cluster: Any) -> Iterator[Any]:
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
    options: dict[str, Any] = {"timeout": CONNECT_SECONDS, "set_as_default": False}
    if "://" in text:
        options["address"] = text
    elif Path(text).is_file():
        options["scheduler_file"] = text
    else:
        raise ClusterError(
            f"--cluster {text}: wanted local, an address such as tcp://10.0.0.1:8786, or a "
            "scheduler file, got no such file; start one with dask scheduler --scheduler-file"
        )
    client = None
    try:
        client = distributed.Client(**options)
    except (OSError, ValueError, ImportError, TypeError) as error:  # TypeError: no certificates
        said = str(error)
    if client is None:
        # A client that could not connect waits, in a circle of references, to be closed. Closed at
        # an odd time, while another one is made, it would wait for that one's lock for ever.
        gc.collect()
        raise ClusterError(
            f"--cluster {text}: no scheduler answers there within {CONNECT_SECONDS} s "
            f"({said}); check the address, its port, that the scheduler runs and, for tls://, the "
            "certificates in Dask's settings"
        )
    try:
        yield client
    finally:
        with suppress(TimeoutError):  # all is done; a busy scheduler finds out by itself
            client.close(timeout=CLOSE_SECONDS)


def import_distributed() -> Any:
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
def _local(distributed: Any, text: str) -> Iterator[Any]:
    asked = text.removeprefix("local").removeprefix(":")
    if asked and (not asked.isdecimal() or int(asked) < 1):
        raise ClusterError(f"--cluster {text}: wanted local or local:N, N workers, at least one")
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
    security = _certificates(distributed)
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
            preload=["polyad.distributed.uninterrupted"],
            dashboard_address="127.0.0.1:0",  # Dask would else listen for all
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,  # a lost worker is replaced: no news to the user
        ) as cluster,
        # On one machine every worker can be reached: ids need not pass through the scheduler
        distributed.Client(cluster, set_as_default=False, direct_to_workers=True) as client,
    ):
        yield client


def _certificates(distributed: Any) -> Any:
    """Return a key and a certificate for this cluster alone; both sides must show it."""
    try:
        return distributed.Security.temporary()
    except ImportError as error:
        raise ClusterError(
            "--cluster local needs the package cryptography, without which any user of this "
            "machine could run code in it, and which is not installed; run pip install "
            "'polyad[dask]'"
        ) from error
