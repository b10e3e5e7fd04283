"""A PyTorch user puts the layer into a network, trains it, saves it, and makes a dense one small.

The programs run by themselves, with the installed polyad; the second one begins with the file that
the first one left.
"""

import pytest


def test_a_network_is_trained_saved_and_loaded_in_another_program(user):
    user.runs(
        NETWORK
        + """
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(60):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X), y)
    loss.backward()
    optimizer.step()
assert (model(X).argmax(1) == y).float().mean() > 0.9
torch.save(model.state_dict(), "weights.pt")
torch.save(model(X), "logits.pt")
"""
    )
    user.runs(
        NETWORK
        + """
model.load_state_dict(torch.load("weights.pt"))
torch.testing.assert_close(model(X), torch.load("logits.pt"), rtol=0, atol=0)
"""
    )


@pytest.mark.slow
def test_a_dense_layer_becomes_a_rank_r_layer(user):
    user.runs("""
import warnings
import torch
from torch import nn
from polyad import RankRLinear

torch.manual_seed(0)
dense = nn.Linear(4 * 4 * 6, 8)
X = torch.randn(5, 4, 4, 6)
smaller, error = RankRLinear.from_dense(dense, (4, 4, 6), rank=2)
assert 0 < error < 1
assert sum(p.numel() for p in smaller.parameters()) < dense.weight.numel()
fitted, _ = RankRLinear.from_dense(dense, (4, 4, 6), rank=2, samples=X)
misses = [(layer(X) - dense(X.flatten(1))).norm() for layer in (smaller, fitted)]
assert misses[1] < misses[0]

with warnings.catch_warnings(record=True) as caught:
    exact, error = RankRLinear.from_dense(dense, (4, 4, 6))
assert error == 0
assert "has 1,792 weights, the dense layer has 768" in str(caught[0].message)
torch.testing.assert_close(exact(X), dense(X.flatten(1)), rtol=1e-4, atol=1e-4)
""")


NETWORK = """
import torch
from torch import nn
from polyad import RankRLinear

torch.manual_seed(0)
y = torch.arange(64) % 2
X = torch.randn(64, 5, 5, 10)  # 64 patches of 5 x 5 pixels and 10 bands
X[y == 1] += torch.hann_window(10)
model = nn.Sequential(RankRLinear((5, 5, 10), 8, rank=2), nn.Tanh(), nn.Linear(8, 2))
"""
