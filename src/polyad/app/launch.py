"""Start the labeling page: for the command line, for a script, in a notebook."""

from __future__ import annotations

import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from typing import Any, Generic, Protocol, Self, TypeVar

import uvicorn
import xarray as xr

from polyad.app.access import AccessPolicy, App
from polyad.app.connection import TimedConnection
from polyad.app.events import EventBus
from polyad.app.fits import Settings
from polyad.app.redirect import redirect_file
from polyad.app.server import make_app
from polyad.app.workspace import RasterSource, Workspace
from polyad.errors import InputError, OutputError
from polyad.scene.learn.model import SceneModel
from polyad.terminal import put
from polyad.threads import usable_cores

_SHUTDOWN_SECONDS = 1  # for open pages to close their connections
_MAX_HEAD = 32 * 2**10  # bytes of a request's line and headers


class Served(Protocol):
    """What a page serves: started with it, closed with it."""

    name: str
    events: EventBus

    def start(self) -> None:
        """Begin whatever runs beside the answers."""

    def close(self) -> None:
        """End it, and release its files."""


Kind = TypeVar("Kind", bound=Served)


@dataclass
class ServedPage(Generic[Kind]):
    """A page that is being served.

    Attributes
    ----------
    url : str
        The address with its token; who has it can use the page.
    """

    url: str
    workspace: Kind
    _server: uvicorn.Server = field(repr=False)
    _socket: socket.socket = field(repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    def run(self) -> None:
        """Serve until interrupted."""
        self.workspace.start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.workspace.close()
            self._socket.close()

    def run_in_browser(self, browser: bool = True) -> None:
        """Serve until interrupted with Ctrl+C, and open the page unless ``browser`` is False."""
        with suppress(KeyboardInterrupt), ExitStack() as stack:  # the way to end it
            if browser:
                with suppress(OSError):  # no redirect file: the address is on the terminal
                    webbrowser.open(stack.enter_context(redirect_file(self.url)))
            self.run()

    def start(self) -> Self:
        """Serve in the background."""
        self._thread = threading.Thread(target=self.run, name="polyad-page", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """End a page that was started in the background."""
        self.workspace.events.close()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=15)


class Page(ServedPage[Workspace]):
    """A labeling page that is being served."""

    def labels(self) -> xr.DataArray:
        """Return the labels so far on the scene's grid, 0 where unlabeled."""
        return self.workspace.session.snapshot().raster(self.workspace.scene)

    def model(self) -> SceneModel | None:
        """Wait for the final model of the labels so far; None with fewer than two classes."""
        return self.workspace.trainer.final_model()

    def _repr_html_(self) -> str:
        address = escape(self.url, quote=True)
        return (
            f'<iframe src="{address}" width="100%" height="720" style="border:0"></iframe>'
            f'<p><a href="{address}" target="_blank" rel="noopener">Open in a tab</a></p>'
        )


def prepare(
    scene: RasterSource,
    labels: RasterSource | None = None,
    truth: RasterSource | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    journal: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    reading: Mapping[str, Any] | None = None,
    mask: str | PathLike[str] | xr.DataArray | None = None,
    bbox: Sequence[float] | None = None,
    framed: bool = False,
) -> Page:
    """Return a page that is ready to be served; see `serve` for the parameters."""

    def make() -> Workspace:
        # Leave one core to the browser and to the answers to clicks.
        return Workspace(
            scene,
            labels,
            truth,
            journal=journal,
            settings=settings,
            reading=reading,
            mask=mask,
            bbox=bbox,
            threads=max(1, usable_cores() - 1),
        )

    return Page(*listen_for(make, make_app, host, port, framed))


def listen_for(
    make: Callable[[], Kind],
    make_app: Callable[[Kind, AccessPolicy], App],
    host: str,
    port: int,
    framed: bool = False,
) -> tuple[str, Kind, uvicorn.Server, socket.socket]:
    """Return what a page is made of: its address, what it serves, the server and its socket.

    Parameters
    ----------
    make : callable
        Makes what is served, once the port is known to be free.
    make_app : callable
        Makes the application that serves it.
    host, port
        See `serve`.
    framed : bool
        Whether a notebook may show the page.
    """
    listening = _listen(host, port)
    try:
        workspace = make()
    except BaseException:
        listening.close()
        raise
    policy = AccessPolicy(secrets.token_urlsafe(24), listening.getsockname()[1], host, framed)
    config = uvicorn.Config(
        make_app(workspace, policy),
        http=TimedConnection,
        ws="none",
        h11_max_incomplete_event_size=_MAX_HEAD,
        log_level="error",  # malformed requests are not worth a line
        access_log=False,  # the address holds the token
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    address = host if host not in ("0.0.0.0", "::") else socket.gethostbyname(socket.gethostname())
    url = f"http://{f'[{address}]' if ':' in address else address}:{policy.port}/{policy.token}/"
    return url, workspace, uvicorn.Server(config), listening


def serve(
    scene: RasterSource,
    labels: RasterSource | None = None,
    truth: RasterSource | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    journal: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    layer: str | None = None,
    field: str | None = None,
    all_touched: bool = False,
    mask: str | PathLike[str] | xr.DataArray | None = None,
    bbox: Sequence[float] | None = None,
    browser: bool = True,
) -> None:
    """Serve the labeling page of a scene until interrupted.

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
    layer, field, all_touched
        How labels and truth are read from vector files; see `polyad.open_labels`.
    mask, bbox
        Where the scene is learned from and mapped; see `polyad.scene.restrict_scene`.
    browser : bool, default=True
        Open the page.
    """
    reading = {"layer": layer, "field": field, "all_touched": all_touched}
    place: dict[str, Any] = {"host": host, "port": port, "journal": journal}
    place |= {"mask": mask, "bbox": bbox}
    page = prepare(scene, labels, truth, settings=settings, reading=reading, **place)
    put(f"labeling {page.workspace.name}: {page.url}")
    put(f"every label is kept in {page.workspace.session.journal.path}; end with Ctrl+C")
    page.run_in_browser(browser)


def show(
    scene: RasterSource, labels: RasterSource | None = None, truth: RasterSource | None = None
) -> Page:
    """Show the labeling page in a notebook on this machine.

    Parameters
    ----------
    scene, labels, truth
        See `serve`.

    Returns
    -------
    Page
        Displays itself in a cell. ``page.labels()`` and ``page.model()`` return the labels and the
        model; ``page.stop()`` ends it.
    """
    return prepare(scene, labels, truth, framed=True).start()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise InputError(f"wanted a --port from 1 to 65535, or 0 to take a free one, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only if the socket names TCP
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # a browser faster than the server waits instead of failing
    except OSError as error:
        listening.close()
        raise OutputError(
            f"cannot listen on {host}, port {port} ({error.strerror}); choose another --port, or "
            "none to take a free one"
        ) from error
    return listening
