"""Speed guarded without a clock: operations counted, the largest tensor watched."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from polyad import RankRClassifier
from polyad.core.network import RankRNet
from polyad.core.plan import plan_inner
from polyad.fitting.joint import AdamState, FlatWeights, adam_step, written_gradient
from polyad.fitting.problem import Problem
from polyad.scene.map.mapping import map_scene
from polyad.scene.read.scenes import scene_from_array

VIEWS = [
    "view",
    "permute",
    "expand",
    "select",
    "slice",
    "unsqueeze",
    "squeeze",
    "transpose",
    "t",
    "detach",
    "alias",
    "as_strided",
    "split",
    "_unsafe_view",
    "_reshape_alias",
    "lift_fresh",
]


class Watch(TorchDispatchMode):
    """Counts the kernels that compute something, and keeps the size of the largest result."""

    def __init__(self):
        super().__init__()
        self.kernels, self.largest = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            self.kernels.append(name)
            if isinstance(found, torch.Tensor):
                self.largest = max(self.largest, found.numel())
        return found


def joint_step(n, rank, shape=(5, 5, 20), hidden=8, classes=3):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, *shape, generator=generator)
    target = torch.nn.functional.one_hot(torch.arange(n) % classes, classes).float()
    problem = Problem(x, target, torch.ones(n), "log")
    network = RankRNet(shape, hidden, classes, rank, generator=generator)
    weights = FlatWeights.of(network)
    state = AdamState.like(weights.values)
    with torch.no_grad():
        written_gradient(network, weights, problem)  # makes the buffers
        with Watch() as watch:
            written_gradient(network, weights, problem)
            adam_step(weights, state, 1e-3, 0.1)
    return watch


def test_a_joint_step_launches_as_many_kernels_whatever_the_sizes():
    counts = {len(joint_step(n, rank).kernels) for n in (12, 96) for rank in (1, 2, 5)}
    assert len(counts) == 1
    assert counts.pop() <= 50


def test_a_joint_step_has_two_large_products():
    kernels = joint_step(32, 2).kernels
    assert sum(name in ("mm", "addmm") for name in kernels) <= 5  # two large, three of the output
    assert not any("backward" in name for name in kernels)


@pytest.mark.parametrize("rank", [1, 4])
def test_the_plan_for_patches_is_within_its_bounds(rank):
    plan = plan_inner((5, 5, 200), 75, rank, 160)
    projection = 2 * 160 * 5000 * 75
    assert plan.flops <= 1.3 * projection * (1 if plan.chosen.dense else rank)
    assert plan.largest <= max(75 * 5000, 160 * 25 * 75 * rank)


def fitted(bands, window, rank=1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, window, window, bands)).astype(np.float32)
    return RankRClassifier(rank, 6, epochs=2, random_state=0).fit(X, np.arange(12) % 3 + 1)


def test_a_map_makes_no_patches():
    height, width, bands, window = 60, 70, 40, 7
    values = np.random.default_rng(1).normal(size=(height, width, bands)).astype(np.float32)
    model, scene = fitted(bands, window), scene_from_array(values)
    map_scene(model, scene)
    tracemalloc.start()
    with Watch() as watch:
        map_scene(model, scene)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    padded = (height + window - 1) * (width + window - 1)
    assert watch.largest <= padded * bands  # patches would be window ** 2 = 49 times the scene
    assert peak < 2 * values.nbytes  # of numpy and Python


def test_a_map_takes_as_many_kernels_whatever_the_window_and_the_rank():
    scene = scene_from_array(np.random.default_rng(1).normal(size=(20, 22, 9)).astype(np.float32))
    counts = []
    for window, rank in ((3, 1), (5, 1), (7, 1), (5, 3)):
        model = fitted(9, window, rank)
        with Watch() as watch:
            map_scene(model, scene)
        counts.append(len(watch.kernels))
    assert len(set(counts[:3])) == 1
    assert counts[3] <= counts[0] + 4  # the sum over the terms, the three factors laid out for it
    assert counts[0] <= 40
