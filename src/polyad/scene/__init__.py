"""Hyperspectral scenes: read, learn from, mapped, written and assessed.

A scene is an ``xarray.DataArray`` with dims ``(y, x, band)``; labels and maps have dims ``(y, x)``.
The rooms, each of which imports only those before it: ``files``, ``raster``, ``draw``, ``read``,
``write``, ``learn``, ``map``, ``assess``. What is listed here is public; the rest may change.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.assess import (
        AreaEstimates,
        Examination,
        RunRecord,
        Sample,
        Scores,
        draw_sample,
        estimate_areas,
        evaluate,
        examine,
        held_out,
        parse_by_stratum,
        record_run,
        score,
        write_area_report,
        write_report,
    )
    from polyad.scene.draw import (
        area_figure,
        class_picture,
        color_bands,
        comparison,
        confusion_figure,
        false_color,
        map_figure,
        reliability_figure,
        spectra_figure,
        to_png,
    )
    from polyad.scene.files import KNOWN_SCENES, KnownScene, list_known
    from polyad.scene.info import describe
    from polyad.scene.learn import (
        PROTOCOLS,
        Blocks,
        NoOverlap,
        OtherFields,
        RandomPerClass,
        SceneModel,
        Split,
        adapt_model,
        band_offset,
        blocks,
        fraction,
        from_labels,
        no_overlap,
        per_class,
        pixel_noise,
        replaced_pixels,
        train,
        train_on,
    )
    from polyad.scene.map import export_file, export_onnx, keep_shares, map_file, map_scene
    from polyad.scene.raster import (
        ClassInfo,
        Grid,
        as_labels,
        as_scene,
        class_table,
        extract_patches,
        grid_of,
        interior,
        iter_patches,
        mask_scene,
        merge_labels,
        palette,
        select_bands,
        usable_bands,
        valid_mask,
        valid_pixels,
        with_classes,
    )
    from polyad.scene.read import (
        SamplePoints,
        fetch,
        open_known,
        open_known_labels,
        open_labels,
        open_mask,
        open_points,
        open_scene,
        open_strata,
        read_colors,
        restrict_scene,
        scene_from_array,
    )
    from polyad.scene.write import (
        MapWriter,
        write_areas,
        write_map,
        write_points,
        write_probabilities,
        write_scores,
    )

__all__ = [
    "KNOWN_SCENES",
    "PROTOCOLS",
    "AreaEstimates",
    "Blocks",
    "ClassInfo",
    "Examination",
    "Grid",
    "KnownScene",
    "MapWriter",
    "NoOverlap",
    "OtherFields",
    "RandomPerClass",
    "RunRecord",
    "Sample",
    "SamplePoints",
    "SceneModel",
    "Scores",
    "Split",
    "adapt_model",
    "area_figure",
    "as_labels",
    "as_scene",
    "band_offset",
    "blocks",
    "class_picture",
    "class_table",
    "color_bands",
    "comparison",
    "confusion_figure",
    "describe",
    "draw_sample",
    "estimate_areas",
    "evaluate",
    "examine",
    "export_file",
    "export_onnx",
    "extract_patches",
    "false_color",
    "fetch",
    "fraction",
    "from_labels",
    "grid_of",
    "held_out",
    "interior",
    "iter_patches",
    "keep_shares",
    "list_known",
    "map_figure",
    "map_file",
    "map_scene",
    "mask_scene",
    "merge_labels",
    "no_overlap",
    "open_known",
    "open_known_labels",
    "open_labels",
    "open_mask",
    "open_points",
    "open_scene",
    "open_strata",
    "palette",
    "parse_by_stratum",
    "per_class",
    "pixel_noise",
    "read_colors",
    "record_run",
    "reliability_figure",
    "replaced_pixels",
    "restrict_scene",
    "scene_from_array",
    "score",
    "select_bands",
    "spectra_figure",
    "to_png",
    "train",
    "train_on",
    "usable_bands",
    "valid_mask",
    "valid_pixels",
    "with_classes",
    "write_area_report",
    "write_areas",
    "write_map",
    "write_points",
    "write_probabilities",
    "write_report",
    "write_scores",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        files="KNOWN_SCENES KnownScene list_known",
        raster=(
            "ClassInfo class_table palette with_classes as_labels as_scene Grid grid_of "
            "merge_labels extract_patches interior iter_patches mask_scene select_bands "
            "usable_bands valid_mask valid_pixels"
        ),
        draw=(
            "class_picture color_bands false_color comparison confusion_figure map_figure "
            "reliability_figure spectra_figure to_png area_figure"
        ),
        read=(
            "open_scene scene_from_array open_labels open_mask restrict_scene fetch open_known "
            "open_known_labels read_colors SamplePoints open_points open_strata"
        ),
        write="MapWriter write_areas write_map write_points write_probabilities write_scores",
        learn=(
            "SceneModel band_offset pixel_noise PROTOCOLS Blocks NoOverlap OtherFields "
            "RandomPerClass Split blocks fraction from_labels no_overlap per_class train "
            "train_on adapt_model replaced_pixels"
        ),
        map="export_file export_onnx keep_shares map_file map_scene",
        assess=(
            "Examination evaluate examine held_out write_report Scores score AreaEstimates "
            "estimate_areas write_area_report Sample draw_sample parse_by_stratum "
            "RunRecord record_run"
        ),
        info="describe",
    )
