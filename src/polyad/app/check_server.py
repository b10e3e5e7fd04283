"""The routes of the page on which a sample is checked. Each one is a call on the workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException

from polyad.app.access import MAX_BODY, AccessControl, AccessPolicy, App
from polyad.app.check_workspace import CheckWorkspace
from polyad.app.server import (
    add_error_handlers,
    add_scene_tiles,
    add_static_files,
    json_body,
    png,
)
from polyad.app.tile_images import map_tile
from polyad.errors import InputError


def make_check_app(
    workspace: CheckWorkspace, policy: AccessPolicy, max_body: int = MAX_BODY
) -> App:
    """Return the ASGI application that serves ``workspace`` to those whom ``policy`` allows."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    add_error_handlers(app)
    add_static_files(app, "check.html")
    add_scene_tiles(app, workspace.scene_tiles)

    @app.get("/api/state")
    def state() -> dict[str, Any]:
        return workspace.state()

    @app.get("/api/spectrum")
    def spectrum(row: int, col: int) -> dict[str, Any]:
        return workspace.spectrum(row, col)

    @app.get("/api/events")
    async def events() -> StreamingResponse:
        stream: AsyncIterator[str] = workspace.events.stream()
        return StreamingResponse(stream, media_type="text/event-stream")

    @app.get("/api/map/{level}/{row}/{col}")
    def class_map(level: int, row: int, col: int) -> Response:
        if workspace.map_ids is None:
            raise HTTPException(404, "there is no map on this page")
        return png(map_tile(workspace.map_ids, workspace.map_colors(), level, row, col))

    @app.post("/api/do")
    async def do(request: Request) -> dict[str, Any]:
        body = await json_body(request)
        if body.get("do") != "answer":
            raise InputError(f"no such command: {str(body.get('do'))[:40]!r}; wanted 'answer'")
        return await run_in_threadpool(workspace.checklist.do, body)

    return AccessControl(app, policy, max_body)
