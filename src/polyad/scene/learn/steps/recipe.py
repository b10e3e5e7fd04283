"""The steps beside the network, in one line and as data that a model file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polyad.errors import InputError

PRESETS = ("paper", "fast", "best")
GOALS = ("this-scene", "other-scenes")
OBJECTIVES = ("overall", "average")
STEPS = ("guided", "propagate")


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


def check_preset(preset: str | None, goal: str, objective: str = "overall") -> None:
    """Raise `InputError` unless all are known; no preset is the default one."""
    asked = (("preset", "best" if preset is None else preset, PRESETS), ("goal", goal, GOALS))
    for what, value, known in (*asked, ("objective", objective, OBJECTIVES)):
        if value not in known:
            raise InputError(f"{what} must be one of {', '.join(known)}, got {value!r}")
