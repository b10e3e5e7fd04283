"""The benchmark program: rounds, ratios, memory, and the same maps."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import maps, plans, throughput
from benchmarks.data import made_classifier, made_scene
from benchmarks.harness import Ratio, Times, interleave, peak_bytes
from benchmarks.page import parts, targets
from polyad.scene.map.mapping import map_scene

DOCS = Path(__file__).parents[2] / "docs"


def test_ways_run_in_turn_within_each_round():
    order = []
    clock = iter(range(100))
    ways = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    times = interleave(ways, 3, clock=lambda: float(next(clock)))
    assert order == ["a", "b"] + ["a", "b"] * 3  # the first calls warm up
    assert times["a"].seconds == (1.0, 1.0, 1.0)


def test_a_ratio_is_taken_round_by_round():
    slow, fast = Times((4.0, 30.0, 4.0)), Times((2.0, 10.0, 1.0))
    assert slow.over(fast) == Ratio(3.0, 2.0, 4.0)
    assert str(slow.over(fast)) == "3 (2-4)"


def test_memory_is_the_high_water_of_the_call():
    megabytes = 64
    used = peak_bytes(lambda: np.ones(megabytes * 2**20 // 8).sum())
    if used is None:
        pytest.skip("the system does not tell")
    assert 0.9 * megabytes < used / 2**20 < 2 * megabytes


@pytest.mark.parametrize("rank", [1, 2])
def test_every_way_gives_the_same_map(rank):
    scene, model = made_scene(20, 13, 7), made_classifier(7, maps.PAVIA_CLASSES, rank)
    wanted = map_scene(model, scene).values
    assert np.array_equal(maps.plain_torch(model, scene)(), wanted)
    assert np.array_equal(maps.patch_gemm(model, scene, 20)(), wanted)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_factorised_convolution_of_tensorly_gives_the_same_map(rank):
    pytest.importorskip("tltorch")
    scene, model = made_scene(20, 13, 7), made_classifier(7, maps.PAVIA_CLASSES, rank)
    assert np.array_equal(maps.factorized_conv(model, scene)(), map_scene(model, scene).values)


def test_a_case_of_the_grid_names_chosen_and_best():
    torch.manual_seed(0)
    case = plans.case((3, 4), 2, 5, rounds=1)
    assert case["chosen"] in case["seconds"]
    assert case["ratio"] >= 1


def test_the_page_has_a_table_of_scenes_by_kind_where_they_were_measured():
    found = json.loads((DOCS / "benchmarks.json").read_text())
    found["throughput"] = throughput.throughput(rounds=1, size=(16, 17))
    assert "| 200 | uint16 | BIL |" in parts(found)["throughput"]
    names = [target["what"] for target in targets(found)]
    assert "a scene of 103 bands of float32 (BIP), share of the sgemm limit" in names
    assert "a scene of uint16 on two threads against one" in names
