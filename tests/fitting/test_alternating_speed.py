"""The fast paths of the alternating solver: equal to the plain reference, few kernel calls."""

import copy
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from polyad.core.network import RankRNet
from polyad.fitting import alternating as solver
from polyad.fitting import blocks
from polyad.fitting.alternating import Steps, alternating, alternating_reference
from polyad.fitting.epochs import Stopping
from polyad.fitting.problem import Problem

try:
    import numba  # noqa: F401
except ImportError:
    TABLES = {"numpy": blocks.NUMPY}
else:
    TABLES = {"numpy": blocks.NUMPY, "numba": blocks.compiled_blocks()}

EACH_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
NEEDS_NUMBA = pytest.mark.skipif("numba" not in TABLES, reason="the extra polyad[fast] is missing")


def problem_of(shape, n=23, n_outputs=4, loss="log", dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, dtype=dtype, generator=generator)
    weight = torch.rand(n, dtype=dtype, generator=generator) + 0.5
    if loss == "log":
        classes = torch.randint(n_outputs, (n,), generator=generator)
        target = torch.nn.functional.one_hot(classes, n_outputs).to(dtype)
    else:
        target = torch.randn(n, n_outputs, dtype=dtype, generator=generator)
    return Problem(x, target, weight / weight.mean(), loss)


def network_of(shape, rank=2, activation="tanh", dtype=torch.float64, **biases):
    generator = torch.Generator().manual_seed(1)
    return RankRNet(shape, 7, 4, rank, activation, dtype=dtype, generator=generator, **biases)


def both(table, monkeypatch, network, problem, steps, epochs=3):
    """Fit with the blocks of ``table`` and by the reference; return the two and histories."""
    monkeypatch.setattr(solver, "choose_blocks", lambda: table)
    seeded = [torch.Generator().manual_seed(2) for _ in range(2)]
    fast = alternating(network, problem, Stopping(epochs), steps, generator=seeded[0])
    plain = alternating_reference(network, problem, Stopping(epochs), steps, generator=seeded[1])
    return fast, plain


def assert_same_trajectory(fast, plain, atol):
    for name, value in plain[0].state_dict().items():
        assert_close(fast[0].state_dict()[name], value, atol=atol, rtol=0, msg=name)
    assert_close(fast[1].loss, plain[1].loss, atol=atol, rtol=atol)
    assert_close(fast[1].score, plain[1].score, atol=1e-6, rtol=1e-6)


@EACH_TABLE
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(
    "shape", [(6,), (4, 9), (3, 4, 11), (2, 3, 2, 5), (2, 2, 3, 2, 2)], ids=str
)
def test_every_order_and_rank_follows_the_reference(table, monkeypatch, shape, rank):
    steps = Steps(learning_rate=0.01, inner_steps=4, batch_size=9)  # 9 + 9 + 5 samples
    fast, plain = both(table, monkeypatch, network_of(shape, rank), problem_of(shape), steps)
    assert_same_trajectory(fast, plain, 1e-9)


@EACH_TABLE
@pytest.mark.parametrize("loss", ["log", "squared"])
@pytest.mark.parametrize("activation", blocks.KINDS)
def test_every_activation_and_loss_follows_the_reference(table, monkeypatch, activation, loss):
    shape = (3, 4, 6)
    problem = problem_of(shape, loss=loss)
    fast, plain = both(table, monkeypatch, network_of(shape, 2, activation), problem, Steps(0.01))
    assert_same_trajectory(fast, plain, 1e-9)


@EACH_TABLE
@pytest.mark.parametrize("hidden_bias", [True, False])
@pytest.mark.parametrize("output_bias", [True, False])
def test_biases_are_stepped_where_there_are_any(table, monkeypatch, hidden_bias, output_bias):
    network = network_of((3, 5), hidden_bias=hidden_bias, output_bias=output_bias)
    steps = Steps(0.01, inner_steps=3, batch_size=None, weight_decay=0.3)
    fast, plain = both(table, monkeypatch, network, problem_of((3, 5)), steps)
    assert_same_trajectory(fast, plain, 1e-9)


@EACH_TABLE
@pytest.mark.parametrize("batch_size", [1, 4, 22, 23, 100, None])
def test_every_leftover_batch_follows_the_reference(table, monkeypatch, batch_size):
    steps = Steps(0.003, inner_steps=2, batch_size=batch_size)
    fast, plain = both(table, monkeypatch, network_of((4, 5)), problem_of((4, 5)), steps)
    assert_same_trajectory(fast, plain, 1e-9)


@EACH_TABLE
def test_single_precision_stays_single_and_follows_the_reference(table, monkeypatch):
    shape = (3, 3, 20)
    network = network_of(shape, dtype=torch.float32)
    problem = problem_of(shape, dtype=torch.float32)
    fast, plain = both(table, monkeypatch, network, problem, Steps())
    assert fast[0].output.weight.dtype == torch.float32
    assert_same_trajectory(fast, plain, 2e-5)


@EACH_TABLE
def test_same_seed_gives_the_same_numbers(table, monkeypatch):
    monkeypatch.setattr(solver, "choose_blocks", lambda: table)
    network, problem = network_of((3, 4, 11)), problem_of((3, 4, 11))
    fits = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(5)
        fits.append(alternating(network, problem, Stopping(3), Steps(), generator=generator)[0])
    for a, b in zip(fits[0].parameters(), fits[1].parameters(), strict=True):
        assert torch.equal(a, b)


@EACH_TABLE
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_huge_outputs_and_pre_activations_stay_finite(table, monkeypatch, activation):
    network = network_of((3, 5), activation=activation)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 1e3
    fast, plain = both(table, monkeypatch, network, problem_of((3, 5)), Steps(), epochs=1)
    assert math.isfinite(fast[1].loss[0])
    assert_close(fast[1].loss, plain[1].loss, atol=1e-6, rtol=1e-6)


@EACH_TABLE
def test_one_block_call_takes_all_steps_of_a_batch(table, monkeypatch):
    """No clock: an epoch is D + 1 blocks on each batch, whatever the number of inner steps."""
    calls = dict.fromkeys(blocks.Blocks._fields, 0)

    def counted(name):
        def call(*arguments):
            calls[name] += 1
            return getattr(table, name)(*arguments)

        return call

    monkeypatch.setattr(
        solver, "choose_blocks", lambda: blocks.Blocks(*map(counted, blocks.Blocks._fields))
    )
    products = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *a, **k: products.append(1) or mm(*a, **k))
    network, problem = network_of((3, 4, 11)), problem_of((3, 4, 11))
    steps = Steps(inner_steps=50, batch_size=9)
    alternating(network, problem, Stopping(1), steps, generator=torch.Generator())
    batches = 3
    assert calls == {
        "mode_block": 3 * batches,
        "output_block": batches,
        "hidden": batches,
        "open_left": batches,
        "open_right": batches,
    }
    assert len(products) == 2 * batches  # two large matrix products for three modes


@EACH_TABLE
def test_buffers_are_allocated_in_the_first_epoch_only(table, monkeypatch):
    monkeypatch.setattr(solver, "choose_blocks", lambda: table)
    network, problem = copy.deepcopy(network_of((3, 4, 11))), problem_of((3, 4, 11))
    sweep = solver._CpuSweep(network, problem, Steps(batch_size=9))
    sweep()
    first = [{k: v.ctypes.data for k, v in batch.buffers.items()} for batch in sweep.batches]
    sweep()
    second = [{k: v.ctypes.data for k, v in batch.buffers.items()} for batch in sweep.batches]
    assert first == second
    terms = 7 * 2
    held = sum(v.size for batch in sweep.batches for v in batch.buffers.values())
    assert held == len(problem) * terms * (3 * 4 + 11 + 3 + 4)


def test_without_numba_the_numpy_blocks_serve(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert blocks.choose_blocks() is blocks.NUMPY


@NEEDS_NUMBA
def test_with_numba_the_compiled_blocks_serve():
    assert blocks.choose_blocks() is blocks.compiled_blocks()


@NEEDS_NUMBA
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_exponential_is_right_to_the_last_bits(dtype):
    from polyad.fitting.kernels import _expm1

    edge = 87 if dtype == np.float32 else 700
    y = np.concatenate([np.linspace(-edge, edge, 9999), np.linspace(-1, 1, 9999)]).astype(dtype)
    expected = np.expm1(y.astype(np.longdouble))
    _expm1(y, np.empty_like(y))
    wrong = np.abs(y - expected) / np.maximum(np.abs(expected), np.finfo(dtype).tiny)
    assert wrong.max() < 4 * np.finfo(dtype).eps


@NEEDS_NUMBA
@pytest.mark.parametrize("kind", blocks.KINDS)
def test_compiled_activations_let_nan_through(kind):
    from polyad.fitting.kernels import hidden

    z = np.array([[[0.5, np.nan, -0.5]]])
    u = hidden(z, np.ones((1, 1)), np.empty((1, 0)), blocks.KINDS[kind])
    assert np.isnan(u).tolist() == [[False, True, False]]


@NEEDS_NUMBA
def test_compiled_blocks_work_where_no_cache_can_be_written(tmp_path):
    """A read-only install for a user without a home directory."""
    script = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # no place is writable
import numpy as np
from polyad.fitting.kernels import hidden
print(hidden(np.ones((1, 2, 3)), np.ones((1, 2)), np.empty((1, 0)), 3))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(blocks.__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[2. 2. 2.]]"
