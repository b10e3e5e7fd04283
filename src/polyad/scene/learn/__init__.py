"""From labeled pixels to a model: samples, protocols, presets, the model and its file."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.learn.accuracy import ClassAccuracy, CrossValidation, HeldOutAccuracy
    from polyad.scene.learn.adaptation import adapt_model
    from polyad.scene.learn.model import SceneModel
    from polyad.scene.learn.noise import band_offset, pixel_noise
    from polyad.scene.learn.profiles import morphological_profiles
    from polyad.scene.learn.radiometry import replaced_pixels
    from polyad.scene.learn.sampling import (
        PROTOCOLS,
        Blocks,
        FixedSplit,
        NoOverlap,
        OtherFields,
        RandomPerClass,
        Split,
        blocks,
        fraction,
        from_labels,
        no_overlap,
        per_class,
    )
    from polyad.scene.learn.training import train, train_on
    from polyad.scene.learn.values import train_values

__all__ = [
    "PROTOCOLS",
    "Blocks",
    "ClassAccuracy",
    "CrossValidation",
    "FixedSplit",
    "HeldOutAccuracy",
    "NoOverlap",
    "OtherFields",
    "RandomPerClass",
    "SceneModel",
    "Split",
    "adapt_model",
    "band_offset",
    "blocks",
    "fraction",
    "from_labels",
    "morphological_profiles",
    "no_overlap",
    "per_class",
    "pixel_noise",
    "replaced_pixels",
    "train",
    "train_on",
    "train_values",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        accuracy="ClassAccuracy CrossValidation HeldOutAccuracy",
        adaptation="adapt_model",
        model="SceneModel",
        noise="band_offset pixel_noise",
        profiles="morphological_profiles",
        radiometry="replaced_pixels",
        sampling=(
            "PROTOCOLS Blocks FixedSplit NoOverlap OtherFields RandomPerClass Split blocks "
            "fraction from_labels no_overlap per_class"
        ),
        training="train train_on",
        values="train_values",
    )
