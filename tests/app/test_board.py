import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.app.board import HISTORY, MAX_PIXELS, Board
from polyad.errors import InputError


def board_with_two():
    board = Board((10, 12))
    board.do({"do": "add", "name": "Water"})
    board.do({"do": "add", "name": "Corn"})
    return board


def label(board, value, *pixels, **more):
    return board.do({"do": "label", "class": value, "pixels": [list(p) for p in pixels], **more})


def test_a_label_is_taken_replaced_and_erased():
    board = board_with_two()
    label(board, 1, (2, 3))
    assert board.labels == {(2, 3): 1}
    label(board, 2, (2, 3))
    assert board.labels == {(2, 3): 2}
    label(board, 0, (2, 3))
    assert board.labels == {}


def test_undo_and_redo_walk_through_every_step():
    board = board_with_two()
    label(board, 1, (0, 0))
    label(board, 2, (0, 0), (1, 1))
    board.do({"do": "undo"})
    assert board.labels == {(0, 0): 1}
    board.do({"do": "undo"})
    assert board.labels == {}
    board.do({"do": "redo"})
    board.do({"do": "redo"})
    assert board.labels == {(0, 0): 2, (1, 1): 2}
    assert not board.can_redo


def test_a_new_step_after_undo_forgets_what_was_undone():
    board = board_with_two()
    label(board, 1, (0, 0))
    board.do({"do": "undo"})
    label(board, 2, (5, 5))
    assert not board.can_redo
    assert not board.do({"do": "redo"})


def test_undo_with_nothing_to_undo_changes_nothing():
    board = Board((3, 3))
    assert not board.do({"do": "undo"})
    assert board.revision == 0


def test_the_pixels_of_one_stroke_are_undone_together():
    board = board_with_two()
    label(board, 1, (0, 0), stroke="a")
    label(board, 1, (0, 1), (0, 2), stroke="a")
    label(board, 1, (5, 5), stroke="b")
    board.do({"do": "undo"})
    assert set(board.labels) == {(0, 0), (0, 1), (0, 2)}
    board.do({"do": "undo"})
    assert board.labels == {}


def test_deleting_a_class_takes_its_labels_and_undo_brings_both_back():
    board = board_with_two()
    label(board, 1, (0, 0))
    label(board, 2, (1, 1))
    board.do({"do": "delete", "class": 1})
    assert board.labels == {(1, 1): 2}
    assert list(board.classes) == [2]
    board.do({"do": "undo"})
    assert board.labels == {(0, 0): 1, (1, 1): 2}
    assert board.classes[1].name == "Water"


def test_a_deleted_id_is_given_to_the_next_new_class():
    board = board_with_two()
    board.do({"do": "delete", "class": 1})
    board.do({"do": "add", "name": "Woods"})
    assert board.classes[1].name == "Woods"


def test_classes_are_renamed_and_recoloured_without_touching_labels():
    board = board_with_two()
    label(board, 1, (0, 0))
    before = board.label_revision
    board.do({"do": "change", "class": 1, "name": "Sea", "color": "#00ff00"})
    assert board.classes[1] == (1, "Sea", "#00ff00")
    assert board.label_revision == before


def test_new_classes_get_colours_that_are_not_in_use():
    board = Board((3, 3))
    for k in range(40):
        board.do({"do": "add", "name": f"c{k}"})
    assert len({c.color for c in board.classes.values()}) == 40


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
    board = board_with_two()
    with pytest.raises(InputError, match=words):
        board.do(command)
    assert board.revision == 2
    assert board.labels == {}


def test_there_are_at_most_255_classes():
    board = Board((3, 3))
    for k in range(255):
        board.do({"do": "add", "name": f"c{k}"})
    with pytest.raises(InputError, match="255 classes"):
        board.do({"do": "add", "name": "one more"})


def test_a_loaded_file_joins_classes_by_name_and_renumbers_the_others():
    board = board_with_two()
    board.do({"do": "load", "classes": [[1, "Corn", "#111111"], [2, "Woods", "#222222"]],
              "labels": [[0, 0, 1], [1, 1, 2]]})  # fmt: skip
    assert board.classes[2].name == "Corn"
    assert board.classes[3].name == "Woods"
    assert board.labels == {(0, 0): 2, (1, 1): 3}


def test_history_is_bounded():
    board = board_with_two()
    for k in range(HISTORY + 50):
        label(board, 1 + k % 2, (0, 0))
    undone = 0
    while board.do({"do": "undo"}):
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
    board = board_with_two()
    for step in commands:
        if isinstance(step, str):
            board.do({"do": step})
        elif step[0] in {0, *board.classes}:  # a class may have been undone
            label(board, step[0], *step[1])
    labels, classes = dict(board.labels), dict(board.classes)
    undone = 0
    while board.do({"do": "undo"}):
        undone += 1
    assert board.labels == {}
    assert board.classes == {}
    for _ in range(undone):
        board.do({"do": "redo"})
    assert board.labels == labels
    assert board.classes == classes
