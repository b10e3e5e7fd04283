"""The search is sound: it takes good inputs, sees faults, and what it found once stays mended."""

import random
from pathlib import Path

import pytest

from attacks.search import CORPUS, fault
from attacks.targets import TARGETS, Target, changed
from attacks.trees import mutate, pack, unpack

FINDINGS = sorted(p for p in CORPUS.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", TARGETS)
def test_good_inputs_are_taken_and_changed_ones_are_answered(name):
    target, rng = TARGETS[name], random.Random(0)
    for seed in target.seeds():
        assert fault(target, seed) is None
        for _ in range(5):
            data = changed(target, seed, rng)
            assert data is None or fault(target, data) is None, data


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_is_mended(path):
    assert fault(TARGETS[path.parent.name], path.read_bytes()) is None


@pytest.mark.parametrize("error", [ValueError("x"), IndexError("x"), MemoryError()])
def test_a_foreign_error_is_a_finding(error):
    def attempt(data: bytes, folder: Path) -> None:
        raise error

    key, text = fault(Target(list, attempt), b"")
    assert type(error).__name__ in key
    assert "Traceback" in text


def test_changed_trees_are_trees_and_the_old_one_is_left():
    tree, rng = {"a": [1, 2, {"b": "c"}], "d": None}, random.Random(0)
    before = pack(tree)
    made = {pack(mutate(tree, rng)) for _ in range(300)}
    assert pack(tree) == before
    assert len(made) > 100
    assert all(pack(unpack(one)) == one for one in made)
