"""Paths, known scenes and earlier outputs: what can be said before any library is imported."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.files.known import KNOWN_SCENES, KnownScene, list_known

__all__ = [
    "KNOWN_SCENES",
    "KnownScene",
    "list_known",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        known="KNOWN_SCENES KnownScene list_known",
    )
