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
        ValueExamination,
        cross_validate,
        draw_sample,
        estimate_areas,
        evaluate,
        examine,
        examine_values,
        held_out,
        parse_by_stratum,
        record_run,
        score,
        write_area_report,
        write_report,
        write_training_report,
        write_value_report,
        write_value_training_report,
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
        scatter_figure,
        spectra_figure,
        to_png,
        value_figure,
    )
    from polyad.scene.files import KNOWN_SCENES, KnownScene, list_known
    from polyad.scene.info import describe
    from polyad.scene.learn import (
        PROTOCOLS,
        Blocks,
        ClassAccuracy,
        CrossValidation,
        FixedSplit,
        HeldOutAccuracy,
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
        morphological_profiles,
        no_overlap,
        per_class,
        pixel_noise,
        replaced_pixels,
        train,
        train_on,
        train_values,
    )
    from polyad.scene.map import (
        export_file,
        export_onnx,
        keep_shares,
        map_file,
        map_scene,
        map_values,
        prediction_sets,
    )
    from polyad.scene.raster import (
        ClassInfo,
        Grid,
        Target,
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
        with_groups,
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
        open_values,
        read_colors,
        restrict_scene,
        scene_from_array,
    )
    from polyad.scene.write import (
        MapWriter,
        ValueWriter,
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
    "ClassAccuracy",
    "ClassInfo",
    "CrossValidation",
    "Examination",
    "FixedSplit",
    "Grid",
    "HeldOutAccuracy",
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
    "Target",
    "ValueExamination",
    "ValueWriter",
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
    "cross_validate",
    "describe",
    "draw_sample",
    "estimate_areas",
    "evaluate",
    "examine",
    "examine_values",
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
    "map_values",
    "mask_scene",
    "merge_labels",
    "morphological_profiles",
    "no_overlap",
    "open_known",
    "open_known_labels",
    "open_labels",
    "open_mask",
    "open_points",
    "open_scene",
    "open_strata",
    "open_values",
    "palette",
    "parse_by_stratum",
    "per_class",
    "pixel_noise",
    "prediction_sets",
    "read_colors",
    "record_run",
    "reliability_figure",
    "replaced_pixels",
    "restrict_scene",
    "scatter_figure",
    "scene_from_array",
    "score",
    "select_bands",
    "spectra_figure",
    "to_png",
    "train",
    "train_on",
    "train_values",
    "usable_bands",
    "valid_mask",
    "valid_pixels",
    "value_figure",
    "with_classes",
    "with_groups",
    "write_area_report",
    "write_areas",
    "write_map",
    "write_points",
    "write_probabilities",
    "write_report",
    "write_scores",
    "write_training_report",
    "write_value_report",
    "write_value_training_report",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        files="KNOWN_SCENES KnownScene list_known",
        raster=(
            "Target ClassInfo class_table palette with_classes as_labels as_scene Grid grid_of "
            "merge_labels extract_patches interior iter_patches mask_scene select_bands "
            "usable_bands valid_mask valid_pixels with_groups"
        ),
        draw=(
            "class_picture color_bands false_color comparison confusion_figure map_figure "
            "reliability_figure spectra_figure to_png area_figure scatter_figure value_figure"
        ),
        read=(
            "open_scene scene_from_array open_labels open_mask restrict_scene fetch open_known "
            "open_known_labels read_colors SamplePoints open_points open_strata "
            "open_values"
        ),
        write=(
            "MapWriter ValueWriter write_areas write_map write_points write_probabilities "
            "write_scores"
        ),
        learn=(
            "SceneModel band_offset pixel_noise PROTOCOLS Blocks FixedSplit NoOverlap OtherFields "
            "RandomPerClass Split blocks fraction from_labels morphological_profiles no_overlap "
            "per_class train train_on train_values adapt_model replaced_pixels ClassAccuracy "
            "CrossValidation HeldOutAccuracy"
        ),
        map="export_file export_onnx keep_shares map_file map_scene map_values prediction_sets",
        assess=(
            "cross_validate Examination evaluate examine held_out write_report Scores score "
            "AreaEstimates estimate_areas write_area_report Sample draw_sample parse_by_stratum "
            "RunRecord record_run ValueExamination examine_values write_value_report "
            "write_training_report write_value_training_report"
        ),
        info="describe",
    )
