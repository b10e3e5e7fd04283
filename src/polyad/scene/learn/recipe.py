"""What a model was made by: preset, goal, chosen experts and the steps after its network.

All of it is read and described without torch; `polyad.scene.learn.steps` does the work of steps.
Ranges keep the work for each pixel within some thirty times that of the settings polyad chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from polyad.codec import Fixed, Record, Row, Text, row_of, shown
from polyad.estimators.file_format import OUTPUTS, SPECTRUM
from polyad.scene.files.option_values import MAX_WINDOW, SINGLE
from polyad.scene.learn.accuracy import Share

VIEWS = ("plain", "whitened")
LEAST_DECAY = 0.1
EXACT_PIXELS = 10_000  # of a scene whose every pixel is a node; a larger one has superpixels

Single = Annotated[float, Field(ge=-SINGLE, le=SINGLE)]
Spectrum = Annotated[Row[Single], Field(max_length=SPECTRUM)]
Positive = Annotated[float, Field(ge=1e-3, le=1e6)]
Weight = Annotated[float, Field(ge=0, le=1e6)]


class Expert(NamedTuple):
    """One view of the spectra, one window and how strongly weights are held down.

    Attributes
    ----------
    view : {"plain", "whitened"}
        Principal components of standardized bands, or components in units of the noise.
    window : int
    strength : float
        Of the prior on the weights; the decay is ``strength / n`` within bounds.
    """

    view: str
    window: int
    strength: float

    def decay(self, n: int) -> float:
        """Return the weight decay for ``n`` labels.

        At most 10 for single pixels, 3 for windows of 3 x 3 and 1 for wider ones: more would undo
        what their factors, whose product it is that counts, learn from a step.
        """
        most = {1: 10.0, 3: 3.0}.get(self.window, 1.0)
        return float(np.clip(self.strength / n, LEAST_DECAY, most))

    def __str__(self) -> str:
        where = "single pixels" if self.window == 1 else f"{self.window} x {self.window} windows"
        return f"{self.view} spectra, {where}"


PRIOR = Expert("whitened", 5, 15)  # where there is nothing to choose by
EXPERTS = (
    Expert("plain", 1, 600),
    Expert("plain", 3, 300),
    Expert("plain", 5, 100),
    Expert("whitened", 1, 600),
    PRIOR,
)


def experts_for(window: int | None, views: Sequence[str] = VIEWS) -> list[Expert]:
    """Return the experts to choose from; a window that was asked for is kept to.

    Examples
    --------
    >>> [str(expert) for expert in experts_for(7, ["plain"])]
    ['plain spectra, 7 x 7 windows']
    """
    known = [expert for expert in EXPERTS if expert.view in views]
    if window is None:
        return known
    nearest = {e.view: e for e in sorted(known, key=lambda e: -abs(e.window - window))}
    return [Expert(view, window, e.strength) for view, e in nearest.items()]


Window = Annotated[int, Field(ge=1, le=MAX_WINDOW)]
Strength = Annotated[float, Field(ge=0, le=1e9)]
ExpertRow = Annotated[Expert, row_of(Expert, Literal["plain", "whitened"], Window, Strength)]


class Choice(Record):
    """Experts and what each of them counts, as spatial folds chose them.

    Attributes
    ----------
    experts : tuple of Expert
    weights : tuple of float
        Of the experts' outputs; they add up to one.
    overall : float or None
        Accuracy on the labels that were held out; None where nothing could be held out.
    """

    experts: Annotated[Row[ExpertRow], Field(min_length=1, max_length=64)]
    weights: Annotated[Row[Share], Field(max_length=64)]
    overall: Share | None = None

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if (count := len(self.weights)) != (expected := len(self.experts)):
            raise ValueError(f"weights must have {expected} entries, got {count}")
        return self

    @property
    def window(self) -> int:
        """The largest window."""
        return max(expert.window for expert in self.experts)

    @property
    def views(self) -> tuple[str, ...]:
        """The views of the experts, whitened first."""
        return tuple(sorted({expert.view for expert in self.experts}, reverse=True))

    @property
    def line(self) -> str:
        """The experts in words."""
        if len(self.experts) == 1:
            return str(self.experts[0])
        weights = zip(self.experts, self.weights, strict=True)
        return " + ".join(f"{expert} ({weight:.2f})" for expert, weight in weights)


def prior_choice(experts: Sequence[Expert]) -> Choice:
    """Return the choice where there is nothing to choose by."""
    return Choice(experts=(PRIOR if PRIOR in experts else experts[-1],), weights=(1.0,))


class GuidedFilter(Record):
    """Probabilities are smoothed along the scene's own structure; a tile needs a halo.

    Attributes
    ----------
    radius : int
    ridge : float
    mean : tuple of float, ``(bands,)``
        Taken off a spectrum before it is projected.
    projection : tuple of tuple of float, ``(bands, components)``
        From a spectrum to the guide, which has unit variance over the training scene.
    """

    whole_scene: ClassVar[bool] = False

    step: Literal["guided"] = "guided"
    radius: Annotated[int, Field(ge=1, le=32)]
    ridge: Annotated[float, Field(ge=1e-9, le=1e9)]
    mean: Spectrum
    projection: Annotated[
        Row[Annotated[Spectrum, Field(min_length=1, max_length=8)]],
        Field(min_length=1, max_length=SPECTRUM),
    ]

    @model_validator(mode="after")
    def _check_projection(self) -> Self:
        widths = {len(row) for row in self.projection}
        if len(widths) > 1:
            raise ValueError(f"projection must have rows of one length, got {shown(widths)}")
        return self

    @property
    def halo(self) -> int:
        """How many pixels around a tile it sees."""
        return 2 * self.radius

    def working_bytes(self, classes: int) -> int:
        """Return about how many bytes a pixel takes: four copies in double precision."""
        return 32 * classes * (len(self.projection[0]) + 1)


class PropagationSettings(Record):
    """Settings of label propagation; all lengths are in units of the scene's own noise.

    The defaults are those of a graph of pixels; `for_pixels` gives those that suit the size of a
    scene.

    Attributes
    ----------
    superpixel : int
        Least pixels of a node of the graphs, see `find_superpixels`; with 1 every pixel is one.
    components : int
        Kept of the whitened scene, twice as many as its segments are cut by.
    coarse : float
        Contrast of the edge filter before segments are cut.
    scale, least : float, int
        Of `find_segments`.
    graphs : tuple of (int, float)
        One graph each: components after whitening by segments, and contrast of the edge filter
        that they go through. The log shares of all graphs are averaged.
    neighbors, nearness : int, float
        Of `pixel_graph` or `node_graph`.
    alpha, iterations : float, int
        Of `propagate_labels`: how much of a label is handed on, and how often.
    smoothing : float
        Of `log_shares`: below about this share of the mean, what reaches a node says little.
    """

    components: Annotated[int, Field(ge=1, le=64)] = 20
    coarse: Positive = 4.0
    scale: Annotated[float, Field(ge=0, le=1e9)] = 30.0
    least: Annotated[int, Field(ge=0, le=10**6)] = 20
    graphs: Annotated[
        Row[Annotated[tuple[Annotated[int, Field(ge=1, le=32)], Positive], Fixed]],
        Field(min_length=1, max_length=4),
    ] = ((10, 2.0), (8, 1.9), (15, 2.7))
    neighbors: Annotated[int, Field(ge=1, le=40)] = 10
    nearness: Annotated[float, Field(ge=0, le=1e3)] = 0.01
    alpha: Share = 0.99
    iterations: Annotated[int, Field(ge=0, le=500)] = 100
    smoothing: Share = 0.03
    superpixel: Annotated[int, Field(ge=1, le=4096)] = 1

    @classmethod
    def for_pixels(cls, pixels: int) -> PropagationSettings:
        """Return the settings for a scene of so many pixels.

        Superpixels are farther apart than pixels, so that labels need fewer neighbors and shorter
        paths to get as far.

        Examples
        --------
        >>> [PropagationSettings.for_pixels(n).superpixel for n in (2_000, 10**6)]
        [1, 4]
        """
        if pixels <= EXACT_PIXELS:
            return cls()
        return cls(superpixel=4, neighbors=3, nearness=0.02, alpha=0.97, iterations=50)


class Propagation(Record):
    """Labels are propagated over the scene's graphs and combined with the network.

    Attributes
    ----------
    settings : PropagationSettings
    targets : tuple of int
        Position of the class of each training pixel, from 0.
    weights : tuple of float
        Of the propagation and of the network, see `polyad.scene.learn.steps.combine`.
    """

    whole_scene: ClassVar[bool] = True
    halo: ClassVar[int] = 0

    step: Literal["propagate"] = "propagate"
    settings: PropagationSettings
    targets: Row[Annotated[int, Field(ge=0, lt=OUTPUTS)]]
    weights: Annotated[tuple[Weight, Weight], Fixed]


Step = GuidedFilter | Propagation


class Recipe(Record):
    """Preset and goal that a model was made for, and the steps done to its maps.

    Attributes
    ----------
    preset : {"paper", "fast", "best"}
    goal : {"this-scene", "other-scenes"}
    line : str
        All steps in words, in one line.
    steps : tuple of GuidedFilter or Propagation
        After the network, at most one of each.
    """

    preset: Literal["paper", "fast", "best"]
    goal: Literal["this-scene", "other-scenes"]
    line: Annotated[Text, Field(max_length=2000)]
    steps: Annotated[Row[Annotated[Step, Field(discriminator="step")]], Field(max_length=2)] = ()

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        kinds = [step.step for step in self.steps]
        if len(set(kinds)) < len(kinds):
            raise ValueError(f"steps must differ, got {shown(kinds)}")
        return self

    @property
    def guided(self) -> GuidedFilter | None:
        """The guided filter, if it has one."""
        return next((step for step in self.steps if isinstance(step, GuidedFilter)), None)

    @property
    def propagation(self) -> Propagation | None:
        """The propagation of labels, if it has one."""
        return next((step for step in self.steps if isinstance(step, Propagation)), None)
