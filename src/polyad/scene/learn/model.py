"""`SceneModel`: a fitted classifier with what it must know to map a scene."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.codec import Fault
from polyad.errors import InputError, ModelFileError, PolyadWarning, SceneMismatch
from polyad.scene.learn.accuracy import CrossValidation, HeldOutScores, cross_validation
from polyad.scene.learn.model_file import check_network, check_scene_header, packed, unpacked
from polyad.scene.learn.outputs import ValueFit
from polyad.scene.learn.radiometry import (
    Radiometry,
    corrupt_pixels,
    radiometry_of,
    repairs_soundness,
    soundness_from_dict,
    soundness_to_dict,
)
from polyad.scene.learn.recipe import Choice, Recipe
from polyad.scene.raster.bands import (
    IN_FILE,
    LEFT_OUT,
    band_numbers,
    band_widths,
    left_out_note,
)
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.despiking import NoiseModel, check_real
from polyad.scene.raster.labels import NUMBERED_BY_NAME, Merging, plan_merge
from polyad.scene.raster.scene import Scene, as_labels, as_scene
from polyad.scene.raster.selection import SAME, match_bands, scene_in_bands, span, with_repairs
from polyad.scene.read.classes import Colors, with_colors

Array = npt.NDArray[Any]
NEAR = ", which lie next to each other: expect less elsewhere"
CACHE = ".cache"  # ending of the folder beside a model file


@dataclass(frozen=True)
class SceneModel:
    """A classifier of patches (or spectra), its window, its classes and its training scene.

    Attributes
    ----------
    estimator : classifier
        Predicts class ids from patches ``(n, window, window, bands)``, or from spectra
        ``(n, bands)`` when ``window`` is 1 and it was fitted on vectors.
    window : int
    classes : tuple of ClassInfo
    bands : int
    wavelength : tuple of float or None
        Band centers in nm of the scene it learned from.
    training : dict
        ``scene`` (fingerprint) and ``pixels`` (row, column of every training pixel), so that an
        evaluation on the same scene can leave them out; ``counts``, how many of these are of each
        class; ``replaced``, how many pixels of the scene are corrupt and read as their neighbors,
        unless only a part of a large one was read; ``seconds`` that
        training took in all; ``without_data``, how many labels lie where the scene has no data;
        ``numbered_by_name``, whether the labels had names and no ids; ``choice`` and
        ``accuracy``, see there. Older models lack some of these.
    fill : tuple of float or None
        Spectrum that stands for pixels without data inside a window: the mean of the training
        pixels, in training and in mapping alike. None is zero.
    recipe : Recipe or None
        The preset it was made by and the steps done to its maps; None for the network alone.
    fwhm : tuple of float or None
        Widths in nm of these bands, or how far apart they were in their file.
    left_out : dict
        Where bands of that scene were left out: ``kept``, the numbers in the file of those that
        were not, ``in_file``, how many there were, and ``note``, which were left out and why.
    statistics : SceneStatistics or None
        Of the scene it learned from, so that a map of that scene need not compute them again. They
        are kept in memory, not in the model file.
    merging : Merging or None
        How the estimator's classes are merged into ``classes``, see `merged`.
    radiometry : Radiometry or None
        The light of the scene it learned from: quantiles of every band at the training pixels and
        over the scene, and some spectra. Older models lack it.
    soundness : NoiseModel or None
        How rough the spectra of a scene are, by which corrupt pixels are found. None for few bands.
    adapted : str or None
        How the model was adapted to a scene's light, in words; see `polyad.scene.adapt_model`.
    untested : dict
        Labels by class that the score of ``choice`` knows nothing of: all labels of such a class
        were held out together. Kept in memory, not in the model file.
    held_out : HeldOutScores or None
        Of the labels that spatial folds held out, by which `polyad.scene.prediction_sets` are
        calibrated; None where there were no folds, and in older models.
    cache : Path or None
        Folder beside the model file where maps of the training scene keep what they share.
    values : ValueFit or None
        Of a model that predicts numbers: what they are, and how well. It has no classes, and its
        estimator is a `RankRRegressor`.
    """

    estimator: Any
    window: int
    classes: tuple[ClassInfo, ...]
    bands: int
    wavelength: tuple[float, ...] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    fill: tuple[float, ...] | None = None
    recipe: Recipe | None = None
    fwhm: tuple[float, ...] | None = None
    left_out: Mapping[str, Any] = field(default_factory=dict)
    # SceneStatistics or None, not imported: a model is described without torch
    statistics: Any = field(default=None, repr=False, compare=False)
    merging: Merging | None = None
    radiometry: Radiometry | None = field(default=None, repr=False, compare=False)
    soundness: NoiseModel | None = field(default=None, repr=False, compare=False)
    adapted: str | None = None
    untested: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    held_out: HeldOutScores | None = field(default=None, repr=False, compare=False)
    cache: Path | None = field(default=None, repr=False, compare=False)
    values: ValueFit | None = None

    def check_classes(self, remedy: str) -> None:
        """Raise `InputError` if the model predicts values and no classes."""
        if self.values is not None:
            raise InputError(f"the model predicts values, wanted one of classes; {remedy}")

    @property
    def value_fit(self) -> ValueFit:
        """Its ``values``; `InputError` of a model of classes."""
        if self.values is None:
            raise InputError(
                "the model predicts classes, wanted one of values; train one with "
                "--task regression (in Python, polyad.scene.train_values)"
            )
        return self.values

    def merged(self, merge: str | Sequence[str]) -> SceneModel:
        """Return a model whose maps have some classes merged; their probabilities are summed.

        Parameters
        ----------
        merge : str or sequence of str
            Rules such as ``corn+soy=crops``: classes by name or id, and the name of the new one.
        """
        self.check_classes("leave out --merge (merge)")
        merging = plan_merge(self.classes, merge)
        whole = merging if self.merging is None else self.merging.followed_by(merging)
        return replace(self, classes=merging.after, merging=whole)

    def colored(self, colors: Colors) -> SceneModel:
        """Return a model whose maps have other colors, from a file or a mapping.

        Parameters
        ----------
        colors : path-like or mapping
            See `polyad.scene.read_colors`; or from class, by name or id, to ``#rrggbb``.
        """
        self.check_classes("leave out --colors (colors)")
        return replace(self, classes=with_colors(self.classes, colors))

    @property
    def unmerged(self) -> SceneModel:
        """The model with the classes of its estimator."""
        if self.merging is None:
            return self
        return replace(self, classes=self.merging.before, merging=None)

    def view(self, scene: xr.DataArray) -> xr.DataArray:
        """Return ``scene`` with the bands this model was fitted on; nothing is read.

        Of what is returned, corrupt pixels are read as their neighbors. Bands are found by
        wavelength where model and scene tell it, whatever their number and order; see
        `polyad.scene.raster.selection`. Else by their number in the file.

        Raises
        ------
        SceneMismatch
            The scene does not have these bands.
        """
        scene = as_scene(scene)
        viewed = with_repairs(self._in_bands(scene), self.soundness)
        if "source" in scene.encoding:  # the file that no output may replace
            viewed.encoding.setdefault("source", scene.encoding["source"])
        return viewed

    def _in_bands(self, scene: xr.DataArray) -> xr.DataArray:
        """Return ``scene`` with the model's bands."""
        check_real(scene.dtype)
        centers = scene["wavelength"].values if "wavelength" in scene.coords else None
        if not (_told(self.wavelength) and _told(centers)):
            return self._by_number(scene, centers)
        wanted = np.asarray(self.wavelength)
        fwhm = None if self.fwhm is None else np.asarray(self.fwhm)
        widths = band_widths(wanted, fwhm)
        if scene.sizes["band"] == self.bands and (np.abs(wanted - centers) <= SAME * widths).all():
            return scene
        same = self._numbered(scene)  # bands of one center have different numbers
        if same is not None and (np.abs(wanted - same["wavelength"]) <= SAME * widths).all():
            return same
        match = match_bands(wanted, widths, np.asarray(centers, float))
        if match.interpolated:
            warnings.warn(
                f"{match.interpolated} of {self.bands} bands are interpolated to the model's "
                f"wavelengths, which are up to {match.shift:.1f} nm from the scene's",
                PolyadWarning,
                stacklevel=1,  # however it is reached, it is told once
            )
        return scene_in_bands(scene, match, wanted)

    def _by_number(self, scene: xr.DataArray, centers: Array | None) -> xr.DataArray:
        """Return the bands with the numbers that the model's bands had in their file."""
        same = self._numbered(scene)
        if same is not None:
            return same
        if scene.sizes["band"] != self.bands:
            raise SceneMismatch(
                f"model wants {self.bands} bands{span(self.wavelength)}, scene has "
                f"{scene.sizes['band']}{span(centers)}; give the scene the bands the model was "
                "trained on, as with gdal_translate -b, or train a model on this scene's bands"
            )
        return scene

    def _numbered(self, scene: xr.DataArray) -> xr.DataArray | None:
        """Return the bands by number if the file has as many as the model's had, else None."""
        numbers, in_file = self.left_out.get("kept"), self.left_out.get("in_file")
        if numbers is None or scene.attrs.get(IN_FILE, scene.sizes["band"]) != in_file:
            return None
        place = {int(n): k for k, n in enumerate(band_numbers(scene))}
        if not all(n in place for n in numbers):
            return None
        chosen = [place[n] for n in numbers]
        return scene if chosen == list(range(scene.sizes["band"])) else scene.isel(band=chosen)

    @property
    def label_counts(self) -> dict[str, int] | None:
        """Training pixels of each class by its name; None if the model does not say."""
        if "counts" not in self.training:
            return None
        counts = dict.fromkeys((c.name for c in self.classes), 0)
        trained = range(len(self.classes)) if self.merging is None else self.merging.positions
        owners = [self.classes[k] for k in trained]
        for info, count in zip(owners, self.training["counts"], strict=True):
            counts[info.name] += int(count)
        return counts

    @property
    def fit_seconds(self) -> float | None:
        """Seconds that training took in all; None if the model does not say."""
        return self.training.get("seconds")

    @property
    def choice(self) -> Choice | None:
        """What spatial folds of the labels chose; None if the model does not say."""
        stored = self.training.get("choice")
        return None if stored is None else Choice.from_dict(stored)

    @property
    def accuracy(self) -> CrossValidation | None:
        """Accuracy from its own labels, held out in turn; None if the model does not say."""
        stored = self.training.get("accuracy")
        return None if stored is None else CrossValidation.from_dict(stored)

    @property
    def score_line(self) -> str | None:
        """How well it does on its own labels, in words; None if the model does not say."""
        found = self.accuracy
        if found is None:
            return None if self.choice is None else self.choice.score_line
        return found.line + (NEAR if found.overlaps(self.window) else "")

    def with_accuracy(self, accuracy: CrossValidation) -> SceneModel:
        """Return the model with what `polyad.cross_validate` found, to be kept in its file."""
        return replace(self, training={**self.training, "accuracy": accuracy.to_dict()})

    @property
    def untested_line(self) -> str | None:
        """Which labels the folds could not test, in words; None where there are none."""
        if not self.untested:
            return None
        each = ", ".join(f"{name} {count:,}" for name, count in self.untested.items())
        count = sum(self.untested.values())
        labels = "1 label" if count == 1 else f"{count:,} labels"
        return f"{labels} ({each}), as none of their class was left to train on"

    def learned_from(self, scene: xr.DataArray) -> bool:
        """Whether ``scene`` is the one that the training pixels came from."""
        return self.training.get("scene") == fingerprint(self.view(scene))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one ``.polyad`` file."""
        if self.adapted is not None:
            raise InputError(
                "a model that was adapted to a scene's light is for mapping that scene; save it "
                "before it is adapted"
            )
        if self.merging is not None:
            raise InputError(
                "a model with merged classes is for mapping and cannot be kept in a file; save it "
                "before merging, or merge the labels that it is trained on"
            )
        training = dict(self.training)
        if "pixels" in training:
            training["pixels"] = packed(training["pixels"])
        about = {
            "window": self.window,
            "classes": [list(c) for c in self.classes],
            "bands": self.bands,
            "wavelength": None if self.wavelength is None else list(self.wavelength),
            "training": training,
            "fill": None if self.fill is None else list(self.fill),
            "recipe": None if self.recipe is None else self.recipe.to_dict(),
            "fwhm": None if self.fwhm is None else list(self.fwhm),
            "left_out": dict(self.left_out),
            "radiometry": None if self.radiometry is None else self.radiometry.to_dict(),
            "soundness": soundness_to_dict(self.soundness),
            "held_out": None if self.held_out is None else self.held_out.to_dict(),
        }
        if self.values is not None:
            about["values"] = self.values.to_dict()
        try:
            check_scene_header(about)
        except Fault as fault:
            raise InputError(f"the model cannot be kept in a file: {fault}") from fault
        from polyad.estimators.persistence import save  # here: a model is described without torch

        save(self.estimator, path, {"scene": about})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SceneModel:
        """Read a model back.

        Raises
        ------
        ModelFileError
            The file is missing, damaged or inconsistent.
        SceneMismatch
            The model in it was not trained on a scene.
        """
        from polyad.estimators.persistence import load_with_about

        estimator, about = load_with_about(path)
        return model_from_about(path, about, estimator)

    def training_pixels(self, shape: tuple[int, ...]) -> Array:
        """Return rows and columns ``(n, 2)`` of the training pixels in the scene they are of.

        A model file can name any pixel: one outside the scene, of ``shape``, is refused.
        """
        pixels = np.asarray(self.training.get("pixels", []), np.intp).reshape(-1, 2)
        if (pixels >= shape).any():
            raise ModelFileError(
                f"the model says it was trained on pixels up to {pixels.max(axis=0).tolist()}, the "
                f"scene has {shape[0]} x {shape[1]}; train it again"
            )
        return pixels


def model_from_about(
    path: str | os.PathLike[str], about: Mapping[str, Any], estimator: Any = None
) -> SceneModel:
    """Return the model that a file's header is ``about``.

    Without its estimator it can say what it was trained on, and maps nothing.
    """
    if "scene" not in about:
        raise SceneMismatch(
            f"{os.fspath(path)} was not trained on a scene; make one with polyad train"
        )
    try:
        scene = about["scene"]
        check_scene_header(scene)
        if estimator is not None:
            check_network(scene, estimator)
        light = scene.get("radiometry")
        radiometry = None if light is None else Radiometry.from_dict(light, scene["bands"])
    except Fault as fault:
        raise ModelFileError(
            f"{os.fspath(path)} does not describe its scene as polyad does: {fault}; train it again"
        ) from fault
    recipe = None if scene.get("recipe") is None else Recipe.from_dict(scene["recipe"])
    wavelength, fill, fwhm = (
        None if scene.get(k) is None else tuple(map(float, scene[k]))
        for k in ("wavelength", "fill", "fwhm")
    )
    classes = tuple(ClassInfo(*row) for row in scene["classes"])
    training = dict(scene["training"])
    if "pixels" in training:
        training["pixels"] = unpacked(training["pixels"]).tolist()
    scores = scene.get("held_out")
    window, bands, left_out = scene["window"], scene["bands"], scene.get("left_out", {})
    fitted_on = (bands, wavelength, training, fill, recipe, fwhm, left_out)
    return SceneModel(
        estimator,
        window,
        classes,
        *fitted_on,
        radiometry=radiometry,
        soundness=soundness_from_dict(scene.get("soundness")),
        held_out=None if scores is None else HeldOutScores.from_dict(scores),
        cache=cache_folder(path),
        values=None if "values" not in scene else ValueFit.from_dict(scene["values"]),
    )


def cache_folder(model: str | os.PathLike[str]) -> Path:
    """Return where the cache of a model file lies.

    Examples
    --------
    >>> cache_folder("maps/model.polyad").name
    'model.polyad.cache'
    """
    path = Path(model)
    return path.with_name(path.name + CACHE)


def _told(centers: Any) -> bool:
    """Whether the center of every band is known; headers also have zeros for unknown."""
    known = np.asarray(() if centers is None else centers, float)
    return len(known) > 0 and bool(np.isfinite(known).all() and (known > 0).all())


def trained_model(
    scene: xr.DataArray,
    labels: xr.DataArray,
    estimator: Any,
    window: int,
    pixels: Array,
    choice: Choice | None = None,
    **more: Any,
) -> SceneModel:
    """Return the model of an estimator that was fitted on ``pixels``, ``(n, 2)``, of a scene.

    ``more`` are further attributes of `SceneModel`.
    """
    scene, labels = as_scene(scene), as_labels(labels)
    known = {c.value: c for c in class_table(labels)}
    y = labels.values[tuple(np.asarray(pixels, np.intp).reshape(-1, 2).T)]
    classes = tuple(known[int(v)] for v in estimator.classes_)
    learned: dict[str, Any] = {}
    if choice is not None:
        if choice.held_out is not None:
            names = [info.name for info in classes]
            found = cross_validation(choice.held_out, names, method="choice")
            learned["accuracy"] = found.to_dict()
            if choice.held_out.split:  # the folds were good to choose by, and for nothing else
                choice = replace(choice, overall=None, average=None, interval=None)
        learned["choice"] = choice.to_dict()
    training = {
        "counts": [int((y == v).sum()) for v in estimator.classes_],
        "numbered_by_name": bool(labels.attrs.get(NUMBERED_BY_NAME, False)),
        **learned,
    }
    untested = {} if choice is None else {classes[k].name: n for k, n in choice.untested}
    facts = scene_facts(scene, pixels, training)
    return SceneModel(estimator, window, classes, **facts, untested=untested, **more)


def scene_facts(scene: xr.DataArray, pixels: Array, training: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a `SceneModel` keeps of the scene and of the pixels that it was trained on."""
    width = "width" if "width" in scene.coords else "fwhm"
    wavelength, fwhm = (
        tuple(float(v) if np.isfinite(v) else np.nan for v in scene[k].values)
        if k in scene.coords
        else None
        for k in ("wavelength", width)
    )
    left_out: dict[str, Any] = {}
    if LEFT_OUT in scene.attrs:
        left_out = {"kept": band_numbers(scene).tolist(), "in_file": int(scene.attrs[IN_FILE])}
        left_out["note"] = left_out_note(scene)
    learned = {"scene": fingerprint(scene), "pixels": pixels.tolist(), **training}
    replaced = corrupt_pixels(scene)
    if replaced is not None:
        learned["replaced"] = replaced
    return {
        "bands": scene.sizes["band"],
        "wavelength": wavelength,
        "training": learned,
        "fwhm": fwhm,
        "left_out": left_out,
        "radiometry": radiometry_of(scene, pixels),
        "soundness": repairs_soundness(scene),
    }


def fingerprint(scene: xr.DataArray) -> str:
    """Return a digest of a scene's size and of a few of its pixels and bands, all over it."""
    return Scene.of(scene).fingerprint


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
