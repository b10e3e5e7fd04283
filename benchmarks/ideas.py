"""Newer ideas on top of the rank-1 network, each alone: prototypes, pairs of modes, pruned ranks.

    python -m benchmarks.ideas [--pavia UPavia_Subset.mat] [--potsdam FOLDER]

Appends one JSON line per (scene, protocol, seed, method) to docs/results/ideas.jsonl, skips what is
there, and writes the tables of docs/results/ideas.md from the lines. The settings of each idea are
chosen on seeds 100 to 104, one for all scenes, and shown on seeds 0 to 9. The network works alone:
nothing is smoothed or propagated. A test holds the base row against `RankRClassifier`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score, recall_score
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot

from polyad import RankRClassifier
from polyad.estimators.base import HEAD_START, JOINT_DEFAULTS
from polyad.fitting.axes import PrincipalAxes
from polyad.fitting.joint import HEAD_STEPS
from polyad.fitting.problem import Problem
from polyad.scene.learn.protocols import PROTOCOLS
from polyad.scene.learn.sampling import Split, per_class
from polyad.scene.learn.steps.experts import Expert
from polyad.scene.learn.steps.whitening import NoiseWhitening
from polyad.scene.raster.patches import extract_patches
from polyad.scene.raster.pixels import valid_pixels
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

PAGE = Path(__file__).parent.parent / "docs/results/ideas.md"
RECORDS = PAGE.with_suffix(".jsonl")
MARK = "<!-- benchmarks/ideas.py writes everything below -->\n"
DEVELOPMENT, SHOWN = range(100, 105), range(10)
HIDDEN, EPOCHS, PATIENCE, TOL, DEVIATION = 75, 200, 10, 1e-4, 0.1  # as of RankRClassifier
PRUNED = 0.05  # terms below this share of the largest are taken out
TILE, FOLDS = 32, 7  # of Potsdam
Array = np.ndarray[Any, Any]
Record = dict[str, Any]
Setting = tuple[float, ...]
PULL, COSINE, LASSO = "prototype pull", "prototype pull, cosine rule", "rank 4, terms pruned"
GRIDS: dict[str, list[Setting]] = {
    PULL: list(product((0.02, 0.1, 0.5), (0.2, 0.5), (0, 1))),  # strength, margin, all steps
    COSINE: list(product((0.02, 0.1, 0.5), (0.2, 0.5), (0, 1))),
    LASSO: list(product((0.01, 0.1, 1.0), (0, 1))),  # strength, refit from the start
}
PAIRS = {
    "shared": "pairs of modes beside the separable term, same factors",
    "separable": "pairs of modes, separable",
    "full": "pairs of modes, full matrices",
}


@dataclass(frozen=True)
class Net:
    """A network whose hidden layer is told by how its dense weight follows from parameters."""

    dense: Callable[[list[Tensor]], Tensor]  # (Q, I, J, K)
    parameters: list[Tensor]
    output: Tensor  # (C, Q)
    biases: list[Tensor]  # (Q,) and (C,)

    def hidden(self, x: Tensor) -> Tensor:
        """Return the hidden representation (n, Q) of samples (n, I, J, K)."""
        weight = self.dense(self.parameters)
        return torch.tanh(x.flatten(1) @ weight.flatten(1).T + self.biases[0])

    def logits(self, hidden: Tensor) -> Tensor:
        """Return (n, C)."""
        return hidden @ self.output.T + self.biases[1]

    @property
    def n_weights(self) -> int:
        """Nonzero parameters without biases, as the paper counts them."""
        return sum(int((p != 0).sum()) for p in [*self.parameters, self.output])


@dataclass(frozen=True)
class Task:
    """Training samples in the solver's coordinates, and what is needed to predict."""

    problem: Problem
    test: Tensor
    means: list[Tensor]  # the averaging vector of each mode
    decay: float
    seed: int

    @classmethod
    def of(cls, train: Array, y: Array, test: Array, decay: float, seed: int) -> Task:
        """Turn samples (n, I, J, K) into the principal axes, as the joint solver does."""
        x, target = torch.from_numpy(train), one_hot(torch.from_numpy(y)).to(torch.float32)
        problem = Problem(x, target, torch.ones(len(x)), "log")
        axes = PrincipalAxes.of(problem, -1)
        means = [torch.full((size,), 1 / size) for size in train.shape[1:]]
        means[-1] = means[-1] @ axes.axes
        return cls(axes.project(problem), torch.from_numpy(test) @ axes.axes, means, decay, seed)


def separable(factors: list[Tensor]) -> Tensor:
    """Return the sum of rank-one terms: the Rank-R unit."""
    return torch.einsum("qri,qrj,qrk->qijk", *factors)


def cp_start(task: Task, hidden: int = HIDDEN, rank: int = 1) -> Net:
    """Return the start of the package's joint solver."""
    model = RankRClassifier(rank, hidden, random_state=task.seed)
    net = model._network(task.problem, model._generator())
    factors, biases = [*net.hidden.factors], [net.hidden.bias, net.output.bias]
    return Net(separable, factors, net.output.weight, biases)


def pair_start(task: Task, kind: str) -> Net:
    """Return a start of pairs of modes, with about as many weights as the rank-1 network.

    A pair does not look at the third mode but through its mean. ``separable`` gives each pair two
    factors of its own, ``full`` a matrix; ``shared`` takes the factors of the rank-one term.
    """
    i, j, k = task.problem.x.shape[1:]
    classes = task.problem.target.shape[1]
    sizes = {"shared": i + j + k, "separable": 2 * (i + j + k), "full": i * k + j * k + i * j}
    hidden = round(HIDDEN * (i + j + k + classes) / (sizes[kind] + classes))
    net = cp_start(task, hidden, {"shared": 1, "separable": 2, "full": min(i, j, k)}[kind])
    rows, columns, bands = ([mean.expand(hidden, -1)] for mean in task.means)

    def dense(parameters: list[Tensor]) -> Tensor:
        if kind == "full":
            ik, jk, ij = parameters
            by_row = torch.einsum("qik,qj->qijk", ik, columns[0])
            by_column = torch.einsum("qjk,qi->qijk", jk, rows[0])
            return by_row + by_column + torch.einsum("qij,qk->qijk", ij, bands[0])
        a, b, c = (list(factor.unbind(1)) for factor in parameters)
        if kind == "shared":
            modes = [a + a + rows + a, b + columns + b + b, c + c + c + bands]
        else:
            modes = [a[:1] + rows + a[1:], columns + b, c + bands]
        return separable([torch.stack(mode, dim=1) for mode in modes])

    if kind == "full":
        a, b, c = net.parameters
        matrices = [torch.einsum("qri,qrk->qik", *pair) for pair in ((a, c), (b, c), (a, b))]
        net = replace(net, parameters=matrices)
    low, high = -20.0, 20.0  # logarithm of the scale at which units have the package's deviation
    for _ in range(50):
        scale = (low + high) / 2
        weight = dense([p.detach() * math.exp(scale) for p in net.parameters]).flatten(1)
        large = (task.problem.x.flatten(1) @ weight.T).square().mean().sqrt() > DEVIATION
        low, high = (low, scale) if large else (scale, high)
    return replace(net, dense=dense, parameters=[p * math.exp(low) for p in net.parameters])


Extra = Callable[[Net, Tensor, Tensor], Tensor]  # network, hidden (n, Q), targets (n,)


def descend(
    net: Net, task: Task, extra: Extra | None = None, steps: int | None = None
) -> tuple[Net, int]:
    """Take Adam's steps as the joint solver does, or so many; return the network and the number."""
    weights = [p.detach().clone().requires_grad_() for p in [*net.parameters, net.output]]
    biases = [p.detach().clone().requires_grad_() for p in net.biases]
    net = Net(net.dense, weights[:-1], weights[-1], biases)
    free = {"params": biases, "weight_decay": 0.0}
    adam = torch.optim.AdamW([{"params": weights, "weight_decay": task.decay}, free])
    target = task.problem.target.argmax(dim=1)
    best, waited, step = math.inf, 0, 0
    while step < (steps or EPOCHS) and (steps or waited < PATIENCE):
        step += 1
        head = 1 + HEAD_START * math.exp(-step / HEAD_STEPS)
        for group in adam.param_groups:
            group["lr"] = JOINT_DEFAULTS["learning_rate"] * head
        hidden = net.hidden(task.problem.x)
        loss = cross_entropy(net.logits(hidden), target)
        if extra is not None:
            loss = loss + extra(net, hidden, target)
        adam.zero_grad()
        loss.backward()
        adam.step()
        now = float(loss.detach())
        best, waited = (now, 0) if now < best - TOL else (best, waited + 1)
    return net, step


def class_cosines(hidden: Tensor, anchors: Tensor, target: Tensor) -> Tensor:
    """Return the cosine of each of ``hidden`` (n, Q) to the class means of ``anchors``: (n, C)."""
    classes = one_hot(target).to(anchors)
    means = (classes.T @ anchors) / classes.sum(dim=0)[:, None]
    return normalize(hidden) @ normalize(means).T


def pull(strength: float, margin: float) -> Extra:
    """Pull samples to the mean of their class, and ahead of any other mean by a margin."""

    def loss(_: Net, hidden: Tensor, target: Tensor) -> Tensor:
        cosines = class_cosines(hidden, hidden, target)
        own = cosines.gather(1, target[:, None])[:, 0]
        rival = cosines.scatter(1, target[:, None], -2.0).amax(dim=1)
        return strength * ((1 - own) + torch.relu(margin - own + rival)).mean()

    return loss


def term_norms(net: Net) -> Tensor:
    """Return the norm (Q, R) of each rank-one term."""
    return torch.stack([f.norm(dim=2) for f in net.parameters]).prod(dim=0)


def lasso(strength: float) -> Extra:
    """Penalize the norm of each rank-one term: terms are groups, and small ones vanish."""
    return lambda net, *_: strength * term_norms(net).sum(dim=1).mean()


def pruned(net: Net, values: Net) -> Net:
    """Return ``values`` without the terms that are small in ``net``; zero factors stay zero."""
    norms = term_norms(net).detach()
    kept = (norms > PRUNED * norms.max()).to(norms)[..., None]
    return replace(values, parameters=[f * kept for f in values.parameters])


def predict(net: Net, task: Task, cosine: bool = False) -> Array:
    """Predict by softmax, or by the nearest class mean of the hidden representation, in angle."""
    with torch.no_grad():
        anchors, hidden = net.hidden(task.problem.x), net.hidden(task.test)
        cosines = class_cosines(hidden, anchors, task.problem.target.argmax(dim=1))
        return (cosines if cosine else net.logits(hidden)).argmax(dim=1).numpy()


def fits(
    task: Task, asked: dict[str, list[Setting]]
) -> Iterator[tuple[str, Setting, Array, Net, int]]:
    """Yield method, setting, predictions, network and steps of the base, controls and ideas."""
    start, wide = cp_start(task), cp_start(task, rank=4)
    net, usual = descend(start, task)
    yield "base: rank 1", (), predict(net, task), net, usual
    yield "control: base, cosine rule", (), predict(net, task, cosine=True), net, usual
    net, steps = descend(start, task, steps=EPOCHS)
    yield "control: base, all 200 steps", (), predict(net, task), net, steps
    for setting in dict.fromkeys(asked[PULL] + asked[COSINE]):
        strength, margin, all_steps = setting
        net, steps = descend(start, task, pull(strength, margin), EPOCHS if all_steps else usual)
        for name in (PULL, COSINE):
            if setting in asked[name]:
                yield name, setting, predict(net, task, cosine=name == COSINE), net, steps
    for kind, name in PAIRS.items():
        net, steps = descend(pair_start(task, kind), task)
        yield name, (), predict(net, task), net, steps
    net, steps = descend(wide, task)
    yield "control: rank 4, nothing pruned", (), predict(net, task), net, steps
    for strength, anew in asked[LASSO]:
        full, first = descend(wide, task, lasso(strength), EPOCHS)
        net, steps = descend(pruned(full, wide if anew else full), task)
        yield LASSO, (strength, anew), predict(net, task), net, first + steps


@dataclass(frozen=True)
class Scene:
    """Components of a scene, its labels, and the view that the package has for it."""

    name: str
    cube: Array
    labels: Array
    expert: Expert

    @classmethod
    def open(cls, name: str, source: str, truth: str) -> Scene:
        scene = open_scene(source).load()
        labels = open_labels(truth, scene).values.astype(np.int64)
        labels = np.where(np.bincount(labels.ravel())[labels] < 20, 0, labels)  # too few to test
        values = scene.values.astype(np.float32)
        valid = valid_pixels(values, scene.rio.nodata)
        expert, view = Expert("whitened", 5, 15), NoiseWhitening().fit(values, valid)
        if name == "potsdam":  # where windows of whitened spectra fail
            expert, view = Expert("plain", 3, 300), view.principal(40)
        return cls(name, view.transform(values) * valid[..., None], labels, expert)

    def splits(self, protocol: str, seed: int) -> list[Split]:
        """Return one split, or one for each fold of tiles."""
        if protocol != "other-tiles-10":
            return [PROTOCOLS[protocol].split(self.labels, seed)]
        rows, cols = np.indices(self.labels.shape)
        tile = rows // TILE * (self.labels.shape[1] // TILE) + cols // TILE
        labeled = np.random.default_rng(seed).permutation(np.unique(tile[self.labels > 0]))
        held = [np.isin(tile, labeled[fold::FOLDS]) for fold in range(FOLDS)]
        train = [per_class(np.where(h, 0, self.labels), 10, seed).train for h in held]
        return [
            Split(t, np.argwhere(h & (self.labels > 0))) for t, h in zip(train, held, strict=True)
        ]

    def task(self, split: Split, seed: int) -> tuple[Task, Array, Array]:
        """Return the task, its classes and the true classes of its test pixels."""
        classes, y = np.unique(self.labels[tuple(split.train.T)], return_inverse=True)
        test = split.test[np.isin(self.labels[tuple(split.test.T)], classes)]
        patches = [
            extract_patches(self.cube, *p.T, self.expert.window) for p in (split.train, test)
        ]
        train, ahead = (windows / patches[0].std() for windows in patches)
        task = Task.of(train, y, ahead, self.expert.decay(len(y)), seed)
        return task, classes, self.labels[tuple(test.T)]


def outcomes(
    scene: Scene, protocol: str, seed: int, asked: dict[str, list[Setting]]
) -> Iterator[Record]:
    """Yield one record per method and setting, pooled over the splits of a seed."""
    pooled: dict[tuple[str, Setting], list[tuple[Array, Array, int, int]]] = {}
    for split in scene.splits(protocol, seed):
        task, classes, true = scene.task(split, seed)
        for method, setting, predicted, net, steps in fits(task, asked):
            row = (true, classes[predicted], net.n_weights, steps)
            pooled.setdefault((method, setting), []).append(row)
    for (method, setting), rows in pooled.items():
        true, predicted = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
        known: dict[str, Any] = {"labels": np.unique(true), "average": "macro"}
        yield {
            "scene": scene.name,
            "protocol": protocol,
            "seed": seed,
            "method": method,
            "setting": list(setting),
            "oa": float((true == predicted).mean()),
            "aa": float(recall_score(true, predicted, **known)),
            "macro_f1": float(f1_score(true, predicted, **known)),
            "n_weights": round(float(np.mean([row[2] for row in rows]))),
            "steps": round(float(np.mean([row[3] for row in rows]))),
        }


def read_records() -> list[Record]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def choose(records: list[Record]) -> dict[str, list[Setting]]:
    """Return the setting of each idea that is right most often on the development seeds."""
    means: dict[tuple[str, Setting], list[float]] = {}
    for r in records:  # every cell has as many seeds, so the mean over records is that over cells
        if r["seed"] in DEVELOPMENT:
            means.setdefault((r["method"], tuple(r["setting"])), []).append(r["oa"])
    return {m: [max(grid, key=lambda s: np.mean(means[m, s]))] for m, grid in GRIDS.items()}


def tables(records: list[Record]) -> str:
    """Return markdown: accuracy and macro-F1 with their gain over the base, and sizes."""
    shown = [r for r in records if r["seed"] in SHOWN]
    cells = list(dict.fromkeys((r["scene"], r["protocol"]) for r in shown))
    methods = list(dict.fromkeys(r["method"] for r in shown))
    head = [
        "| method | " + " | ".join(map(" ".join, cells)) + " |",
        "|---" * (len(cells) + 1) + "|",
    ]

    def values(key: str, cell: tuple[str, str], method: str) -> Array:
        where = (*cell, method)
        mine = {
            r["seed"]: r[key] for r in shown if (r["scene"], r["protocol"], r["method"]) == where
        }
        return np.array([mine[seed] for seed in sorted(mine)])

    def scores(key: str, cell: tuple[str, str], method: str) -> str:
        mine, base = (100 * values(key, cell, m) for m in (method, methods[0]))
        text, gain = f"{mine.mean():.1f} ± {mine.std(ddof=1):.1f}", mine - base
        error = gain.std(ddof=1) / len(gain) ** 0.5
        return text if method == methods[0] else f"{text} ({gain.mean():+.1f} ± {error:.1f})"

    def sizes(_: str, cell: tuple[str, str], method: str) -> str:
        means = [values(key, cell, method).mean() for key in ("n_weights", "steps")]
        return "{:,.0f} / {:.0f}".format(*means)

    parts = []
    for title, key, entry in (
        ("## Overall accuracy, %", "oa", scores),
        ("## Macro-F1, %", "macro_f1", scores),
        ("## Weights / steps", "", sizes),
    ):
        rows = [f"| {m} | " + " | ".join(entry(key, c, m) for c in cells) + " |" for m in methods]
        parts.append("\n".join([title, "", *head, *rows]))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pavia", type=Path, help="UPavia_Subset.mat, fetched by hand")
    parser.add_argument("--potsdam", type=Path, help="folder of potsdam_train.tif and its labels")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cells = [(("indian-pines",) * 3, ["random-10", "blocks-10", "other-fields-10"])]
    if options.pavia:
        names = ("pavia-crop", f"{options.pavia}:paviaU", f"{options.pavia}:paviaU_gt")
        cells.append((names, ["random-10", "blocks-10"]))
    if options.potsdam:
        files = [str(options.potsdam / f"potsdam_train{end}.tif") for end in ("", "_labels")]
        cells.append((("potsdam", *files), ["other-tiles-10"]))
    scenes = [(Scene.open(*names), protocols) for names, protocols in cells]
    for seeds, (scene, protocols) in product((DEVELOPMENT, SHOWN), scenes):
        asked = GRIDS if seeds is DEVELOPMENT else choose(read_records())
        for protocol, seed in product(protocols, seeds):
            key = (scene.name, protocol, seed)
            if key in {(r["scene"], r["protocol"], r["seed"]) for r in read_records()}:
                continue
            lines = [json.dumps(record) + "\n" for record in outcomes(scene, protocol, seed, asked)]
            with RECORDS.open("a") as file:  # one write: a killed run leaves whole seeds
                file.write("".join(lines))
            print(*key, file=sys.stderr, flush=True)
    PAGE.write_text(PAGE.read_text().split(MARK)[0] + MARK + "\n" + tables(read_records()))


if __name__ == "__main__":
    main()
