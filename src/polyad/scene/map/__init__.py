"""From a model and a scene to a class map, tile by tile."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.map.mapping import map_file, map_scene
    from polyad.scene.map.refining import keep_shares

__all__ = [
    "keep_shares",
    "map_file",
    "map_scene",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        mapping="map_file map_scene",
        refining="keep_shares",
    )
