"""Access control for every route: token, Host, Origin, size and time of a request.

Only who was given the address has access. The token is the first part of the path, so the page's
relative links carry it. A request that another site makes the browser send is refused by its
Origin, and DNS rebinding (a site whose name points here) by its Host.

Uvicorn waits for ever for the rest of a request. Here head and body must each arrive within a time,
whether they stop or trickle in. When too many connections wait for a request, the oldest is
dropped: a flood of idle connections drops its own, since a browser sends its request at once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 16 * 2**20  # bytes; 50,000 labels are under one million
_DIGITS = 15  # of a content-length; Python refuses to parse thousands
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0  # 16 MiB over a slow line
MAX_WAITING = 256  # connections without a request; a process has some 1,000 files

_LOG = logging.getLogger("polyad.app")
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
)


@dataclass(frozen=True)
class AccessPolicy:
    """Who has access.

    Attributes
    ----------
    token : str
    port : int
    host : str
        The address the server listens on.
    framed : bool
        Whether a notebook on this machine may show the page in a frame.
    """

    token: str
    port: int
    host: str = "127.0.0.1"
    framed: bool = False

    def allows_host(self, value: str) -> bool:
        """Tell whether a Host header names this server.

        Examples
        --------
        >>> policy = AccessPolicy("t", 80)
        >>> policy.allows_host("127.0.0.1:80"), policy.allows_host("evil.example:80")
        (True, False)
        """
        name, _, port = value.rpartition(":") if not value.endswith("]") else (value, "", "80")
        if not port.isdecimal():
            name, port = value, "80"
        if port != str(self.port):
            return False
        if name in LOOPBACK or name == self.host:
            return True
        # Listening on every address of the machine: any address, but no name, which can be rebound.
        with suppress(ValueError):
            return self.host in ("0.0.0.0", "::") and bool(ipaddress.ip_address(name.strip("[]")))
        return False

    def allows_origin(self, value: str) -> bool:
        """Tell whether an Origin header is this server's own.

        Examples
        --------
        >>> policy = AccessPolicy("t", 80)
        >>> policy.allows_origin("http://127.0.0.1:80"), policy.allows_origin("http://[")
        (True, False)
        """
        scheme, _, host = value.partition("://")
        return scheme == "http" and self.allows_host(host)

    @property
    def content_security_policy(self) -> str:
        """The header of that name."""
        ancestors = "http://localhost:* http://127.0.0.1:*" if self.framed else "'none'"
        return _CONTENT_SECURITY + ancestors


class AccessControl:
    """ASGI middleware: applies an `AccessPolicy`, bounds the body, and logs errors in one line."""

    def __init__(self, app: App, policy: AccessPolicy, max_body: int = MAX_BODY) -> None:
        self.app, self.policy, self.max_body = app, policy, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on."""
        if scope["type"] != "http":
            return
        send = self._with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            status, text = refusal
            # neither the rest of the body nor another request is read
            answer = JSONResponse({"error": text}, status, {"connection": "close"})
            await answer(scope, receive, send)
            return
        prefix = f"/{self.policy.token}"
        inner = dict(scope)
        inner["path"] = scope["path"][len(prefix) :] or "/"
        inner["raw_path"] = inner["path"].encode()
        try:
            await self.app(inner, self._bounded(receive), send)
        except ClientDisconnect:
            pass  # nobody is left to answer
        except Exception as error:  # the application has answered 500
            _LOG.error("%s %s: %s: %s", scope["method"], inner["path"], type(error).__name__, error)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.policy.allows_host(hosts[0]):
            return 421, "this address is not served here; use the one that polyad label printed"
        other_site = not all(map(self.policy.allows_origin, headers.getlist("origin")))
        navigates = set(headers.getlist("sec-fetch-mode")) <= {"navigate"}
        if other_site or ("cross-site" in headers.getlist("sec-fetch-site") and not navigates):
            return 403, "requests from other sites are refused"
        # "*", "host:port" and "" are targets without a path
        empty, _, rest = scope["path"].partition("/")
        token = rest.partition("/")[0] if not empty else ""
        if not secrets.compare_digest(token.encode(), self.policy.token.encode()):
            return 403, "wrong or missing token; use the address that polyad label printed"
        for length in headers.getlist("content-length"):
            if not (length.isascii() and length.isdecimal()):
                return 400, "content-length must be a number"
            if len(length) > _DIGITS or int(length) > self.max_body:
                return self._too_large()
        return None

    def _too_large(self) -> tuple[int, str]:
        return 413, f"the body is too large; expected at most {self.max_body:,} bytes"

    def _bounded(self, receive: Receive) -> Receive:
        """Count the bytes of a body, whose length may be missing or wrong."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body:
                raise TooLarge(self._too_large()[1])
            return message

        return counted

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = self.policy.content_security_policy
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        return sent


class TooLarge(Exception):
    """A request has more bytes than allowed; the application answers 413."""


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
