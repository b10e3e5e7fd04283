"""Start a page, for labeling or for checking a sample: for a terminal, a script or a notebook."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Self

import uvicorn
import xarray as xr

from polyad.app.access import AccessPolicy, TimedConnection
from polyad.app.checklist import CheckWorkspace
from polyad.app.server import make_app
from polyad.app.workspace import LabelWorkspace, RasterSource
from polyad.errors import InputError, OutputError
from polyad.scene.learn.model import SceneModel
from polyad.terminal import put
from polyad.threads import usable_cores

_SHUTDOWN_SECONDS = 1  # for open pages to close their connections
_MAX_HEAD = 32 * 2**10  # bytes of a request's line and headers
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}"><title>polyad</title></head>
<body><p><a href="{address}">Open the labeling page</a></p></body></html>
"""


@dataclass
class Page:
    """A page that is being served, for labeling or for checking a sample.

    Attributes
    ----------
    url : str
        The address with its token; who has it can use the page.
    workspace : LabelWorkspace or CheckWorkspace
    """

    url: str
    workspace: Any
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
    framed: bool = False,
    **options: Any,
) -> Page:
    """Return a page that is ready to be served; see `serve` for the parameters."""
    # Leave one core to the browser and to the answers to clicks.
    options |= {"threads": max(1, usable_cores() - 1)}
    make = partial(LabelWorkspace, scene, labels, truth, **options)
    return _listening(make, host, port, framed)


def prepare_check(
    scene: RasterSource,
    sample: str | os.PathLike[str],
    class_map: RasterSource | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    **options: Any,
) -> Page:
    """Return a page that is ready to be served; see `check` for the parameters."""
    return _listening(partial(CheckWorkspace, scene, sample, class_map, **options), host, port)


def serve(
    scene: RasterSource,
    labels: RasterSource | None = None,
    truth: RasterSource | None = None,
    *,
    browser: bool = True,
    **options: Any,
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
    settings : TrainSettings, optional
        Of the final model; by default those of ``polyad train``.
    layer, field, all_touched
        How labels and truth are read from vector files; see `polyad.open_labels`.
    mask, bbox
        Where the scene is learned from and mapped; see `polyad.scene.restrict_scene`.
    nodata : float, optional
        Value that stands for "no measurement", in place of the one that the file declares.
    browser : bool, default=True
        Open the page.
    """
    page = prepare(scene, labels, truth, **options)
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


def check(
    scene: RasterSource,
    sample: str | os.PathLike[str],
    class_map: RasterSource | None = None,
    *,
    browser: bool = True,
    **options: Any,
) -> None:
    """Serve the page on which a sample is checked, point by point, until interrupted.

    Parameters
    ----------
    scene : path, known name, or DataArray with dims (y, x, band)
    sample : path
        Points to look at, as `polyad.scene.draw_sample` draws them.
    class_map : path or DataArray, optional
        The map that is checked. Its classes are those to choose from.
    classes : sequence of str
        Names of the classes, where there is no map.
    blind : bool, default=True
        Keep the map, and its class of each point, from the page: whoever sees them agrees with
        the map too often.
    out : path, optional
        File of the checked points, ``.gpkg``, ``.geojson`` or ``.csv``; by default beside the
        sample. One that is there is resumed.
    field : str, optional
        Field of the true class; ``reference`` if not given.
    layer : str, optional
        Layer of a file that has several.
    journal : path, optional
        Where every answer is kept; by default beside ``out``.
    nodata, host, port, browser
        See `serve`.
    """
    page = prepare_check(scene, sample, class_map, **options)
    workspace, points = page.workspace, f"{len(page.workspace.answers):,} points"
    put(f"checking {workspace.sample.path.name} on {workspace.name}: {page.url}")
    put(f"{workspace.done:,} of {points} are checked; answers go into {workspace.out}")
    put(f"every answer is kept in {workspace.journal.path}; end with Ctrl+C")
    page.run_in_browser(browser)
    unsure = f"of which {workspace.unsure:,} unsure"
    put(f"{workspace.done:,} of {points} are checked, {unsure}: {workspace.out}")


def _listening(
    make: Callable[[], LabelWorkspace | CheckWorkspace], host: str, port: int, framed: bool = False
) -> Page:
    """Return a page; its workspace is made once the port is known to be free."""
    if not 0 <= port < 2**16:
        raise InputError(f"expected a --port from 1 to 65535, or 0 to take a free one, got {port}")
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
    return Page(url, workspace, uvicorn.Server(config), listening)


@contextmanager
def redirect_file(address: str) -> Iterator[str]:
    """Yield the ``file:`` URL of a private file that redirects to ``address``; then delete it.

    Every user of a machine can read all command lines, and a browser started with the address
    would show the token there.

    Examples
    --------
    >>> with redirect_file("http://127.0.0.1:80/token/") as url:
    ...     url.startswith("file:///"), "token" in url
    (True, False)
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    usable = runtime if runtime and os.access(runtime, os.W_OK | os.X_OK) else None
    # Nobody else may enter the folder, so nobody can replace the file.
    with tempfile.TemporaryDirectory(prefix="polyad-", dir=usable) as folder:
        path = Path(folder) / "open.html"
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(_PAGE.format(address=escape(address, quote=True)))
        yield path.absolute().as_uri()
