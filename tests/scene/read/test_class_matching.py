"""Classes of labels and of a model are one by name, and by id only where there are no names."""

import numpy as np
import pytest
import xarray as xr

from polyad.scene.assess.scores import score
from polyad.scene.raster.classes import ClassInfo, class_color, class_key, class_table, with_classes
from polyad.scene.read.classes import complete, in_model_ids, match_classes

MODEL = (
    ClassInfo(1, "Corn", "#112233"),
    ClassInfo(2, "Soil", "#445566"),
    ClassInfo(3, "Water", "#778899"),
)


def raster(values, **names):
    """Labels whose classes are named as in ``_5="Corn"``; the others are not named."""
    labels = xr.DataArray(np.asarray(values, np.uint16), dims=("y", "x"))
    table = {int(key[1:]): name for key, name in names.items()}
    return with_classes(labels, complete(labels.values, table, {}))


def test_same_names_with_other_ids_are_the_same_classes():
    match = match_classes(raster([[7, 8, 9]], _7="Water", _8="Corn", _9="Soil"), MODEL)
    assert (match.by, match.ids, match.unknown) == ("name", {7: 3, 8: 1, 9: 2}, ())


def test_names_that_differ_in_case_and_blanks_are_one():
    match = match_classes(raster([[1, 2]], _1=" bare  SOIL ", _2="corn"), (
        ClassInfo(4, "Bare Soil", "#112233"), ClassInfo(6, "Corn", "#112233"),
    ))  # fmt: skip
    assert match.ids == {1: 4, 2: 6}


def test_of_two_names_that_differ_in_case_the_exact_one_counts_and_none_is_guessed():
    model = (ClassInfo(1, "corn", "#112233"), ClassInfo(2, "Corn", "#112233"))
    match = match_classes(raster([[5, 6]], _5="Corn", _6="CORN"), model)
    assert match.ids == {5: 2}
    assert [c.name for c in match.unknown] == ["CORN"]


def test_without_names_on_either_side_ids_are_compared():
    plain = tuple(ClassInfo(v, f"class {v}", "#112233") for v in (1, 2))
    named = raster([[1, 3]], _1="Corn", _3="Water")
    for labels, model in ((raster([[1, 3]]), MODEL), (named, plain), (raster([[1, 3]]), plain)):
        match = match_classes(labels, model)
        assert match.by == "id"
        assert match.ids == {v: v for v in (1, 3) if v in {c.value for c in model}}


def test_some_names_known_and_some_new():
    labels, match = in_model_ids(raster([[1, 2, 0, 3]], _1="Soil", _2="Oats", _3="Rye"), MODEL)
    assert match.ids == {1: 2}
    assert [(c.value, c.name) for c in match.unknown] == [(2, "Oats"), (3, "Rye")]
    assert labels.values.tolist() == [[2, 4, 0, 5]]  # new ids beside those of the model
    assert class_table(labels)[:3] == MODEL
    assert [c.name for c in class_table(labels)[3:]] == ["Oats", "Rye"]


def test_an_id_that_the_label_table_forgets_is_not_taken_for_unlabeled():
    labels = with_classes(raster([[1, 7]]), [ClassInfo(1, "Corn", "#112233")])
    match = match_classes(labels, MODEL)
    assert [c.value for c in match.unknown] == [7]


# -- colors and keys --------------------------------------------------------------------------


def test_a_class_keeps_its_color_when_another_has_no_label():
    def plain(*ids):
        return xr.DataArray(np.array([ids]), dims=("y", "x"))

    whole = {c.value: c.color for c in class_table(plain(1, 2, 3, 4, 5))}
    for found in (
        class_table(plain(1, 2, 3, 5)),
        complete(np.array([[1, 5]], np.uint16), {}, {}),
        score([1, 5], [5, 5]).classes,
    ):
        assert {c.value: c.color for c in found}.items() <= whole.items()


def test_colors_of_ids_above_sixteen_are_distinct():
    assert len({class_color(v) for v in range(1, 300)}) == 299


@pytest.mark.parametrize(("name", "key"), [("Corn", "4 Corn"), ("class 4", "class 4")])
def test_a_key_names_the_id_once(name, key):
    assert class_key(ClassInfo(4, name, "#112233")) == key


def test_among_classes_of_one_name_the_id_decides():
    classes = [ClassInfo(1, "Corn", ""), ClassInfo(2, "Oats", ""), ClassInfo(3, "Corn", "")]
    raster = xr.DataArray(np.array([[1, 2, 3]]), dims=("y", "x"))
    assert match_classes(with_classes(raster, classes), classes).ids == {1: 1, 2: 2, 3: 3}


def test_names_without_ids_are_not_joined_with_ids_without_names():
    from polyad.errors import SceneMismatch
    from polyad.scene.raster.labels import NUMBERED_BY_NAME
    from polyad.scene.read.classes import join_labels

    table = [ClassInfo(1, "corn", ""), ClassInfo(2, "wheat", "")]
    named = with_classes(xr.DataArray(np.array([[1, 2, 0]]), dims=("y", "x")), table)
    named = named.assign_attrs({NUMBERED_BY_NAME: True})
    bare = xr.DataArray(np.array([[0, 0, 1]]), dims=("y", "x"))
    for order in ([named, bare], [bare, named]):
        with pytest.raises(SceneMismatch, match="classes cannot be matched"):
            join_labels(order, ["a", "b"])
