"""The thread that learns the statistics of a large scene while the page is already in use."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import xarray as xr

from polyad.errors import PolyadError
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics

INTERVAL = 0.5  # seconds between two reports of progress
LONGEST_PAUSE = 20.0  # seconds that maps may hold it up at a time

_log = logging.getLogger("polyad.app")


class _Stopped(Exception):
    """Nobody waits for the statistics any longer."""


class Learning(threading.Thread):
    """Computes scene statistics; gives way while a map in view is being made.

    Parameters
    ----------
    scene : DataArray
    goal : str
    report : callable
        Called with the share that is done, now and then.
    finish : callable
        Called once: with the statistics, or with a sentence that says why there are none.

    Attributes
    ----------
    share : float
        How much is done.
    """

    def __init__(
        self,
        scene: xr.DataArray,
        goal: str,
        report: Callable[[float], None],
        finish: Callable[[SceneStatistics | str], None],
    ) -> None:
        super().__init__(name="polyad-learning", daemon=True)
        self.share = 0.0
        self._scene, self._goal, self._report, self._finish = scene, goal, report, finish
        self._stop_asked = threading.Event()
        self._free = threading.Event()
        self._free.set()
        self._reported = 0.0

    def stop(self) -> None:
        """End the thread after the tile it is at; ``finish`` is not called."""
        self._stop_asked.set()
        self._free.set()

    def pause(self, on: bool) -> None:
        """Wait from the next tile on, or go on."""
        if on and not self._stop_asked.is_set():
            self._free.clear()
        else:
            self._free.set()

    def run(self) -> None:
        """Learn the scene."""
        result: SceneStatistics | str
        try:
            result = scene_statistics(
                self._scene,
                self._goal,
                progress=self._progress,
                check=self._check,
                keep_components=True,
            )
        except _Stopped:
            return
        except (PolyadError, OSError, MemoryError, ValueError, RuntimeError) as error:
            _log.debug("no scene statistics", exc_info=True)
            said: Any = str(error) or "there is not enough memory"
            result = f"no best map, the fast one instead: {said}"
        if not self._stop_asked.is_set():
            self._finish(result)

    def _progress(self, stage: str, share: float) -> None:
        del stage
        self.share = share
        if time.monotonic() - self._reported > INTERVAL:
            self._reported = time.monotonic()
            self._report(share)

    def _check(self) -> None:
        self._free.wait(LONGEST_PAUSE)
        if self._stop_asked.is_set():
            raise _Stopped
