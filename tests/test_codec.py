"""The codec: what a record refuses, what its message says, and what reading costs."""

import json
import math
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from polyad.codec import COMMAS, LISTS, Fault, Fixed, NaN, Record, Row, Text

Small = Annotated[int, Field(ge=1, le=9)]


class Filter(Record):
    step: Literal["filter"]
    radius: Small


class Spread(Record):
    step: Literal["spread"]
    targets: Row[Small]


class Model(Record):
    rank: Literal["auto"] | Small = 1
    noise: float | None = None
    flag: bool = False
    name: Annotated[Text, Field(max_length=5)] = ""
    weights: Annotated[Row[float], Field(max_length=3)] = ()
    wavelength: Row[Annotated[float, Field(ge=-10, le=10)] | NaN] = ()
    classes: Row[Annotated[tuple[int, Text], Fixed]] = ()
    steps: Row[Annotated[Filter | Spread, Field(discriminator="step")]] = ()
    about: dict[str, object] = Field(default_factory=dict)

    @model_validator(mode="after")
    def check(self):
        if self.flag and not self.name:
            raise ValueError("name must be given, got none")
        return self


REFUSED = {
    "bool as int": ({"rank": True}, "m.rank must be 'auto' or a valid integer, got True"),
    "float as int": ({"steps": [{"step": "filter", "radius": 1.0}]}, "m.steps[0].radius must be"),
    "text as int": ({"rank": "2"}, "m.rank must be 'auto' or a valid integer, got '2'"),
    "huge int": ({"rank": 10**30}, "m.rank must be 'auto' or less than or equal to 9, got 1000"),
    "below": ({"rank": 0}, "m.rank must be 'auto' or greater than or equal to 1, got 0"),
    "NaN": ({"noise": math.nan}, "m.noise must be a finite number, got nan"),
    "infinite": ({"weights": [0, math.inf]}, "m.weights[1] must be a finite number, got inf"),
    "bool as float": ({"weights": [True]}, "m.weights[0] must be a valid number, got True"),
    "int as bool": ({"flag": 1}, "m.flag must be a valid boolean, got 1"),
    "too long a list": ({"weights": [1, 2, 3, 4]}, "m.weights must have at most 3 items, got 4"),
    "no list": ({"weights": {"0": 1}}, "m.weights must be a list, got {'0': 1}"),
    "too long a text": ({"name": "abcdef"}, "m.name must have at most 5 characters, got 6"),
    "control": ({"name": "\x1b[2J"}, r"m.name must be a text of visible characters, got '\x1b[2J'"),
    "half a character": ({"name": "\ud800"}, r"m.name must be a text of visible characters"),
    "direction": ({"name": "a\u202eb"}, r"m.name must be a text of visible characters"),
    "infinite unknown": ({"wavelength": [math.inf]}, "m.wavelength[0] must be a finite number or"),
    "unknown out of range": ({"wavelength": [99]}, "less than or equal to 10 or NaN, got 99"),
    "short tuple": ({"classes": [[1]]}, "m.classes[0] must have a key 1, got [1]"),
    "long tuple": ({"classes": [[1, "a", 2]]}, "m.classes[0] must have at most 2 items, got 3"),
    "unknown key": ({"power": 1}, "m has a key 'power' that this format does not know"),
    "inner unknown key": (
        {"steps": [{"step": "filter", "radius": 2, "power": 1}]},
        "m.steps[0] has a key 'power' that this format does not know",
    ),
    "missing key": ({"steps": [{"step": "filter"}]}, "m.steps[0] must have a key 'radius', got ["),
    "unknown step": ({"steps": [{"step": "x"}]}, "m.steps[0] must have a 'step' of 'filter', 'spr"),
    "no step": ({"steps": [{}]}, "m.steps[0] must have a 'step' of its own, got {}"),
    "no mapping": ({"steps": [3]}, "m.steps[0] must be a mapping, got 3"),
    "inner item": (
        {"steps": [{"step": "spread", "targets": [1, 2, 10]}]},
        "m.steps[0].targets[2] must be less than or equal to 9, got 10",
    ),
    "fields that disagree": ({"flag": True}, "m.name must be given, got none"),
    "a list": ([], "m must be a mapping, got []"),
    "nothing": (None, "m must be a mapping, got None"),
}


@pytest.mark.every_case
@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_record_is_refused_by_key_expectation_and_value(what):
    data, message = REFUSED[what]
    with pytest.raises(Fault) as fault:
        Model.from_json(json.dumps(data), "m")
    assert message in str(fault.value)
    assert str(fault.value).isprintable()
    assert len(str(fault.value)) < 300


@pytest.mark.parametrize(
    "text", ["", "[", "[" * 100_000, '{"a":' * 100_000, "1" * 5000, "{'a': 1}"]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(Fault, match="m is not JSON of ours"):
        Model.from_json(text, "m")


@pytest.mark.parametrize("text", ['{"rank": 1, "rank": 2}', '{"about": {"a": 1, "a": 1}}'])
def test_a_key_that_stands_twice_is_refused(text):
    with pytest.raises(Fault, match="every key once"):
        Model.from_json(text, "m")


@pytest.mark.parametrize("text", ["[" * (LISTS + 1), "," * (COMMAS + 1)])
def test_a_text_that_would_take_far_more_memory_than_itself_is_not_parsed(text, monkeypatch):
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(
        Fault, match=r"m must hold at most 1,048,576 lists and 4,194,304 commas, got"
    ):
        Model.from_json(text, "m")


@pytest.mark.parametrize(
    "data",
    [{"steps": [{"step": "spread", "targets": [0] * 1000}]}, {f"key{i}": 0 for i in range(1000)}],
    ids=["items", "keys"],
)
def test_the_first_wrong_item_ends_the_check(data):
    with pytest.raises(ValidationError) as error:
        Model.model_validate(data)
    assert error.value.error_count() == 1


def test_a_record_comes_back_as_it_was():
    data = {
        "rank": "auto", "noise": 0.1, "flag": True, "name": "été", "weights": [1, -0.0, 5e-324],
        "wavelength": [math.nan, 1], "classes": [[1, "a"]], "about": {"x": [math.nan, None]},
        "steps": [{"step": "filter", "radius": 2}, {"step": "spread", "targets": []}],
    }  # fmt: skip
    record = Model.from_json(json.dumps(data), "m")
    assert record.steps == (Filter(step="filter", radius=2), Spread(step="spread", targets=()))
    assert record.classes == ((1, "a"),)
    again = Model.from_json(record.to_json(), "m")
    assert again.to_json() == record.to_json()
    assert str(again.to_data()) == str(record.to_data())


def test_a_record_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Model().rank = 2
