"""One codec for every record that polyad stores: model headers, accuracies, ledgers, results.

A record is a frozen pydantic model. Its fields say what may be stored, type and range in one place,
and reading and writing follow from them:

>>> class Network(Record):
...     rank: Annotated[int, Field(ge=1, le=64)] | None
...     weights: Annotated[Row[float], Field(max_length=1000)] = ()
...     title: Annotated[Text, Field(max_length=80)] = ""
>>> network = Network.from_json('{"rank": 2, "weights": [0.5, 1]}', "network")
>>> network.rank, network.weights
(2, (0.5, 1.0))
>>> network.to_json()
'{"rank":2,"weights":[0.5,1.0],"title":""}'

A file can hold anything. `Fault` says what is wrong where, as ``key must be ..., got ...``:

>>> Network.from_json('{"rank": 2, "weights": [0.5, NaN]}', "network")
Traceback (most recent call last):
polyad.codec.Fault: network.weights[1] must be a finite number, got nan
>>> Network.from_data({"rank": 0}, "network")
Traceback (most recent call last):
polyad.codec.Fault: network.rank must be greater than or equal to 1, got 0

What every record promises, whatever is read:

- Unknown, missing and doubled keys are refused. Whoever adds a key therefore raises the format
  number of the file, so that an older polyad asks for an upgrade.
- Types are strict: true is no number, ``"2"`` no integer, ``1.0`` no integer; 1 is a float, though.
- Floats are finite; a field whose value may be unknown says so: ``float | NaN``.
- Reading takes memory in proportion to the text: nesting, lists and commas are limited before the
  text is parsed, and a list is refused at its first wrong item.

How to write a record:

- Ranges are ``Annotated[int, Field(ge=1, le=64)]``; lengths ``Field(max_length=...)``. Give every
  `Row` a ``max_length`` or compare it with another field: it may be as long as the file.
- `Row` is a list in JSON and a tuple in Python. A row of fixed types is ``Fixed`` of a tuple:
  ``Annotated[tuple[int, Text], Fixed]``.
- A named tuple is a list in JSON: ``Annotated[Kind, row_of(Kind, int, Text)]``.
- Records nest, also in rows. One of several records is a union with a discriminator:
  ``Annotated[Guided | Propagation, Field(discriminator="step")]``.
- A field that is stored under another name has ``stored_as(name)``.
- What relates fields is a ``@model_validator(mode="after")`` that raises ``ValueError``. Its
  message starts with the field (``"classes must be ..., got ..."``), and the codec puts the path
  before it; the message of a validator of one field starts with ``must``.
- Types of fields are imported where pydantic finds them at run time, not under ``TYPE_CHECKING``.
- What relates a record to something outside of it is checked by whoever has both, with `Fault`.
- A caller tells a `Fault` to the user, with the name of the file:
  ``raise ModelFileError(f"{path} ...: {fault}; {fault.remedy}") from fault``.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from polyad.text import is_visible

# What parsing a text may cost: an empty list takes twenty times as much memory as its two signs
LISTS, COMMAS = 2**20, 2**22

Item = TypeVar("Item")


class Fault(ValueError):
    """Stored data are not what they should be: key, expected and got; the remedy apart from it."""

    def __init__(self, what: str, remedy: str = "get the file again") -> None:
        super().__init__(what)
        self.remedy = remedy


class Record(BaseModel):
    """What is stored under one key, as JSON: the base of every stored record."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    @classmethod
    def from_json(cls, text: str, key: str) -> Self:
        """Return the record that a text holds; raise `Fault` if it holds none."""
        return cls.from_data(parse_json(text, key), key)

    @classmethod
    def from_data(cls, data: object, key: str) -> Self:
        """Return the record that parsed JSON holds, or a mapping of fields; raise `Fault`."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _fault(error, data, key) from None

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return self.model_dump_json(by_alias=True)

    def to_data(self) -> dict[str, object]:
        """Return the record as JSON's own types."""
        return self.model_dump(mode="json", by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_first_unknown_key(cls, data: object) -> object:
        """Raise at the first one: pydantic would list a million of them."""
        if isinstance(data, dict):
            known = {*cls.model_fields, *(f.validation_alias for f in cls.model_fields.values())}
            for name in data:
                if name not in known:
                    raise PydanticCustomError(
                        "unknown_key",
                        "has a key {name} that this format does not know",
                        {"name": shown(name)},
                    )
        return data


def parse_json(text: str, key: str) -> object:
    """Return what a JSON text of somebody else holds; raise `Fault` if it is none, or too much.

    Examples
    --------
    >>> parse_json('{"rank": 1, "rank": 2}', "header")
    Traceback (most recent call last):
    polyad.codec.Fault: header must have every key once, got a mapping with one twice
    """
    lists, commas = text.count("[") + text.count("{"), text.count(",")
    if lists > LISTS or commas > COMMAS:
        raise Fault(
            f"{key} must hold at most {LISTS:,} lists and {COMMAS:,} commas, got {lists:,} and "
            f"{commas:,}"
        )
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _mapping(pairs, key))
    except Fault:
        raise
    except (ValueError, RecursionError) as error:
        raise Fault(f"{key} is not JSON of ours") from error


def _mapping(pairs: list[tuple[str, object]], key: str) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise Fault(f"{key} must have every key once, got a mapping with one twice")
    return mapping


# -- types of fields --------------------------------------------------------------------------


def _visible(value: str) -> str:
    if not is_visible(value):
        raise ValueError(f"must be a text of visible characters, got {shown(value)}")
    return value


def _nan(value: float) -> float:
    if not math.isnan(value):
        raise ValueError("must be NaN")
    return value


def stored_as(name: str, **more: Any) -> Any:
    """Return a field that is stored under another name; ``more`` is that of pydantic's Field."""
    return Field(validation_alias=name, serialization_alias=name, **more)


def row_of(kind: Callable[..., object], *types: Any) -> GetPydanticSchema:
    """Return what marks a tuple that ``kind`` makes of ``types``; it is a list in JSON.

    Examples
    --------
    >>> class Tile(Record):
    ...     rows: Annotated[slice, row_of(slice, int, int)]
    >>> Tile.from_json('{"rows": [3, 8]}', "tile").rows
    slice(3, 8, None)
    """

    def schema(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        row = handler(Annotated[tuple[types], Fixed])  # type: ignore[valid-type]
        return no_info_after_validator_function(lambda values: kind(*values), row)

    return GetPydanticSchema(schema)


Fixed = Field(strict=False)
"""Marks a tuple of fixed types: a list in JSON."""
Row = Annotated[tuple[Item, ...], Field(strict=False, fail_fast=True)]
"""Any number of items of one type: a list in JSON."""
Text = Annotated[str, AfterValidator(_visible)]
"""A text that can be shown; control characters are refused."""
NaN = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_nan)]
"""Stands for a number that is not known: ``float | NaN``."""


# -- messages ---------------------------------------------------------------------------------


def shown(value: object) -> str:
    """Return a value as a message shows it: short, and in visible characters."""
    line = reprlib.repr(value)
    return line if len(line) <= 100 else f"{line[:97]}..."


def _fault(error: ValidationError, data: object, key: str) -> Fault:
    """Return pydantic's first complaint as a `Fault`; of a union, what each member expected."""
    details = error.errors(include_url=False)
    first = details[0]
    steps = _steps(first["loc"], data)
    where = key + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
    same = [d for d in details if _steps(d["loc"], data) == steps]
    if len(same) == 1 and first["type"] in ("value_error", "unknown_key"):
        message = first["msg"].removeprefix("Value error, ")
        return Fault(f"{where}{' ' if message.startswith(('must', 'has')) else '.'}{message}")
    expected = " or ".join(dict.fromkeys(_expected(d) for d in same)).replace("or be ", "or ")
    return Fault(f"{where} must {expected}, got {_got(first)}")


def _steps(loc: Sequence[int | str], data: object) -> list[int | str]:
    """Return the keys that lead through the data; pydantic puts names of types between them."""
    steps: list[int | str] = []
    for step in loc:
        inner = dict(enumerate(data)) if isinstance(data, list | tuple) else data
        if isinstance(inner, dict) and step in inner:
            data = inner[step]
            steps.append(step)
    return steps


def _expected(details: ErrorDetails) -> str:
    """Return what a value should do: ``be greater than or equal to 1``."""
    kind, ctx = details["type"], details.get("ctx", {})
    if kind == "missing":
        return f"have a key {details['loc'][-1]!r}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return f"have a {ctx['discriminator']} of {ctx.get('expected_tags', 'its own')}"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "be a mapping"
    if kind == "tuple_type":
        return "be a list"
    message = re.sub(r"^(\w+ should|Value error, must) ", "", details["msg"])
    message = re.sub(" after validation, not .*", "", message)
    return message.replace("items", "characters") if isinstance(details["input"], str) else message


def _got(details: ErrorDetails) -> str:
    value = details["input"]
    if details["type"] == "missing" and isinstance(value, dict):
        return shown(list(value))
    count = details.get("ctx", {}).get("actual_length")
    return shown(value) if count is None else f"{count:,}"
