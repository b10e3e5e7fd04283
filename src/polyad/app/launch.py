"""Start the labelling page: for the command line, for a script, in a notebook."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
import webbrowser
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from typing import Self

import uvicorn

from polyad.app.desk import Desk, Source
from polyad.app.fitter import Settings
from polyad.app.gate import Doors
from polyad.app.redirect import redirect_file
from polyad.app.server import make_app
from polyad.app.wire import Wire
from polyad.errors import OutputError
from polyad.terminal import put

_GRACE = 1  # seconds that open pages get to say goodbye
_MAX_HEAD = 32 * 2**10  # bytes of a request's line and headers


@dataclass
class Page:
    """A labelling page that is being served.

    Attributes
    ----------
    url : str
        The address, with its token: whoever has it can label.
    desk : Desk
        The scene, its labels and its newest model.
    """

    url: str
    desk: Desk
    _server: uvicorn.Server = field(repr=False)
    _socket: socket.socket = field(repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    def run(self) -> None:
        """Serve until interrupted."""
        self.desk.start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.desk.close()
            self._socket.close()

    def start(self) -> Self:
        """Serve in the background."""
        self._thread = threading.Thread(target=self.run, name="polyad-page", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """End a page that was started in the background."""
        self.desk.bus.close()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=15)

    def _repr_html_(self) -> str:
        address = escape(self.url, quote=True)
        return (
            f'<iframe src="{address}" width="100%" height="720" style="border:0"></iframe>'
            f'<p><a href="{address}" target="_blank" rel="noopener">Open in a tab</a></p>'
        )


def prepare(
    scene: Source,
    labels: Source | None = None,
    truth: Source | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    journal: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    framed: bool = False,
) -> Page:
    """Return a page that is ready to be served; see `serve` for the parameters."""
    listening = _listen(host, port)
    try:
        # One core is left to the browser that draws and to the answers to clicks.
        threads = max(1, (os.cpu_count() or 1) - 1)
        desk = Desk(scene, labels, truth, journal=journal, settings=settings, threads=threads)
    except BaseException:
        listening.close()
        raise
    doors = Doors(secrets.token_urlsafe(24), listening.getsockname()[1], host, framed)
    config = uvicorn.Config(
        make_app(desk, doors),
        http=Wire,
        ws="none",
        h11_max_incomplete_event_size=_MAX_HEAD,
        log_level="error",  # a malformed request is no news
        access_log=False,  # the address holds the token
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
    )
    shown = host if host not in ("0.0.0.0", "::") else socket.gethostbyname(socket.gethostname())
    url = f"http://{f'[{shown}]' if ':' in shown else shown}:{doors.port}/{doors.token}/"
    return Page(url, desk, uvicorn.Server(config), listening)


def serve(
    scene: Source,
    labels: Source | None = None,
    truth: Source | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    journal: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    browser: bool = True,
) -> None:
    """Serve the labelling page of a scene until interrupted.

    Parameters
    ----------
    scene : path, known name, or DataArray with dims (y, x, band)
    labels : path, known name or DataArray, optional
        Labels to begin with.
    truth : path, known name or DataArray, optional
        Labels to score the map against as it grows.
    host : str, default="127.0.0.1"
        Address to listen on: this machine alone unless another is given.
    port : int, default=0
        0 takes a free one.
    journal : path, optional
        Where every label is kept; by default beside the scene, or in the user's data folder.
    settings : Settings, optional
        Of the final model; by default those of ``polyad train``.
    browser : bool, default=True
        Open the page.
    """
    page = prepare(scene, labels, truth, host=host, port=port, journal=journal, settings=settings)
    put(f"labelling {page.desk.name}: {page.url}")
    put(f"every label is kept in {page.desk.session.journal.path}; end with Ctrl+C")
    with suppress(KeyboardInterrupt), ExitStack() as stack:  # Ctrl+C is the announced way to end it
        if browser:
            with suppress(OSError):  # no room for the file: the address is on the terminal
                webbrowser.open(stack.enter_context(redirect_file(page.url)))
        page.run()


def show(scene: Source, labels: Source | None = None, truth: Source | None = None) -> Page:
    """Show the labelling page in a notebook on this machine.

    Parameters
    ----------
    scene, labels, truth
        See `serve`.

    Returns
    -------
    Page
        Displays itself in a cell. ``page.desk.session.snapshot()`` has the labels and
        ``page.desk.fitter.final_model()`` the model; ``page.stop()`` ends it.
    """
    return prepare(scene, labels, truth, framed=True).start()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that say they are TCP
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # a browser that is quicker than the server waits instead of failing
    except OSError as error:
        listening.close()
        raise OutputError(
            f"cannot listen on {host}, port {port} ({error.strerror}); choose another --port, or "
            "none to take a free one"
        ) from error
    return listening
