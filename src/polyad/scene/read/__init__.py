"""Scenes and labels from files, and from the names of known scenes."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.read.classes import read_colors
    from polyad.scene.read.labels import open_labels
    from polyad.scene.read.masks import open_mask, restrict_scene
    from polyad.scene.read.samples import SamplePoints, open_points, open_strata
    from polyad.scene.read.scenes import (
        fetch,
        open_known,
        open_known_labels,
        open_scene,
        scene_from_array,
    )
    from polyad.scene.read.targets import open_values

__all__ = [
    "SamplePoints",
    "fetch",
    "open_known",
    "open_known_labels",
    "open_labels",
    "open_mask",
    "open_points",
    "open_scene",
    "open_strata",
    "open_values",
    "read_colors",
    "restrict_scene",
    "scene_from_array",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        targets="open_values",
        labels="open_labels",
        classes="read_colors",
        masks="open_mask restrict_scene",
        samples="SamplePoints open_points open_strata",
        scenes="fetch open_known open_known_labels open_scene scene_from_array",
    )
