"""`LazyRankRLinear` becomes the layer that the first batch asks for."""

import copy
import io

import pytest
import torch
from torch import nn

from polyad.core import LazyRankRLinear, RankRLinear
from polyad.errors import InputError


def test_the_first_batch_decides_the_shape_and_the_class():
    layer = LazyRankRLinear(6, rank=2)
    assert layer(torch.randn(5, 3, 4)).shape == (5, 6)
    assert type(layer) is RankRLinear
    assert layer.in_shape == (3, 4)
    assert [tuple(f.shape) for f in layer.factors] == [(6, 2, 3), (6, 2, 4)]
    assert layer(torch.randn(2, 7, 3, 4)).shape == (2, 7, 6)  # any batch from then on


def test_it_draws_what_the_layer_itself_draws_and_nothing_before():
    x = torch.randn(5, 3, 4)
    torch.manual_seed(3)
    wanted = RankRLinear((3, 4), 6, rank=2)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    lazy = LazyRankRLinear(6, rank=2)
    assert torch.equal(torch.get_rng_state(), before)
    lazy(x)
    for one, other in zip(lazy.parameters(), wanted.parameters(), strict=True):
        assert torch.equal(one, other)


def test_device_and_type_asked_for_before_the_first_batch_are_kept():
    model = nn.Sequential(LazyRankRLinear(6, rank=2, bias=False), nn.Tanh()).double()
    assert model(torch.randn(5, 3, 4, dtype=torch.float64)).dtype == torch.float64
    assert {p.dtype for p in model.parameters()} == {torch.float64}


def test_weights_of_a_layer_load_before_any_batch():
    layer = RankRLinear((3, 4), 6, rank=2)
    file = io.BytesIO()
    torch.save(nn.Sequential(layer).state_dict(), file)
    file.seek(0)
    lazy = nn.Sequential(LazyRankRLinear(6, rank=2))
    lazy.load_state_dict(torch.load(file))
    x = torch.randn(5, 3, 4)
    assert torch.equal(lazy(x), layer(x))
    assert type(lazy[0]) is RankRLinear


def test_before_the_first_batch_it_is_saved_reset_and_copied_as_torchs_lazy_layers_are():
    lazy, other = (nn.Sequential(LazyRankRLinear(6, 2), nn.LazyLinear(3)) for _ in range(2))
    lazy.load_state_dict(other.state_dict())
    lazy[0].reset_parameters()
    twin = copy.deepcopy(lazy)
    assert lazy(torch.randn(5, 3, 4)).shape == (5, 3)
    assert twin(torch.randn(5, 4, 5)).shape == (5, 3)


@pytest.mark.filterwarnings("ignore:the Rank-R layer has:UserWarning")
def test_from_a_dense_weight_it_is_no_longer_lazy():
    layer, error = LazyRankRLinear.from_dense(torch.randn(6, 12), (3, 4))
    assert type(layer) is RankRLinear
    assert error == 0.0


def test_a_single_sample_is_refused_as_first_batch():
    with pytest.raises(InputError, match=r"pass one sample as x\[None\]"):
        LazyRankRLinear(6, rank=2)(torch.randn(4))
