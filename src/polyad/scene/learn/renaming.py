"""A model whose classes have other names and colors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo


def renamed(model: SceneModel, classes: Sequence[ClassInfo]) -> SceneModel:
    """Return the model with other names and colors of its classes, also in its accuracy.

    Parameters
    ----------
    model : SceneModel
    classes : sequence of ClassInfo
        As many as the model has, in its order.
    """
    new = {old.name: own.name for old, own in zip(model.classes, classes, strict=True)}
    training = dict(model.training)
    if "accuracy" in training:
        training["accuracy"] = _accuracy(training["accuracy"], new)
    return replace(model, classes=tuple(classes), training=training)


def _accuracy(stored: Mapping[str, Any], new: Mapping[str, str]) -> dict[str, Any]:
    """Return an accuracy as a file holds it, with other names of classes."""

    def rows(old: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "name": new.get(row["name"], row["name"])} for row in old]

    ways = {
        way: None
        if stored[way] is None
        else {**stored[way], "classes": rows(stored[way]["classes"])}
        for way in ("spatial", "pixelwise")
    }
    return {**stored, **ways, "needed": rows(stored["needed"])}
