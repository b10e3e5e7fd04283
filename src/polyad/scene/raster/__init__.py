"""What a scene is: dims, grid, classes, valid pixels, tiles and patches."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.raster.band_choice import select_bands, usable_bands
    from polyad.scene.raster.classes import ClassInfo, class_table, palette, with_classes
    from polyad.scene.raster.despiking import valid_pixels
    from polyad.scene.raster.georeference import grid_of
    from polyad.scene.raster.grid import Grid
    from polyad.scene.raster.groups import with_groups
    from polyad.scene.raster.legend import merge_labels
    from polyad.scene.raster.mask import mask_scene, valid_mask
    from polyad.scene.raster.patches import extract_patches, interior, iter_patches
    from polyad.scene.raster.scene import as_labels, as_scene
    from polyad.scene.raster.targets import Target

__all__ = [
    "ClassInfo",
    "Grid",
    "Target",
    "as_labels",
    "as_scene",
    "class_table",
    "extract_patches",
    "grid_of",
    "interior",
    "iter_patches",
    "mask_scene",
    "merge_labels",
    "palette",
    "select_bands",
    "usable_bands",
    "valid_mask",
    "valid_pixels",
    "with_classes",
    "with_groups",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        targets="Target",
        band_choice="select_bands usable_bands",
        classes="ClassInfo class_table palette with_classes",
        scene="as_labels as_scene",
        georeference="grid_of",
        grid="Grid",
        groups="with_groups",
        mask="mask_scene valid_mask",
        legend="merge_labels",
        patches="extract_patches interior iter_patches",
        despiking="valid_pixels",
    )
