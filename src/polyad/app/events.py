"""Server-sent events for every open page: labels from other tabs, new maps, progress."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

QUEUE = 256  # messages a page may lag behind before it must fetch the state anew
HEARTBEAT = 15.0  # seconds; shows whether a page is gone


class EventBus:
    """Sends each event to every listener, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._closed = False

    def publish(self, kind: str, about: dict[str, Any]) -> None:
        """Send an event to every listener without waiting."""
        text = f"event: {kind}\ndata: {json.dumps(about, separators=(',', ':'))}\n\n"
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, text)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self.publish("bye", {})

    @property
    def listeners(self) -> int:
        """The number of pages that listen."""
        return len(self._listeners)

    async def stream(self) -> AsyncIterator[str]:
        """Yield events as text until the page is gone."""
        queue: asyncio.Queue[str] = asyncio.Queue(QUEUE)
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self._closed:
                try:
                    yield await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            with self._lock:
                del self._listeners[queue]


def _put(queue: asyncio.Queue[str], text: str) -> None:
    """Queue an event; a page that lags too far behind is told to fetch the state anew."""
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        text = "event: lost\ndata: {}\n\n"
    queue.put_nowait(text)
