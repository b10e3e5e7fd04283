"""Values of options that are wrong whatever the scene: preset, window, coverage, merging."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyad.errors import InputError
from polyad.text import clean_name

CLASSES, REGRESSION = TASKS = ("classes", "regression")
PRESETS = ("paper", "fast", "best")
GOALS = ("this-scene", "other-scenes")
OBJECTIVES = ("overall", "average")
SINGLE = (2 - 2**-23) * 2.0**127  # the largest number in single precision
MAX_WINDOW = 127  # its halo is read with every tile


def check_preset(preset: str | None, goal: str, objective: str = "overall") -> None:
    """Raise `InputError` unless all are known; no preset is the default one."""
    asked = (("preset", "best" if preset is None else preset, PRESETS), ("goal", goal, GOALS))
    for what, value, known in (*asked, ("objective", objective, OBJECTIVES)):
        if value not in known:
            raise InputError(f"{what} must be one of {', '.join(known)}, got {value!r}")


def check_window(window: int) -> int:
    """Return ``window`` if it is an odd positive integer, so that a center pixel exists."""
    if isinstance(window, bool) or int(window) != window or window < 1 or window % 2 == 0:
        raise InputError(
            f"window must be an odd positive number of pixels, got {window!r}; "
            f"the paper uses 5 and an even window has no center pixel"
        )
    if window > MAX_WINDOW:
        raise InputError(f"window must be at most {MAX_WINDOW} pixels, got {window}; 5 is usual")
    return int(window)


def check_bbox(bbox: Sequence[float]) -> tuple[float, ...]:
    """Return ``bbox`` as left, bottom, right and top, if it is a rectangle.

    Examples
    --------
    >>> check_bbox((0, 10, 5, 20))
    (0.0, 10.0, 5.0, 20.0)
    """
    numbers = tuple(float(v) for v in bbox)
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
        raise InputError(f"a bounding box is left, bottom, right and top, got {tuple(bbox)}")
    if numbers[0] >= numbers[2] or numbers[1] >= numbers[3]:
        raise InputError(
            f"a bounding box is left, bottom, right and top, where left < right and bottom < top, "
            f"got {' '.join(f'{v:.10g}' for v in numbers)}"
        )
    return numbers


def check_coverage(coverage: float) -> float:
    """Return ``coverage`` if it lies between 0 and 1.

    Examples
    --------
    >>> check_coverage(0.9)
    0.9
    """
    if not 0 < coverage < 1:
        raise InputError(
            f"coverage is the share of sets that hold the true class, between 0 and 1, got "
            f"{coverage:g}; 0.9 is usual"
        )
    return float(coverage)


def merge_rules(merge: str | Sequence[str]) -> list[tuple[str, str, str]]:
    """Return each rule such as ``corn+soy=crops`` with what is left and right of its last ``=``.

    Examples
    --------
    >>> merge_rules("corn + soy = crops")
    [('corn + soy = crops', 'corn + soy', 'crops')]
    """
    rules = []
    for rule in [merge] if isinstance(merge, str) else merge:
        left, equals, name = (text.strip() for text in rule.rpartition("="))
        if not (left and equals and clean_name(name)):
            raise InputError(
                f"cannot merge by {rule!r}: expected classes and the name of the new one, such as "
                "'corn+soy=crops'"
            )
        rules.append((rule, left, name))
    return rules


def check_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    """Return bounds if they are two finite numbers, the smaller one first.

    Examples
    --------
    >>> check_bounds((1, 0))
    Traceback (most recent call last):
    polyad.errors.InputError: bounds must be two finite numbers, the smaller first, got 1 and 0; ...
    """
    low, high = float(bounds[0]), float(bounds[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(
            f"bounds must be two finite numbers, the smaller first, got {low:g} and {high:g}; "
            "for a fraction write --bounds 0 1"
        )
    if max(-low, high) > SINGLE:
        raise InputError(
            f"bounds must be from {-SINGLE:.2g} to {SINGLE:.2g}, what single precision holds, got "
            f"{low:g} and {high:g}; for a fraction write --bounds 0 1"
        )
    return low, high


def check_task(task: str) -> None:
    """Raise `InputError` unless the task is known."""
    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
