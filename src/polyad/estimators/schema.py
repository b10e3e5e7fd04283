"""What a header may hold: a small language of checks for values that came out of a file.

A schema is put together from `Plain` checks of single values, `ListOf` and `Record`. The schema,
not the file, decides how deep `check` goes and which keys there are: a key that is not in the
schema is refused. Whoever adds a key therefore raises the file's format number, and an older polyad
asks for an upgrade instead of leaving out what it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from polyad.codec import Fault, shown
from polyad.text import is_visible


class Plain(NamedTuple):
    """A single value: what is wanted, in words, and whether a value is that."""

    wanted: str
    holds: Callable[[Any], bool]


class ListOf(NamedTuple):
    """A list of values that all keep one schema."""

    item: Schema
    most: int
    least: int = 0


class Record(NamedTuple):
    """A mapping with these keys and no others."""

    required: Mapping[str, Schema]
    optional: Mapping[str, Schema] = {}


Schema: TypeAlias = Plain | ListOf | Record


def check(schema: Schema, value: Any, key: str) -> None:
    """Raise `Fault` unless ``value``, which stands under ``key``, keeps the schema.

    Examples
    --------
    >>> check(Record({"rank": whole(1, 9)}), {"rank": 10**9}, "network")
    Traceback (most recent call last):
    polyad.codec.Fault: network.rank must be a whole number from 1 to 9, got 1000000000
    """
    if isinstance(schema, Plain):
        if not schema.holds(value):
            raise Fault(f"{key} must be {schema.wanted}, got {shown(value)}")
    elif isinstance(schema, ListOf):
        if not isinstance(value, list) or not schema.least <= len(value) <= schema.most:
            got = f"{len(value):,}" if isinstance(value, list) else shown(value)
            raise Fault(f"{key} must be a list of {schema.least} to {schema.most:,}, got {got}")
        for place, item in enumerate(value):
            check(schema.item, item, f"{key}[{place}]")
    else:
        _check_record(schema, value, key)


def _check_record(schema: Record, value: Any, key: str) -> None:
    if not isinstance(value, dict):
        raise Fault(f"{key} must be a mapping, got {shown(value)}")
    known = {**schema.required, **schema.optional}
    for name in schema.required:
        if name not in value:
            raise Fault(f"{key} must have a key {name!r}, got {shown(list(value))}")
    for name, item in value.items():
        if name not in known:
            raise Fault(f"{key} has a key {shown(name)} that this format does not know")
        check(known[name], item, f"{key}.{name}")


# -- single values ----------------------------------------------------------------------------

ANYTHING = Plain("anything", lambda _: True)
NOTHING = Plain("null", lambda v: v is None)
FLAG = Plain("true or false", lambda v: isinstance(v, bool))


def whole(least: int, most: int) -> Plain:
    """Want an integer of a range; true and false are none."""
    return Plain(
        f"a whole number from {least:,} to {most:,}",
        lambda v: type(v) is int and least <= v <= most,
    )


def number(least: float, most: float) -> Plain:
    """Want a finite number of a range, ends included."""
    return Plain(f"a number from {least:g} to {most:g}", lambda v: _within(v, least, most))


def numbers(least: float, most: float, most_count: int, *, nan: bool = False) -> Plain:
    """Want a list of numbers of a range; ``nan`` lets unknown ones be NaN."""
    return Plain(
        f"a list of at most {most_count:,} numbers from {least:g} to {most:g}",
        lambda v: (
            isinstance(v, list)
            and len(v) <= most_count
            and all(_within(x, least, most) or (nan and _is_nan(x)) for x in v)
        ),
    )


def whole_numbers(least: int, most: int, most_count: int) -> Plain:
    """Want a list of integers of a range."""
    return Plain(
        f"a list of at most {most_count:,} whole numbers from {least:,} to {most:,}",
        lambda v: (
            isinstance(v, list)
            and len(v) <= most_count
            and all(type(x) is int and least <= x <= most for x in v)
        ),
    )


def one_of(*values: str) -> Plain:
    """Want one of a few words."""
    return Plain(f"one of {', '.join(values)}", lambda v: isinstance(v, str) and v in values)


def text(most: int) -> Plain:
    """Want a string of visible characters."""
    return Plain(
        f"a text of at most {most:,} visible characters",
        lambda v: isinstance(v, str) and len(v) <= most and is_visible(v),
    )


def either(*choices: Plain) -> Plain:
    """Want what any of the checks wants."""
    return Plain(" or ".join(c.wanted for c in choices), lambda v: any(c.holds(v) for c in choices))


def _within(value: Any, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most


def _is_nan(value: Any) -> bool:
    return type(value) is float and math.isnan(value)
