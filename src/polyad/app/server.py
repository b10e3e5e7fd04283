"""The routes of the labeling page. No logic: each one is a call on the workspace.

A click is a POST to ``api/do``: the session writes it to the journal, which wakes the trainer. The
trainer announces its map as an event, and the page asks for the tiles of it in view.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from polyad.app.access import MAX_BODY, AccessControl, AccessPolicy, App, TooLarge
from polyad.app.downloads import LABEL_FILES, map_tif, model_file
from polyad.app.label_state import Command
from polyad.app.tile_images import SceneTiles, map_tile, uncertainty_tile
from polyad.app.uploads import read_upload
from polyad.app.view import View
from polyad.app.workspace import Workspace
from polyad.errors import InputError, OutputError, PolyadError, SceneError
from polyad.scene.learn.model import SceneModel

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
CACHED = {"cache-control": "private, max-age=3600"}  # a scene's pixels do not change
_PAGE_COMMANDS = ("label", "add", "change", "delete", "undo", "redo")


def make_app(workspace: Workspace, policy: AccessPolicy, max_body: int = MAX_BODY) -> App:
    """Return the ASGI application that serves ``workspace`` to those whom ``policy`` allows."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    add_error_handlers(app)
    add_static_files(app)
    _add_state(app, workspace)
    add_scene_tiles(app, workspace.scene_tiles)
    _add_maps(app, workspace)
    _add_commands(app, workspace)
    _add_downloads(app, workspace)
    return AccessControl(app, policy, max_body)


def add_static_files(app: FastAPI, first: str = "index.html") -> None:
    """Serve the files of the page, and ``first`` at its address."""
    # Read once into a table: a path from the browser never becomes a file name.
    folder = files("polyad.app") / "static"
    pages = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}

    def page(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404, "there is no such file")
        return Response(pages[name], media_type=_MEDIA_TYPES[name.rsplit(".", 1)[-1]])

    app.get("/")(lambda: page(first))
    app.get("/static/{name}")(page)


def _add_state(app: FastAPI, workspace: Workspace) -> None:
    @app.get("/api/state")
    def state() -> dict[str, Any]:
        return workspace.state()

    @app.get("/api/spectrum")
    def spectrum(row: int, col: int) -> dict[str, Any]:
        return workspace.spectrum(row, col)

    @app.get("/api/means")
    def means() -> dict[str, Any]:
        return workspace.trainer.means

    @app.get("/api/events")
    async def events() -> StreamingResponse:
        stream: AsyncIterator[str] = workspace.events.stream()
        return StreamingResponse(stream, media_type="text/event-stream")


def add_scene_tiles(app: FastAPI, tiles: SceneTiles) -> None:
    """Serve the pictures of a scene."""

    @app.get("/api/scene/{level}/{row}/{col}")
    def scene(
        level: int,
        row: int,
        col: int,
        r: int,
        g: int,
        b: int,
        low: float = Query(2.0, allow_inf_nan=False),
        high: float = Query(98.0, allow_inf_nan=False),
    ) -> Response:
        return png(tiles.tile(level, row, col, (r, g, b), (low, high)), CACHED)


def _add_maps(app: FastAPI, workspace: Workspace) -> None:
    @app.get("/api/map/{level}/{row}/{col}")
    def class_map(level: int, row: int, col: int) -> Response:
        classes = workspace.session.snapshot().classes
        return png(map_tile(workspace.trainer.newest_map.ids, classes, level, row, col))

    @app.get("/api/uncertainty/{level}/{row}/{col}")
    def uncertainty(level: int, row: int, col: int) -> Response:
        return png(uncertainty_tile(workspace.trainer.newest_map.uncertainty, level, row, col))

    @app.get("/api/class")
    def class_at(row: int, col: int) -> dict[str, Any]:
        return workspace.trainer.newest_map.at(row, col)


def _add_commands(app: FastAPI, workspace: Workspace) -> None:
    @app.post("/api/do")
    async def do(request: Request) -> dict[str, Any]:
        command = _command(await json_body(request))
        return await run_in_threadpool(workspace.session.do, command)

    @app.post("/api/focus")
    async def focus(request: Request) -> dict[str, Any]:
        body = await json_body(request)
        shape = workspace.scene.sizes["y"], workspace.scene.sizes["x"]
        workspace.trainer.view = View.from_message(body, shape)
        return {}

    @app.post("/api/labels/{kind}")
    async def upload(kind: str, request: Request, beside: str = "") -> dict[str, Any]:
        content = await request.body()

        def load() -> dict[str, Any]:
            labels = read_upload(content, kind, workspace.scene, beside)
            return workspace.session.load(labels)

        return await run_in_threadpool(load)


def _add_downloads(app: FastAPI, workspace: Workspace) -> None:
    @app.get("/api/labels/{kind}")
    def labels(kind: str) -> Response:
        if kind not in LABEL_FILES:
            raise HTTPException(404, f"labels are saved as {', '.join(LABEL_FILES)}")
        media, write = LABEL_FILES[kind]
        return _download(
            write(workspace.session.snapshot(), workspace.scene), f"labels.{kind}", media
        )

    @app.get("/api/files/{name}")
    def result(name: str) -> Response:
        makers: dict[str, tuple[str, Callable[[SceneModel], bytes]]] = {
            "map.tif": ("image/tiff", lambda model: map_tif(model, workspace.scene)),
            "model.polyad": ("application/octet-stream", model_file),
        }
        if name not in makers:
            raise HTTPException(404, f"there is {' and '.join(makers)}")
        model = workspace.trainer.final_model()
        if model is None:
            raise HTTPException(409, "there is no model yet; label pixels of two classes")
        media, make = makers[name]
        return _download(make(model), name, media)


# -- requests -----------------------------------------------------------------------------------


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request sends."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise HTTPException(415, "the body must be JSON, with content-type application/json")
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise HTTPException(422, "the body must be a JSON object")
    return body


def _command(body: dict[str, Any]) -> Command:
    """Return the command with the keys a command has, and no others."""
    if body.get("do") not in _PAGE_COMMANDS:
        raise InputError(f"no such command: {str(body.get('do'))[:40]!r}")
    keys: tuple[str, ...] = ("do", "class", "pixels", "name", "color", "stroke")
    kept = {k: body[k] for k in keys if k in body}
    for key in ("name", "color", "stroke"):
        if not isinstance(kept.get(key, ""), str | None):
            raise InputError(f"{key} must be text")
    return kept


# -- answers ------------------------------------------------------------------------------------


def png(content: bytes, headers: dict[str, str] | None = None) -> Response:
    """Answer with a picture."""
    return Response(content, media_type="image/png", headers=headers)


def _download(content: bytes, name: str, media: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media, headers=headers)


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error in one sentence of JSON."""

    def answer(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": text}, status)

    async def http(_: Request, error: Any) -> JSONResponse:
        return answer(error.status_code, str(error.detail))

    async def malformed(_: Request, error: Any) -> JSONResponse:
        first = error.errors()[0]
        return answer(422, f"{first['loc'][-1]}: {first['msg']}")

    async def polyad_error(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, OutputError):
            return answer(507, str(error))
        known = isinstance(error, InputError) or not isinstance(error, SceneError)
        return answer(422 if known or isinstance(error, ValueError) else 503, str(error))

    async def unreadable(_: Request, error: Any) -> JSONResponse:
        return answer(503, f"the scene cannot be read: {error.strerror or error}")

    async def bug(_: Request, error: Exception) -> JSONResponse:
        del error  # `AccessControl` logs it
        report = "this is a bug, please report it"
        return answer(500, f"polyad failed at this (labels already given are safe); {report}")

    async def too_large(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 413, {"connection": "close"})

    app.exception_handler(HTTPException)(http)
    app.exception_handler(RequestValidationError)(malformed)
    app.exception_handler(PolyadError)(polyad_error)
    app.exception_handler(OSError)(unreadable)
    app.exception_handler(TooLarge)(too_large)
    app.exception_handler(Exception)(bug)
