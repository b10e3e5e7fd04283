"""What a model is and how it was made, in words for a page and as plain values."""

from __future__ import annotations

from typing import Any

import xarray as xr

from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.recipe import Recipe


def model_facts(model: SceneModel, scene: xr.DataArray | None = None) -> dict[str, str]:
    """Return name and value of what a reader asks first; ``scene`` is the one that is mapped."""
    facts = {"Window": f"{model.window} x {model.window} pixels"}
    if model.recipe is not None:
        facts["Preset"] = f"{model.recipe.preset}, goal {model.recipe.goal}"
    network = getattr(model.estimator, "network_", None)
    if network is not None and hasattr(network, "n_weights"):
        facts["Network"] = (
            f"rank {network.hidden.rank}, {network.hidden.out_features} hidden units, "
            f"{network.n_weights:,} weights"
        )
    # The network of a preset is merged from several: its epochs say nothing
    epochs = None if _merged(model) else getattr(model.estimator, "n_iter_", None)
    if epochs is not None:
        facts["Training"] = f"{epochs} epochs"
    if model.recipe is not None:
        facts["Steps"] = _steps(model, model.recipe, scene)
    if model.score_line is not None:
        facts["By its own labels"] = model.score_line
    if model.untested_line is not None:
        facts["Not tested by these"] = model.untested_line
    if "note" in model.left_out:
        facts["Bands left out"] = str(model.left_out["note"])
    if model.training.get("replaced"):
        told = f"{model.training['replaced']:,}, replaced by their neighbors"
        facts["Corrupt pixels of the training scene"] = told
    if model.adapted is not None:
        facts["Light"] = model.adapted
    return facts


def model_content(model: SceneModel, scene: xr.DataArray | None = None) -> dict[str, Any]:
    """Return the same, and all settings, as plain values."""
    recipe, choice = model.recipe, model.choice
    network = getattr(model.estimator, "network_", None)
    return {
        "preset": None if recipe is None else recipe.preset,
        "goal": None if recipe is None else recipe.goal,
        "steps": None if recipe is None else _steps(model, recipe, scene),
        "window": model.window,
        "bands": model.bands,
        "bands_left_out": model.left_out.get("note"),
        "kind": type(model.estimator).__name__,
        "rank": getattr(model.estimator, "rank", None),
        "hidden": None if network is None else network.hidden.out_features,
        "weights": getattr(network, "n_weights", None),
        "settings": None if _merged(model) else _settings(model.estimator),
        "choice": None if choice is None else choice.to_dict(),
        "not_tested": dict(model.untested),
        "cross_validation": None if model.accuracy is None else model.accuracy.to_dict(),
        "fit_seconds": model.fit_seconds,
        "labels": model.label_counts,
        "labels_without_data": model.training.get("without_data"),
        "pixels_replaced": model.training.get("replaced"),
        "adapted": model.adapted,
    }


def _steps(model: SceneModel, recipe: Recipe, scene: xr.DataArray | None) -> str:
    """Return the steps in words, and what is left out of them on a scene that is another one."""
    propagates = any(step["step"] == "propagate" for step in recipe.steps)
    if scene is None or not propagates or model.learned_from(scene):
        return recipe.line
    return f"{recipe.line}; on this scene, which it was not trained on, the network alone"


def _merged(model: SceneModel) -> bool:
    """Whether the network is merged from several, whose settings are those of the steps."""
    return model.recipe is not None and model.recipe.preset != "paper"


def _settings(estimator: Any) -> dict[str, Any]:
    """Return the parameters that are plain values."""
    kinds = (bool, int, float, str, type(None))
    given = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {name: value for name, value in given.items() if isinstance(value, kinds)}
