"""Heads of a ResNet-like and a ViT-like network: dense, or a Rank-R layer that keeps the tensor.

    python examples/heads.py

A convolutional network ends in maps ``(channels, height, width)``, a transformer in tokens
``(tokens, width)``. Its head is often a dense layer on the flattened tensor. Here it is a Rank-R
layer instead, on scikit-learn's digits with 300 labels: accuracy on the other 1,497, parameters of
the head, mean and deviation over seeds.

A Rank-R head is drawn at the start; or it is the dense head that was trained, decomposed
(`from_dense`); or that one with the whole network trained on. Beside them stands the mean of the
tensor over its places, which is what such networks have when they do not flatten.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from polyad import RankRLinear

CLASSES = 10


class Residual(nn.Module):
    """Two convolutions beside what they are given."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.inner(x))


class Tokens(nn.Module):
    """Patches of 2 x 2 pixels as tokens, with their places, through transformer blocks."""

    def __init__(self, width: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, 2, stride=2)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        block = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)  # (n, 16, width)
        return self.blocks(tokens + self.places)


def resnet() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(stem, Residual(16), nn.MaxPool2d(2), Residual(16))


BODIES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ResNet-like": (resnet, (16, 4, 4)),
    "ViT-like": (Tokens, (16, 32)),
}


def train(model: nn.Module, X: Tensor, y: Tensor, epochs: int, rate: float = 2e-3) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()
            optimizer.step()
        schedule.step()


def accuracy(model: nn.Module, X: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return 100 * float((model(X).argmax(1) == y).float().mean())


def size(head: nn.Module) -> int:
    return sum(p.numel() for p in head.parameters())


def heads(name: str, data: tuple[Tensor, ...], seed: int, epochs: int) -> dict[str, list[float]]:
    """Return accuracy and parameters of every head on one body, for one seed."""
    X, y, Z, truth = data
    make, shape = BODIES[name]
    rows: dict[str, list[float]] = {}

    def fitted(label: str, head: nn.Module) -> nn.Sequential:
        torch.manual_seed(seed)
        model = nn.Sequential(make(), head)
        train(model, X, y, epochs)
        rows[label] = [accuracy(model, Z, truth), size(head)]
        return model

    torch.manual_seed(1000 + seed)
    flat = int(np.prod(shape))
    dense = fitted("dense", nn.Sequential(nn.Flatten(), nn.Linear(flat, CLASSES)))
    places = nn.Sequential(Mean(shape), nn.Linear(shape[0 if len(shape) == 3 else 1], CLASSES))
    fitted("mean over places", places)
    for rank in (1, 2, 4):
        fitted(f"rank {rank}, drawn", RankRLinear(shape, CLASSES, rank))
        linear = dense[1][1]
        head, _ = RankRLinear.from_dense(linear.weight, shape, rank, bias=linear.bias.detach())
        small = nn.Sequential(dense[0], head)
        rows[f"rank {rank}, of the dense one"] = [accuracy(small, Z, truth), size(head)]
        kept = {k: v.clone() for k, v in dense[0].state_dict().items()}
        torch.manual_seed(seed)
        train(small, X, y, max(1, epochs // 3), rate=5e-4)
        rows[f"rank {rank}, of the dense one, trained on"] = [accuracy(small, Z, truth), size(head)]
        dense[0].load_state_dict(kept)
    return rows


class Mean(nn.Module):
    """The mean over places: of the last two axes of maps, of the tokens of a sequence."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = (2, 3) if len(shape) == 3 else (1,)

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=self.axes)


def main(argv: list[str] | None = None) -> dict[tuple[str, str], float]:
    parser = argparse.ArgumentParser(description="Rank-R heads on digits")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--labels", type=int, default=300)
    options = parser.parse_args(argv)
    images, classes = load_digits(return_X_y=True)
    X = torch.tensor(images.reshape(-1, 1, 8, 8) / 16, dtype=torch.float32)
    y = torch.tensor(classes)
    found: dict[tuple[str, str], float] = {}
    for body in BODIES:
        runs = []
        for seed in range(options.seeds):
            order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
            few, rest = order[: options.labels], order[options.labels :]
            runs.append(heads(body, (X[few], y[few], X[rest], y[rest]), seed, options.epochs))
        print(f"\n{body}, {options.labels} labels, {options.seeds} seeds")
        for label in runs[0]:
            scores = [run[label][0] for run in runs]
            found[body, label] = float(np.mean(scores))
            print(
                f"  {label:<34}{np.mean(scores):6.1f} +- {np.std(scores):.1f}"
                f"{int(runs[0][label][1]):>8,} parameters"
            )
    return found


if __name__ == "__main__":
    main()
