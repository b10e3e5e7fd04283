"""From a model and a scene to a class map, tile by tile."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.map.export import export_file, export_onnx
    from polyad.scene.map.mapping import map_file, map_scene, map_values, prediction_sets
    from polyad.scene.map.refining import keep_shares

__all__ = [
    "export_file",
    "export_onnx",
    "keep_shares",
    "map_file",
    "map_scene",
    "map_values",
    "prediction_sets",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        export="export_file export_onnx",
        mapping="map_file map_scene map_values prediction_sets",
        refining="keep_shares",
    )
