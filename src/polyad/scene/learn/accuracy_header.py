"""The schema of what a model file says of its accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyad.estimators.header import MOST, OUTPUTS
from polyad.estimators.schema import (
    NOTHING,
    Fault,
    ListOf,
    Plain,
    Record,
    check,
    either,
    number,
    numbers,
    one_of,
    shown,
    text,
    whole,
    whole_numbers,
)
from polyad.scene.learn.accuracy import FOLDS_BY, MOST_CONFUSION

NAME = 256  # characters of a class name

_count = whole(0, MOST)
_share = either(NOTHING, number(0, 1))
_interval = Plain(
    "null or two numbers from -1 to 1, which ascend",
    lambda v: v is None or (numbers(-1, 1, 2).holds(v) and len(v) == 2 and v[0] <= v[1]),
)
_CLASS = Record(
    {
        "name": text(NAME),
        "labels": _count,
        "tested": _count,
        "groups": _count,
        "recall": _share,
        "recall_ci95": _interval,
        "precision": _share,
    }
)
_row = whole_numbers(0, MOST, MOST_CONFUSION)
_matrix = Plain(
    f"null or a square of at most {MOST_CONFUSION} rows",
    lambda v: (
        v is None
        or (
            isinstance(v, list)
            and len(v) <= MOST_CONFUSION
            and all(_row.holds(row) and len(row) == len(v) for row in v)
        )
    ),
)
_HELD_OUT = Record(
    {
        "by": one_of(*FOLDS_BY),
        "side": _count,
        "folds": whole(1, MOST),
        "groups": _count,
        "labels": _count,
        "overall_accuracy": number(0, 1),
        "overall_accuracy_ci95": _interval,
        "average_accuracy": number(0, 1),
        "average_accuracy_ci95": _interval,
        "kappa": either(NOTHING, number(-1, 1)),
        "kappa_ci95": _interval,
        "classes": ListOf(_CLASS, OUTPUTS, 1),
        "confusion_matrix": _matrix,
    }
)
_mapping = Plain("null or a mapping", lambda v: v is None or isinstance(v, dict))
_ACCURACY = Record(
    {
        "method": one_of("outer", "choice"),
        "spatial": _mapping,
        "pixelwise": _mapping,
        "needed": ListOf(Record({"name": text(NAME), "places": _count}), OUTPUTS),
    }
)


def check_accuracy(stored: Any, names: Sequence[str], key: str) -> None:
    """Raise `Fault` unless ``stored`` is an accuracy of a model of classes of these names."""
    check(_ACCURACY, stored, key)
    for way in ("spatial", "pixelwise"):
        if stored[way] is None:
            continue
        check(_HELD_OUT, stored[way], f"{key}.{way}")
        for name in ("classes", "confusion_matrix"):
            rows = stored[way][name]
            if rows is not None and len(rows) != len(names):
                raise Fault(f"{key}.{way}.{name} must have {len(names)} entries, got {len(rows)}")
        found = [row["name"] for row in stored[way]["classes"]]
        if found != list(names):
            raise Fault(f"{key}.{way}.classes must be named as in the model, got {shown(found)}")
    odd = [row["name"] for row in stored["needed"] if row["name"] not in names]
    if odd:
        raise Fault(f"{key}.needed must name classes of the model, got {shown(odd[0])}")
