"""From labeled pixels to a model: samples, protocols, presets, the model and its file."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.learn.model import SceneModel
    from polyad.scene.learn.noise import band_offset, pixel_noise
    from polyad.scene.learn.protocols import (
        PROTOCOLS,
        Blocks,
        NoOverlap,
        OtherFields,
        RandomPerClass,
    )
    from polyad.scene.learn.sampling import (
        Split,
        blocks,
        fraction,
        from_labels,
        no_overlap,
        per_class,
    )
    from polyad.scene.learn.training import train, train_on

__all__ = [
    "PROTOCOLS",
    "Blocks",
    "NoOverlap",
    "OtherFields",
    "RandomPerClass",
    "SceneModel",
    "Split",
    "band_offset",
    "blocks",
    "fraction",
    "from_labels",
    "no_overlap",
    "per_class",
    "pixel_noise",
    "train",
    "train_on",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        model="SceneModel",
        noise="band_offset pixel_noise",
        protocols="PROTOCOLS Blocks NoOverlap OtherFields RandomPerClass",
        sampling="Split blocks fraction from_labels no_overlap per_class",
        training="train train_on",
    )
