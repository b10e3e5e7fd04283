"""Rules by which classes are merged."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from polyad.errors import InputError
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.labels import merge_labels, plan_merge

NAMES = ["corn", "soy", "forest, old", "a+b", "water"]
CLASSES = [ClassInfo(k + 2, name, f"#0000{k:02X}") for k, name in enumerate(NAMES)]


def after(*rules: str) -> list[tuple[int, str]]:
    return [(c.value, c.name) for c in plan_merge(CLASSES, rules).after]


@pytest.mark.parametrize(
    "rule", ["corn+soy=crops", "2+3=crops", " CORN + 3 = crops ", "soy+2=crops"]
)
def test_classes_are_named_by_name_or_id(rule: str) -> None:
    assert after(rule) == [(2, "crops"), (4, "forest, old"), (5, "a+b"), (6, "water")]


def test_names_with_a_plus_are_found() -> None:
    assert after("a+b=wet")[-2] == after("5=wet")[-2] == (5, "wet")


@pytest.mark.parametrize("rule", ["corn+soy=soy", "corn=soy", "corn+soy=SOY", "2+3=3"])
def test_merging_into_a_class_keeps_its_id_name_and_color(rule: str) -> None:
    merging = plan_merge(CLASSES, rule)
    assert merging.after[0] == CLASSES[1]
    assert merging.positions[:2] == (0, 0)


def test_rules_add_up() -> None:
    assert after("corn+soy=crops", "4+5=rest") == [(2, "crops"), (4, "rest"), (6, "water")]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["corm+soy=crops"], r"no class is called 'corm'; the classes are 2 corn, 3 soy"),
        (["corn+=crops"], "no class is called ''"),
        (["corn+soy"], "expected classes and the name of the new one"),
        (["corn+soy="], "expected classes and the name of the new one"),
        (["=crops"], "expected classes and the name of the new one"),
        (["corn+soy=x", "soy+water=y"], "3 soy is in another rule already"),
        (["corn+99=x"], "no class is called '99'"),
    ],
)
def test_wrong_rule_is_refused_in_one_sentence(rules: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan_merge(CLASSES, rules)


def test_probabilities_are_summed() -> None:
    proba = np.array([[0.1, 0.2, 0.3, 0.15, 0.25], [np.nan] * 5], np.float32)
    sums = plan_merge(CLASSES, ["corn+soy=crops", "water+4=x"]).sums(proba)
    np.testing.assert_allclose(sums[0], [0.3, 0.55, 0.15], atol=1e-6)
    assert np.isnan(sums[1]).all()


def test_merging_twice_is_merging_at_once() -> None:
    first = plan_merge(CLASSES, "corn+soy=crops")
    both = first.followed_by(plan_merge(first.after, "crops+water=all"))
    assert both.positions == plan_merge(CLASSES, "corn+soy+water=all").positions


def test_labels_keep_what_has_no_class_and_ids_that_no_class_lists() -> None:
    raster = xr.DataArray(np.array([[0, 2, 3, 6, 9]], np.uint16), dims=("y", "x"))
    merged = merge_labels(with_classes(raster, CLASSES), ["corn+soy=crops"])
    assert merged.values.tolist() == [[0, 2, 2, 6, 9]]
    assert merged.dtype == np.uint16
