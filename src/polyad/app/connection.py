"""Connections of the page's server, with time limits for the parts of a request.

Uvicorn waits for ever for the rest of a request. Here head and body must each arrive within a time,
whether they stop or trickle in. When too many connections wait for a request, the oldest is
dropped: a flood of idle connections drops its own, since a browser sends its request at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0  # 16 MiB over a slow line
MAX_WAITING = 256  # connections without a request; a process has some 1,000 files


class TimedConnection(H11Protocol):
    """One connection, with a time limit for each part of a request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited: Any = None  # h11's state of the client: which part it is to send
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    @property
    def waiting(self) -> bool:
        """Whether part of a request is still to come."""
        return self._timer is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock for the first request."""
        super().connection_made(transport)
        self._watch()
        waiting = [c for c in self.connections if isinstance(c, TimedConnection) and c.waiting]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda connection: connection._since).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived; close the connection if it cannot be answered as HTTP."""
        try:
            super().handle_events()
        except Exception:  # of h11 or uvicorn: an answer is under way, or a number overflows
            self.drop()
        else:
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed body in place of the route that was to answer the request."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        super().send_400_response(msg)

    def drop(self) -> None:
        """Close the connection at once."""
        self._stop_timer()
        self.transport.abort()

    def _watch(self) -> None:
        if self.conn.their_state is self._awaited:
            return  # the same part: the clock runs on
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
