"""Ways of compression: as many seeds and as large as the guide says."""

import pytest
import torch
from torch import nn

from benchmarks import compression


def test_every_entry_has_ten_seeds_and_the_rate_chosen_on_others():
    records = compression.read_records(compression.RECORDS)
    for way in (*compression.SMALLER, *compression.DRAWN):
        for rank in compression.RANKS:
            rows = [r for r in records if (r["way"], r["rank"]) == (way, rank) and r["seed"] < 100]
            assert [r["seed"] for r in rows] == list(range(10))
            assert {r["rate"] for r in rows} == set(compression.rates(records, rank, way))


@pytest.mark.parametrize("rank", compression.RANKS)
def test_every_way_has_the_same_number_of_weights(rank):
    dense, x = nn.Linear(64, 64), torch.rand(30, 8, 8)
    made = [smaller(dense, rank, x) for smaller in compression.SMALLER.values()]
    made += [draw(rank)[0] for draw in compression.DRAWN.values()]
    assert {sum(p.numel() for p in m.parameters() if p.ndim > 1) for m in made} == {1024 * rank}


def test_svd_of_the_outputs_is_nearer_in_outputs_and_keeps_their_mean():
    torch.manual_seed(0)
    dense, x = nn.Linear(64, 64), torch.randn(500, 6) @ torch.randn(6, 64) + torch.randn(64)
    x = (x + 0.1 * torch.randn(500, 64)).reshape(500, 8, 8)
    wanted = dense(x.flatten(1))
    plain, weighted = (compression.truncated_svd(dense, 4, samples) for samples in (None, x))
    assert (weighted(x) - wanted).norm() < 0.5 * (plain(x) - wanted).norm()
    torch.testing.assert_close(weighted(x).mean(0), wanted.mean(0), rtol=1e-3, atol=1e-4)
