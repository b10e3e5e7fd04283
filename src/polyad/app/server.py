"""The routes of the page in its two modes. No logic: each one is a call on the workspace.

A click is a POST to ``api/do``: the session writes it to the journal, which wakes the trainer. The
trainer announces its map as an event, and the page asks for the tiles of it in view.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from polyad.app.access import MAX_BODY, AccessControl, AccessPolicy, App, TooLarge
from polyad.app.checklist import CheckWorkspace
from polyad.app.journal import Json
from polyad.app.labels import LABEL_FILES, file_content
from polyad.app.maps import View
from polyad.app.tiles import map_tile, uncertainty_tile
from polyad.app.uploads import read_upload
from polyad.app.workspace import LabelWorkspace
from polyad.errors import OutputError, PolyadError, SceneError
from polyad.scene.map.mapping import map_file

Workspace = LabelWorkspace | CheckWorkspace
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_RESULTS = {"map.tif": "image/tiff", "model.polyad": "application/octet-stream"}
CACHED = {"cache-control": "private, max-age=3600"}  # a scene's pixels do not change


async def _content(request: Request) -> bytes:
    return await request.body()


async def _json_body(request: Request) -> Json:
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


Content = Annotated[bytes, Depends(_content)]
JsonBody = Annotated[Json, Depends(_json_body)]


def make_app(workspace: Workspace, policy: AccessPolicy, max_body: int = MAX_BODY) -> App:
    """Return the ASGI application that serves ``workspace`` to those whom ``policy`` allows."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for kind in (
        HTTPException, RequestValidationError, TooLarge, PolyadError, OSError, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, _answer_error)
    _add_static_files(app, workspace.page)
    _add_scene(app, workspace)
    if isinstance(workspace, LabelWorkspace):
        _add_labeling(app, workspace)
        _add_files(app, workspace)
    return AccessControl(app, policy, max_body)


def _add_static_files(app: FastAPI, first: str) -> None:
    # Read once into a table: a path from the browser never becomes a file name.
    folder = files("polyad.app") / "static"
    pages = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}

    def page(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404, "there is no such file")
        return Response(pages[name], media_type=_MEDIA_TYPES[name.rsplit(".", 1)[-1]])

    app.get("/")(lambda: page(first))
    app.get("/static/{name}")(page)


def _add_scene(app: FastAPI, workspace: Workspace) -> None:
    """Add what both modes have: state, events, spectra, pictures and commands."""

    @app.get("/api/state")
    def state() -> Json:
        return workspace.state()

    @app.get("/api/spectrum")
    def spectrum(row: int, col: int) -> Json:
        return workspace.spectrum(row, col)

    @app.get("/api/events")
    async def events() -> StreamingResponse:
        stream: AsyncIterator[str] = workspace.events.stream()
        return StreamingResponse(stream, media_type="text/event-stream")

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
        return _png(workspace.scene_tiles.tile(level, row, col, (r, g, b), (low, high)), CACHED)

    @app.get("/api/map/{level}/{row}/{col}")
    def class_map(level: int, row: int, col: int) -> Response:
        shown = workspace.class_map()
        if shown is None:
            raise HTTPException(404, "there is no map on this page")
        return _png(map_tile(*shown, level, row, col))

    @app.post("/api/do")
    def do(body: JsonBody) -> Json:
        return workspace.do(body)


def _add_labeling(app: FastAPI, workspace: LabelWorkspace) -> None:
    trainer = workspace.trainer

    @app.get("/api/means")
    def means() -> Json:
        return trainer.means

    @app.get("/api/uncertainty/{level}/{row}/{col}")
    def uncertainty(level: int, row: int, col: int) -> Response:
        return _png(uncertainty_tile(trainer.newest_map.uncertainty, level, row, col))

    @app.get("/api/class")
    def class_at(row: int, col: int) -> Json:
        return trainer.newest_map.at(row, col)

    @app.post("/api/focus")
    def focus(body: JsonBody) -> Json:
        shape = workspace.scene.sizes["y"], workspace.scene.sizes["x"]
        trainer.view = View.from_message(body, shape)
        return {}


def _add_files(app: FastAPI, workspace: LabelWorkspace) -> None:
    session, scene = workspace.session, workspace.scene

    @app.post("/api/labels/{kind}")
    def upload(kind: str, content: Content, beside: str = "") -> Json:
        return session.load(read_upload(content, kind, scene, beside))

    @app.get("/api/labels/{kind}")
    def labels(kind: str) -> Response:
        if kind not in LABEL_FILES:
            raise HTTPException(404, f"labels are saved as {', '.join(LABEL_FILES)}")
        media, write = LABEL_FILES[kind]
        return _download(write(session.snapshot(), scene), f"labels.{kind}", media)

    @app.get("/api/files/{name}")
    def result(name: str) -> Response:
        if name not in _RESULTS:
            raise HTTPException(404, f"there is {' and '.join(_RESULTS)}")
        model = workspace.trainer.final_model()
        if model is None:
            raise HTTPException(409, "there is no model yet; label pixels of two classes")
        writers = {"map.tif": lambda path: map_file(model, scene, path), "model.polyad": model.save}
        return _download(file_content(name, writers[name]), name, _RESULTS[name])


# -- answers --------------------------------------------------------------------------------------


def _png(content: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(content, media_type="image/png", headers=headers)


def _download(content: bytes, name: str, media: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media, headers=headers)


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    """Answer an error as one message in JSON."""
    status, text, headers = 422, str(error), None
    if isinstance(error, HTTPException):
        status, text = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        text = f"{first['loc'][-1]}: {first['msg']}"
    elif isinstance(error, TooLarge):
        status, headers = 413, {"connection": "close"}
    elif isinstance(error, OutputError):
        status = 507
    elif isinstance(error, SceneError) and not isinstance(error, ValueError):
        status = 503  # the scene cannot be read
    elif isinstance(error, OSError) and not isinstance(error, PolyadError):
        status, text = 503, f"the scene cannot be read: {error.strerror or error}"
    elif not isinstance(error, PolyadError):  # `AccessControl` logs it
        report = "this is a bug, please report it"
        status, text = 500, f"polyad failed at this (labels already given are safe); {report}"
    return JSONResponse({"error": text}, status, headers)
