"""The report of a training of values: what was measured where, and how well it is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import to_hex

from polyad.scene.assess.documents import Document, Reports, check_reports, write_document
from polyad.scene.assess.model_facts import model_content, model_facts
from polyad.scene.assess.pages import PageImage, page_image, render
from polyad.scene.assess.provenance import RunRecord, record_run
from polyad.scene.assess.report import scene_size, thinned
from polyad.scene.draw.color import false_color
from polyad.scene.draw.marks import overlay_points
from polyad.scene.draw.values import COLORS
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.targets import Target, as_values

Array = npt.NDArray[Any]
PARTS = 5  # of the range of a target, each with a color


def write_value_training_report(
    path: Reports,
    model: SceneModel,
    scene: xr.DataArray,
    values: xr.DataArray,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write a report about a model of values and what it was trained on.

    Parameters
    ----------
    path : path-like or sequence of path-like
        A name ending in ``.json`` gets the content as JSON, any other the page.
    model : SceneModel
        Just trained, by `polyad.scene.train_values`.
    scene, values : DataArray
        What it was trained on.
    title : str
        Name of the scene.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files, instead of ``command`` alone.
    facts : mapping of str to str, optional
        Shown behind those known of every model, such as the seed.
    """
    check_reports(path)
    record = record_run(command) if record is None else record
    told = {"title": title, "record": record.to_dict()}
    write_document(path, _document(model, scene, as_values(values), told, facts or {}))


def _document(
    model: SceneModel,
    scene: xr.DataArray,
    values: xr.DataArray,
    told: Mapping[str, Any],
    facts: Mapping[str, str],
) -> Document:
    fit, scene = model.value_fit, model.view(as_scene(scene))
    shape = (scene.sizes["y"], scene.sizes["x"])
    pixels = model.training_pixels(shape)
    measured = values.transpose("y", "x", "target").values[tuple(pixels.T)]  # (n, targets)
    shares = [_parts(column) for column in measured.T]  # of each target
    content: dict[str, Any] = {
        "title": told["title"],
        "summary": _summary(model, len(pixels)),
        "scores": [score.to_dict() for score in fit.scores],
        "targets": [
            {"name": target.title, "parts": rows}
            for target, (rows, _) in zip(fit.targets, shares, strict=True)
        ],
        "points": {"pixels": pixels, "measured": measured},
        "facts": {"Scene": scene_size(scene), **model_facts(model), **facts},
        "model": model_content(model),
        "record": told["record"],
    }

    def page() -> str:
        picture = false_color(thinned(scene.transpose("y", "x", "band")))
        names = ", ".join(target.name for target in fit.targets)
        return render(
            "value_training_report.html",
            heading=f"{told['title']}: {names}, trained on {len(pixels):,} pixels",
            rows=[
                {"name": s.target.title, "n": s.n, "groups": s.groups, "measures": s.parts()}
                for s in fit.scores
            ],
            pictures=[
                _with_points(picture, target, pixels, part, shape)
                for target, (_, part) in zip(fit.targets, shares, strict=True)
            ],
            **{key: content[key] for key in ("summary", "targets", "facts", "record")},
        )

    return Document("training of values", content, page)


def _parts(numbers: Array) -> tuple[list[dict[str, Any]], Array]:
    """Return the range of a target cut into equal parts, and the part of each number, from 0."""
    low, high = float(numbers.min()), float(numbers.max())
    edges = np.linspace(low, high, PARTS + 1)
    part = np.clip(np.searchsorted(edges, numbers, "right") - 1, 0, PARTS - 1)
    counts = np.bincount(part, minlength=PARTS)
    rows = [
        {
            "range": f"{edges[k]:.3g} to {edges[k + 1]:.3g}",
            "color": _color(k),
            "values": int(counts[k]),
            "of_most": counts[k] / counts.max(),
        }
        for k in range(PARTS)
    ]
    return rows, part


def _color(part: int) -> str:
    return to_hex(colormaps[COLORS](part / (PARTS - 1)))


def _with_points(
    picture: Array, target: Target, pixels: Array, part: Array, shape: tuple[int, int]
) -> PageImage:
    colors = {k: _color(k) for k in range(PARTS)}
    points = overlay_points(pixels, part, colors, shape)
    return page_image(picture, f"Where {target.name} was measured", points=points)


def _summary(model: SceneModel, n: int) -> str:
    recipe = model.recipe
    made = "" if recipe is None else f": preset {recipe.preset}, goal {recipe.goal}"
    return (
        f"Learned from {n:,} pixels with values{made}. The scores below are those of values "
        "which were held out in turn; pixels far from any of them may do worse."
    )
