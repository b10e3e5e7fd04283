import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.app.labels import HISTORY, MAX_PIXELS, LabelState
from polyad.errors import InputError


def state_with_two_classes():
    state = LabelState((10, 12))
    state.do({"do": "add", "name": "Water"})
    state.do({"do": "add", "name": "Corn"})
    return state


def label(state, value, *pixels, **more):
    return state.do({"do": "label", "class": value, "pixels": [list(p) for p in pixels], **more})


def test_nothing_is_undone_at_the_start_and_nothing_redone_after_a_new_step():
    state = LabelState((3, 3))
    assert not state.do({"do": "undo"})
    assert state.revision == 0
    state = state_with_two_classes()
    label(state, 1, (0, 0))
    state.do({"do": "undo"})
    label(state, 2, (5, 5))
    assert not state.history()["redo"]
    assert not state.do({"do": "redo"})


def test_the_pixels_of_one_stroke_are_undone_together():
    state = state_with_two_classes()
    label(state, 1, (0, 0), stroke="a")
    label(state, 1, (0, 1), (0, 2), stroke="a")
    label(state, 1, (5, 5), stroke="b")
    state.do({"do": "undo"})
    assert set(state.labels) == {(0, 0), (0, 1), (0, 2)}
    state.do({"do": "undo"})
    assert state.labels == {}


def test_deleting_a_class_takes_its_labels_and_undo_brings_both_back():
    state = state_with_two_classes()
    label(state, 1, (0, 0))
    label(state, 2, (1, 1))
    state.do({"do": "delete", "class": 1})
    assert state.labels == {(1, 1): 2}
    assert list(state.classes) == [2]
    state.do({"do": "undo"})
    assert state.labels == {(0, 0): 1, (1, 1): 2}
    assert state.classes[1].name == "Water"
    state.do({"do": "delete", "class": 1})
    state.do({"do": "add", "name": "Woods"})  # which gets the id that is free
    assert state.classes[1].name == "Woods"


def test_classes_are_renamed_and_recolored_without_touching_labels():
    state = state_with_two_classes()
    label(state, 1, (0, 0))
    before = state.label_revision
    state.do({"do": "change", "class": 1, "name": "Sea", "color": "#00ff00"})
    assert state.classes[1] == (1, "Sea", "#00ff00")
    assert state.label_revision == before


def test_loaded_classes_get_colors_that_are_not_in_use():
    state = state_with_two_classes()
    taken = {c.color for c in state.classes.values()}
    first = state.classes[1].color.lower()
    rows = [[1, "Soil", first], [2, "Oats", "#123456"], [3, "Rye", "#123456"], [4, "Water", first]]
    state.do({"do": "load", "classes": rows, "labels": [[0, 0, 1]]})
    colors = {c.name: c.color for c in state.classes.values()}
    assert len({color.lower() for color in colors.values()}) == 5
    assert taken == {colors["Water"], colors["Corn"]}  # what was there stays
    assert colors["Oats"] == "#123456"  # and so does a color of the file that is free


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ({"do": "label", "class": 9, "pixels": [[0, 0]]}, "no class 9"),
        ({"do": "label", "class": "1", "pixels": [[0, 0]]}, "no class '1'"),
        ({"do": "label", "class": True, "pixels": [[0, 0]]}, "no class True"),
        ({"do": "label", "class": 1, "pixels": [[10, 0]]}, "outside the scene"),
        ({"do": "label", "class": 1, "pixels": [[-1, 0]]}, "outside the scene"),
        ({"do": "label", "class": 1, "pixels": [[0, 12]]}, "outside the scene"),
        ({"do": "label", "class": 1, "pixels": [[0.5, 0]]}, "whole numbers"),
        ({"do": "label", "class": 1, "pixels": [[0]]}, "whole numbers"),
        ({"do": "label", "class": 1, "pixels": "00"}, "list of"),
        ({"do": "label", "class": 1}, "list of"),
        ({"do": "label", "class": 1, "pixels": [[0, 0]] * (MAX_PIXELS + 1)}, "too many"),
        ({"do": "add", "name": "Corn"}, "already"),
        ({"do": "add", "name": "  "}, "visible characters"),
        ({"do": "add", "name": "x" * 81}, "visible characters"),
        ({"do": "add", "name": "a\x00b"}, "visible characters"),
        ({"do": "add", "name": "x", "color": "red"}, "#rrggbb"),
        ({"do": "change", "class": 0, "name": "x"}, "no class 0"),
        ({"do": "delete", "class": 7}, "no class 7"),
        ({"do": "format disk"}, "no such command"),
        ({}, "no such command"),
    ],
)
def test_a_bad_command_is_refused_in_words_and_changes_nothing(command, words):
    state = state_with_two_classes()
    with pytest.raises(InputError, match=words):
        state.do(command)
    assert state.revision == 2
    assert state.labels == {}


def test_there_are_at_most_255_classes_and_the_first_forty_differ_in_color():
    state = LabelState((3, 3))
    for k in range(255):
        state.do({"do": "add", "name": f"c{k}"})
    assert len({state.classes[k + 1].color for k in range(40)}) == 40
    with pytest.raises(InputError, match="255 classes"):
        state.do({"do": "add", "name": "one more"})


def test_a_loaded_file_joins_classes_by_name_and_renumbers_the_others():
    state = state_with_two_classes()
    state.do({"do": "load", "classes": [[1, "Corn", "#111111"], [2, "Woods", "#222222"]],
              "labels": [[0, 0, 1], [1, 1, 2]]})  # fmt: skip
    assert state.classes[2].name == "Corn"
    assert state.classes[3].name == "Woods"
    assert state.labels == {(0, 0): 2, (1, 1): 3}


def test_history_is_bounded():
    state = state_with_two_classes()
    for k in range(HISTORY + 50):
        label(state, 1 + k % 2, (0, 0))
    undone = 0
    while state.do({"do": "undo"}):
        undone += 1
    assert undone == HISTORY


steps = st.one_of(
    st.tuples(
        st.sampled_from([0, 1, 2]), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    ),
    st.sampled_from(["undo", "redo"]),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=25))
def test_undoing_everything_leads_back_to_the_empty_board(commands):
    state = state_with_two_classes()
    for step in commands:
        if isinstance(step, str):
            state.do({"do": step})
        elif step[0] in {0, *state.classes}:  # a class may have been undone
            label(state, step[0], *step[1])
    labels, classes = dict(state.labels), dict(state.classes)
    undone = 0
    while state.do({"do": "undo"}):
        undone += 1
    assert state.labels == {}
    assert state.classes == {}
    for _ in range(undone):
        state.do({"do": "redo"})
    assert state.labels == labels
    assert state.classes == classes
