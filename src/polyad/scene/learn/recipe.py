"""What a model was made by: preset, goal, chosen experts and the steps after its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyad.scene.files.option_values import GOALS, PRESETS
from polyad.scene.learn.accuracy import HeldOutLabels

STEPS = ("guided", "propagate")
VIEWS = ("plain", "whitened")
LEAST_DECAY = 0.1


@dataclass(frozen=True)
class Expert:
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


@dataclass(frozen=True)
class Choice:
    """What was chosen by spatial folds, and how well it did on them.

    Attributes
    ----------
    experts : tuple of Expert
    weights : tuple of float
        Of the experts' logits; they add up to one.
    overall, average : float or None
        Accuracy on the labels that were held out; None where nothing could be held out.
    interval : tuple of float or None
        Between which ``overall`` lies in 95 of 100 resamples of the groups.
    side, groups, labels : int
        Of the folds: side of a block in pixels, how many blocks hold labels, labels tested.
    untested : tuple of (int, int)
        Position of each class whose labels were all held out together, so that none could be
        tested, and how many there are. Known at training alone: no model file has it.
    held_out : HeldOutLabels or None
        What became of every label that was held out, known at training alone.
    """

    experts: tuple[Expert, ...]
    weights: tuple[float, ...]
    overall: float | None = None
    average: float | None = None
    interval: tuple[float, float] | None = None
    side: int = 0
    groups: int = 0
    labels: int = 0
    untested: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    held_out: HeldOutLabels | None = field(default=None, compare=False, repr=False)

    @property
    def window(self) -> int:
        """The largest window."""
        return max(expert.window for expert in self.experts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        experts = [[e.view, e.window, e.strength] for e in self.experts]
        interval = None if self.interval is None else list(self.interval)
        names = ("overall", "average", "side", "groups", "labels")
        return {name: getattr(self, name) for name in names} | {
            "experts": experts,
            "weights": list(self.weights),
            "interval": interval,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Choice:
        """Return the choice that `to_dict` wrote."""
        interval = stored["interval"]
        return cls(
            tuple(Expert(*row) for row in stored["experts"]),
            tuple(stored["weights"]),
            stored["overall"],
            stored["average"],
            None if interval is None else (interval[0], interval[1]),
            *(stored[key] for key in ("side", "groups", "labels")),
        )

    @property
    def score_line(self) -> str:
        """How well it did on the folds, in words."""
        if self.overall is None or self.average is None or self.interval is None:
            return "not known: no class has labels in two places; label some more of each"
        low, high = (100 * share for share in self.interval)
        where = f"blocks of {self.side} pixels" if self.side > 1 else "single labels"
        near = self.side <= self.window > 1  # their windows overlap those of other blocks
        return (
            f"{100 * self.overall:.1f} % overall (95 % interval {low:.0f} to {high:.0f}), "
            f"{100 * self.average:.1f} % average, on {self.labels:,} labels held out by {where}"
            + (", which lie next to each other: expect less elsewhere" if near else "")
        )

    @property
    def line(self) -> str:
        """The choice in words."""
        if len(self.experts) == 1:
            return str(self.experts[0])
        said = (f"{e} ({w:.2f})" for e, w in zip(self.experts, self.weights, strict=True))
        return " + ".join(said)


@dataclass(frozen=True)
class Recipe:
    """Preset and goal that a model was made for, and the steps done to its maps.

    Attributes
    ----------
    preset : {"paper", "fast", "best"}
    goal : {"this-scene", "other-scenes"}
    line : str
        All steps in words, in one line.
    steps : tuple of mapping
        Settings and learned numbers of the steps after the network; plain values only. ``step``
        is ``"guided"`` or ``"propagate"``.
    """

    preset: str
    goal: str
    line: str
    steps: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        steps = [dict(step) for step in self.steps]
        return {"preset": self.preset, "goal": self.goal, "line": self.line, "steps": steps}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Recipe:
        """Build a recipe from plain values; raise ValueError unless they describe one."""
        steps = tuple(dict(step) for step in stored["steps"])
        unknown = [step.get("step") for step in steps if step.get("step") not in STEPS]
        if unknown or stored["preset"] not in PRESETS or stored["goal"] not in GOALS:
            raise ValueError(f"unknown step, preset or goal in its recipe: {unknown or stored}")
        return cls(str(stored["preset"]), str(stored["goal"]), str(stored["line"]), steps)
