"""The comparison of layers compares like with like."""

import pytest
import torch

from benchmarks import layers

SHAPE = (3, 3, 6)


def x():
    return torch.randn(40, *SHAPE, generator=torch.Generator().manual_seed(0))


def test_started_as_our_solver_all_layers_compute_the_same():
    pytest.importorskip("tltorch")
    outputs = []
    for make in layers.LAYERS.values():
        torch.manual_seed(3)
        layer = make(SHAPE)
        layers.start_of_ours(layer, x())
        outputs.append(layer(x()))
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs[2], outputs[0], rtol=1e-4, atol=1e-5)
    assert outputs[0].std() > 0.05


def test_a_case_is_timed_against_the_dense_layer():
    case = layers._case((3, 4), 5, 2, rounds=1)
    assert (case["shape"], case["hidden"], case["n"]) == ((3, 4), 5, 2)
    assert case["over dense"]["median"] > 0
    assert case["over dense, training"]["median"] > 0
