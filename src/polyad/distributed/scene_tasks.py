"""Tasks on one scene by the workers of a cluster, each of which opens the scene by its path."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from typing import Any, NamedTuple

from polyad.distributed.stream import explained, stream
from polyad.distributed.worker import TileWork
from polyad.scene.learn.scene_statistics import RunOnScene, SceneTask
from polyad.threads import limit_threads


class SceneJob(NamedTuple):
    """What all tasks of one kind have in common; sent to each worker once."""

    work: TileWork
    scene: int  # which of the work's sources
    function: SceneTask
    shared: Any


def run_on_cluster(client: Any, work: TileWork, scene: int) -> RunOnScene:
    """Return what does the tasks of one of the work's scenes by the workers of a cluster."""

    def run(function: SceneTask, shared: Any, tasks: Iterable[Any]) -> Generator[Any, None, None]:
        job, location = SceneJob(work, scene, function, shared), work.sources[scene].location
        name = location if isinstance(location, str) else "the scene"
        early: dict[int, Any] = {}  # answers whose turn it is not yet
        turn = 0
        with closing(stream(client, do_task, enumerate(tasks), shared=job)) as done:
            for (number, _), outcome in done:
                if isinstance(outcome, Exception):
                    raise explained(outcome, f"a worker failed to read {name}")
                early[number] = outcome
                while turn in early:
                    yield early.pop(turn)
                    turn += 1

    return run


def do_task(job: SceneJob, item: tuple[int, Any]) -> Any:
    """Do one task on a worker, with one torch thread for each thread of the worker."""
    job.work.check_versions()
    with limit_threads(1):
        return job.function(job.work.viewed(job.scene), job.shared, item[1])
