"""Access control for every route: token, Host, Origin, size of the body; and security headers.

Only who was given the address has access. The token is the first part of the path, so the page's
own relative links carry it. A request that another site makes the browser send is refused by its
Origin, and DNS rebinding (a site whose name points here) by its Host.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 16 * 2**20  # bytes; 50,000 labels are under one million
_DIGITS = 15  # of a content-length; Python refuses to parse thousands
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

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
        return self.host in ("0.0.0.0", "::") and _is_address(name)

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
            await _refuse(send, *refusal)
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
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [""])
        if len(hosts) != 1 or not self.policy.allows_host(hosts[0]):
            return 421, "this address is not served here; use the one that polyad label printed"
        other_site = not all(map(self.policy.allows_origin, headers.get("origin", [])))
        navigates = headers.get("sec-fetch-mode", ["navigate"]) == ["navigate"]
        if other_site or ("cross-site" in headers.get("sec-fetch-site", []) and not navigates):
            return 403, "requests from other sites are refused"
        # "*", "host:port" and "" are targets without a path
        empty, _, rest = scope["path"].partition("/")
        token = rest.partition("/")[0] if not empty else ""
        if not secrets.compare_digest(token.encode(), self.policy.token.encode()):
            return 403, "wrong or missing token; use the address that polyad label printed"
        for length in headers.get("content-length", []):
            if not (length.isascii() and length.isdecimal()):
                return 400, "content-length must be a number"
            if len(length) > _DIGITS or int(length) > self.max_body:
                return self._too_large()
        return None

    def _too_large(self) -> tuple[int, str]:
        return 413, f"the body is too large; wanted at most {self.max_body:,} bytes"

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
                extra = {"content-security-policy": self.policy.content_security_policy, **_HEADERS}
                names = {name for name, _ in message["headers"]}
                if b"cache-control" not in names:
                    extra["cache-control"] = "no-store"
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in extra.items()),
                ]
            await send(message)

        return sent


class TooLarge(Exception):
    """A request has more bytes than allowed; the application answers 413."""


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),  # neither the rest of the body nor another request is read
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
