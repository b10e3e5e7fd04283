"""Models that no training made."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from polyad.scene.learn.experts import TrainSettings
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import TrainingBands
from polyad.scene.learn.outputs import Classes
from polyad.scene.learn.recipe import PropagationSettings
from polyad.scene.learn.training import fit_preset
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.raster.windows import plan_tiles


def bare_model(estimator, window, classes, bands, **more):
    """Return a model of classes that knows of its scene how many bands it has."""
    return SceneModel(estimator, window, Classes.of(classes), TrainingBands(count=bands), **more)


def with_steps(model, *steps):
    """Return the model with other steps and without statistics, as from a file."""
    recipe = model.recipe.model_copy(update={"steps": steps})
    return replace(model, recipe=recipe, statistics=None)


def for_pixels(model, count):
    """Return the model with the settings of propagation that a scene of so many pixels gets."""
    (step,) = model.recipe.steps
    settings = PropagationSettings.for_pixels(count)
    return with_steps(model, step.model_copy(update={"settings": settings}))


def train_best(scene, labels, pixels, *, statistics=None, choice=None, **options):
    """Fit the best preset on the given pixels."""
    settings = TrainSettings.of(preset="best", **options)
    return fit_preset(scene, labels, pixels, settings, statistics=statistics, choice=choice)


def tile_plan(height=2, width=3, depth=0):
    """Return as much of the plan of a map in two tiles as a store of tiles takes."""
    tiles, model = plan_tiles((2 * height, width), (height, width)), SimpleNamespace()
    model.classes = [ClassInfo(1, "a", "#000000")]
    return SimpleNamespace(path=Path("map.tif"), tiles=tiles, depth=depth, model=model)
