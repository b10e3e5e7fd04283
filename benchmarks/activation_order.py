"""The activation before the sum over the R terms: figures for docs/results/findings.md.

    python -m benchmarks.activation_order

Eq. (13) of the paper writes a hidden unit both as ``g(<W, X>)`` and as ``trace(g(W_d^T Z))``. The
second, read literally, applies ``g`` to each term: ``u_q = sum_r g(<term_qr, X>)``. That is a
Rank-1 network of R * Q units whose output weights are the same for the R units of a group, and is
fitted here as such, by Algorithm 1 with the paper's settings and from the same start as the Rank-R
network: ten labels per class of Indian Pines, R = 2 to 5, seeds 0 to 9, 500 epochs. Writes one JSON
line per fit to docs/results/activation-order.jsonl; fits that are there are not repeated.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.harness import RESULTS, resume
from polyad import RankRClassifier
from polyad.core import RankRNet
from polyad.experiments.runs import SceneEvaluator
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import MODELS, RunSettings
from polyad.fitting import alternating, blocks
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

RECORDS = RESULTS / "activation-order.jsonl"
SCENE, SAMPLES, RANKS, SEEDS, EPOCHS = "indian-pines", 10, (2, 3, 4, 5), range(10), (50, 500)


class TermwiseClassifier(RankRClassifier):
    """`RankRClassifier` with ``u_q = sum_r g(<term_qr, X>)``, fitted by Algorithm 1.

    ``network_`` is the equal Rank-1 network: R * Q units, output weights tied. No hidden bias.
    """

    def _network(self, problem: Any, generator: torch.Generator, rank: int) -> RankRNet:
        network = super()._network(problem, generator, rank)
        factors = {
            f"hidden.factors.{d}": factor.detach().reshape(-1, 1, factor.shape[-1]).clone()
            for d, factor in enumerate(network.hidden.factors)
        }  # (Q R, 1, I_d)
        tied = network.output.weight.detach().repeat_interleave(rank, dim=1)  # (C, Q R)
        return network.like(factors | {"output.weight": tied})

    def _solve(  # type: ignore[override]
        self, network, problem, generator, settings, *, state=None, validation=None, on_epoch=None
    ):
        del state
        stopping = alternating.Stopping(settings["epochs"], self.tol, self.patience)
        rate, batch = settings["learning_rate"], settings["batch_size"]
        steps = alternating.Steps(rate, self.inner_steps, batch, settings["weight_decay"])
        fitted = alternating.fit_alternating(
            network, problem, stopping, steps, generator=generator, validation=validation,
            on_epoch=on_epoch, verbose=bool(self.verbose), sweep=partial(TiedSweep, rank=self.rank),
        )  # fmt: skip
        return *fitted, None


class TiedSweep(alternating._CpuSweep):
    """An epoch of the alternating solver whose output block steps one weight for R units."""

    def __init__(self, network: Any, problem: Any, steps: Any, rank: int) -> None:
        super().__init__(network, problem, steps)
        self.rank = rank
        self.tied = np.ascontiguousarray(self.v[:, ::rank])  # (C, Q)

    def __call__(self) -> tuple[float, float]:
        for mode, inputs in self._contractions():
            w = self.factors[mode].flatten(1).numpy()  # (Q R, I_mode)
            for batch, z in zip(self.batches, inputs, strict=True):
                self._mode_block(z, w, batch)
        self._contract_right()
        w = self._khatri_rao(self.left).reshape(len(w), -1)  # (Q R, P_left)
        inputs = [batch.root for batch in self.batches]
        terms = [blocks.hidden(z, w, self.bias, self.activation) for z in inputs]  # (Q R, n_b)
        hidden = [u.reshape(-1, self.rank, u.shape[-1]).sum(axis=1) for u in terms]  # (Q, n_b)
        for batch, u in zip(self.batches, hidden, strict=True):
            blocks.output_block(u, self.tied, self.c, batch.goal, self.rates)
        self.v[:] = np.repeat(self.tied, self.rank, axis=1)
        outputs = torch.from_numpy(np.concatenate(hidden, axis=1).T @ self.tied.T + self.c)
        return self.problem.mean_loss(outputs), self.problem.score(outputs)


def fit_one(rank: int, seed: int) -> dict[str, Any]:
    """Return the overall accuracies of one fit, by epoch, on the split of the published runs."""
    run = RunSettings(SCENE, f"rank-{rank}", SAMPLES, epochs=max(EPOCHS), seed=seed)
    data = load_scene(run.scene)
    split, labels = run.split(data.labels), data.labels
    model = TermwiseClassifier(
        **MODELS[run.model].settings, epochs=run.epochs, random_state=run.seed
    )
    truth = labels[tuple(split.test.T)]
    found = {}

    def on_epoch(epoch: int, network: RankRNet) -> None:
        if epoch in EPOCHS:
            scene = SceneEvaluator(data.cube, split.test, model.scaler_, run.window)
            predicted = model.classes_[scene.predict(network)]
            found[str(epoch)] = round(float((predicted == truth).mean()), 6)

    train = extract_patches(data.cube, *split.train.T, run.window)
    model.fit(train, labels[tuple(split.train.T)], on_epoch=on_epoch)
    return {"oa": found}


def main() -> None:
    with limit_threads(1):
        resume(RECORDS, [{"rank": r, "seed": s} for s in SEEDS for r in RANKS], fit_one)


if __name__ == "__main__":
    main()
