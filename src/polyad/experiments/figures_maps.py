"""Figure 1 of the paper, scenes and ground truth, and where each model is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from polyad.experiments.figures import INK
from polyad.experiments.identity import base_name
from polyad.experiments.models import MODELS
from polyad.experiments.paper_names import scene_title
from polyad.experiments.records import MapStore
from polyad.experiments.results import Results
from polyad.experiments.scenes import SceneData, load_scene
from polyad.experiments.settings import RunSettings, cell_name
from polyad.scene.draw.color import class_picture, false_color
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.raster.classes import UNLABELED, rgb
from polyad.scene.read.scenes import open_known

Picture = NDArray[np.uint8]
RIGHT, WRONG, TRAINED, NONE = "#c8d6e5", "#b2182b", "#222222", "#ffffff"
TALL = 2.5  # a scene this many times as high as wide is shown lying on its side


def map_figures(
    results: Results, scenes: Sequence[str], maps: MapStore, samples: int
) -> dict[str, tuple[str, Figure]]:
    """Return Figure 1 and, for each scene, the errors of its models: name -> (title, figure)."""
    drawn: dict[str, tuple[str, Figure]] = {}
    if scenes:
        title = "Figure 1: scenes in false color, and their ground truth (white: unlabeled)"
        drawn["figure-1"] = (f"{title}.", scenes_figure(scenes))
    for scene in scenes:
        figure = errors_figure(results, scene, maps, samples)
        if figure is not None:
            drawn[f"errors-{scene}"] = (
                f"Where each model is wrong, {scene_title(scene)}. The first run, {samples} per "
                "class, no noise: pale is right, red is wrong, black trained, white is not tested.",
                figure,
            )
    return drawn


def scenes_figure(scenes: Sequence[str]) -> Figure:
    """Draw each scene in false color beside its ground truth and its classes, one row each."""
    figure = Figure(figsize=(10.5, 3.4 * len(scenes)), layout="constrained")
    grid = figure.subplots(len(scenes), 3, squeeze=False, width_ratios=(1, 1, 0.85))
    for (left, middle, right), name in zip(grid, scenes, strict=True):
        data = load_scene(name)
        image = false_color(_scene(name, data))
        truth = class_picture(data.labels, data.classes)
        truth[data.labels == UNLABELED] = 255
        note = ", turned by 90 degrees" if _is_tall(image) else ""
        _show(left, image, f"{scene_title(name)}{note}")
        _show(middle, truth, "ground truth")
        right.set_axis_off()
        patches = [Patch(color=c.color, label=c.name) for c in data.classes]
        right.legend(
            handles=patches, loc="center left", fontsize=7.5, frameon=False, ncols=1,
            labelspacing=0.25, borderaxespad=0,
        )  # fmt: skip
    return figure


def _scene(name: str, data: SceneData) -> xr.DataArray:
    """Return a scene with its wavelengths, if it has any: they say which bands are shown."""
    if base_name(name) in KNOWN_SCENES:
        return open_known(base_name(name))
    return xr.DataArray(data.cube, dims=("y", "x", "band"))


def errors_figure(results: Results, scene: str, maps: MapStore, samples: int) -> Figure | None:
    """Draw where the first run of each model is right and wrong; None if there is no map."""
    data = load_scene(scene)
    pictures = []
    for model, row in MODELS.items():
        class_map = maps.load(cell_name(scene, model, samples, "none"))
        runs = [r for r in results.runs(scene, model, samples) if r.settings.seed == 0]
        if class_map is None or not runs:
            continue
        accuracy = 100 * float(runs[0].final["oa"] or 0)
        picture = errors_picture(data, class_map, runs[0].settings)
        pictures.append((f"{row.title}: {accuracy:.1f} %", picture))
    if not pictures:
        return None
    tall = _is_tall(pictures[0][1])
    across = 2 if tall else min(4, len(pictures))
    down = -(-len(pictures) // across)
    figure = Figure(figsize=(11, (1.5 if tall else 2.95) * down + 0.4), layout="constrained")
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (title, picture) in zip(places, pictures, strict=False):
        _show(axes, picture, title)
    for axes in places[len(pictures) :]:
        axes.set_axis_off()
    names = ((RIGHT, "right"), (WRONG, "wrong"), (TRAINED, "trained"))
    handles = [Patch(color=color, label=name) for color, name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def errors_picture(
    data: SceneData, class_map: NDArray[np.uint16], settings: RunSettings
) -> Picture:
    """Return the test pixels in the colors of right and wrong, the training pixels in theirs."""
    split, labels = settings.split(data.labels), settings.labels(data.labels)
    picture = np.full((*labels.shape, 3), rgb(NONE), dtype=np.uint8)
    test = tuple(split.test.T)
    right = (class_map == labels)[test]
    picture[test] = np.where(right[:, None], rgb(RIGHT), rgb(WRONG))
    picture[tuple(split.train.T)] = rgb(TRAINED)
    return picture


def _is_tall(picture: Picture) -> bool:
    return picture.shape[0] > TALL * picture.shape[1]


def _show(axes: Axes, picture: Picture, title: str) -> None:
    axes.imshow(np.rot90(picture) if _is_tall(picture) else picture, interpolation="nearest")
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color("#cccccc")
