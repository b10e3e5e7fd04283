"""Connections of the page's server: a request that is half sent or no HTTP holds up nobody.

Uvicorn waits for ever for the rest of a request. Here a request must come within a time, one that
trickles in as well as one that stops, and of those that wait the oldest is dropped when there are
many: whoever opens connections by the thousand only drops his own, for a browser sends its request
at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0  # 16 MiB by a slow line
MAX_WAITING = 256  # connections whose request has not come; a process has some 1,000 files


class Wire(H11Protocol):
    """One connection, with a time for each part of a request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited: Any = None  # what the client is to send: h11's state of it
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the rest of a request is awaited."""
        return self._timer is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()
        waiting = [c for c in self.connections if isinstance(c, Wire) and c.waiting]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda wire: wire._since).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come; whatever cannot be answered as HTTP ends the connection."""
        try:
            super().handle_events()
        except Exception:  # h11's and uvicorn's own: an answer is under way, or numbers overflow
            self.drop()
        else:
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer a body that is no HTTP, instead of whoever was about to answer its head."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        super().send_400_response(msg)

    def drop(self) -> None:
        """End the connection at once."""
        self._stop_timer()
        self.transport.abort()

    def _watch(self) -> None:
        if self.conn.their_state is self._awaited:
            return  # more of the same: the time goes on
        self._stop_timer()
        self._awaited = self.conn.their_state
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(self._awaited)
        if seconds is not None:
            self._since = self.loop.time()
            self._timer = self.loop.call_later(seconds, self.drop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
