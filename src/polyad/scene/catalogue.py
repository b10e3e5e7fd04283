"""Which scenes are known by name, and which of them are on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pooch

from polyad.scene.known import KNOWN_SCENES


def data_folder() -> Path:
    """Return where fetched scenes are kept: ``$POLYAD_DATA``, else the user's cache folder."""
    return Path(os.environ.get("POLYAD_DATA") or pooch.os_cache("polyad"))


def list_known() -> list[dict[str, Any]]:
    """Return a plain row for each known scene: name, size, classes, whether its files are here."""
    return [
        {
            "name": name,
            "title": row.title,
            "sensor": row.sensor,
            "size": "{} rows x {} columns, {} bands".format(*row.shape),
            "classes": len(row.class_names),
            "here": row.bundled or all((data_folder() / f.name).exists() for f in row.files),
        }
        for name, row in KNOWN_SCENES.items()
    ]
