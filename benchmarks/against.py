"""The published script beside ours: same start, same batches, epoch by epoch.

    python -m benchmarks.against Rank_R_FNN.py [--model rank-1 rank-4] [--epochs 50] [--out against]

The script is the user's file. It is run, in a process of its own, as Python code that the user
chose to run; polyad has no copy of it. Both take turns, one epoch each, so that whatever else the
machine does falls on both, and each counts its own processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyad.core.network import RankRNet
from polyad.errors import InputError
from polyad.estimators.scaler import ModeStandardScaler
from polyad.experiments.runs import SceneEvaluator
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import MODELS, RANKS, RunSettings
from polyad.fitting.alternating import Steps, fit_alternating
from polyad.fitting.epochs import EpochLoop, batch_slices
from polyad.fitting.problem import Problem
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

CHILD = Path(__file__).with_name("against_child.py")
PRECISIONS = ("float64", "float32")
Arrays = list[NDArray[np.floating]]


@dataclass(frozen=True)
class Turn:
    """One epoch of both.

    Attributes
    ----------
    model : str
    precision : {"float64", "float32"}
    epoch : int
    difference : float
        Largest difference of any weight, over the largest weight.
    ours, theirs : float
        Overall accuracy (%) on the test pixels.
    our_seconds, their_seconds : float
        Processor time of the epoch, without classifying.
    """

    model: str
    precision: str
    epoch: int
    difference: float
    ours: float
    theirs: float
    our_seconds: float
    their_seconds: float


def run_against(
    script: str | os.PathLike[str],
    scene: str = "indian-pines",
    models: Sequence[str] = ("rank-1",),
    samples_per_class: int = 10,
    epochs: int = 50,
    seed: int = 0,
    precisions: Sequence[str] = PRECISIONS,
) -> Iterator[Turn]:
    """Fit Rank-R networks with the published script and with polyad, in turns.

    Parameters
    ----------
    script : path-like
        The published ``Rank_R_FNN.py``. **It is executed.**
    scene : str
    models : sequence of str
        ``rank-1``, ``rank-2``, ...
    samples_per_class, epochs, seed : int
    precisions : sequence of str
        The script computes in single precision; in double, rounding is out of the way.

    Yields
    ------
    Turn
    """
    path = Path(script)
    if not path.is_file():
        raise InputError(f"{path} is no file; give the published script, Rank_R_FNN.py")
    for model in models:
        if model not in RANKS:
            raise InputError(f"{model!r} is no Rank-R network; known are {', '.join(RANKS)}")
    for model in models:
        for precision in precisions:
            run = RunSettings(scene, model, samples_per_class, epochs=epochs, seed=seed)
            with limit_threads(1):
                yield from _Duel(path, run, precision).turns()


class _Duel:
    """One model in one precision: the data, the start, and both sides."""

    def __init__(self, script: Path, run: RunSettings, precision: str) -> None:
        self.script, self.run, self.precision = script, run, precision
        data = load_scene(run.scene)
        split = run.split(data.labels)
        patches = extract_patches(data.cube, split.train[:, 0], split.train[:, 1], run.window)
        scaler = ModeStandardScaler().fit(patches)
        x = torch.from_numpy(scaler.transform(patches.astype(np.float64)).astype(precision))
        self.classes, codes = np.unique(data.labels[tuple(split.train.T)], return_inverse=True)
        self.truth = data.labels[tuple(split.test.T)]
        self.evaluator = SceneEvaluator(data.cube, split.test, scaler, run.window)
        settings = MODELS[run.model].settings
        self.steps = Steps(
            settings["learning_rate"], settings["inner_steps"], settings["batch_size"]
        )
        target = torch.eye(len(self.classes), dtype=x.dtype)[codes]
        self.problem = Problem(x, target, torch.ones(len(x), dtype=x.dtype), "log")
        self.network = RankRNet(
            tuple(x.shape[1:]), settings["hidden"], len(self.classes), settings["rank"],
            settings["activation"], hidden_bias=False, start="xavier", dtype=x.dtype,
            generator=torch.Generator().manual_seed(run.seed),
        )  # fmt: skip
        with torch.no_grad():
            self.network.output.bias.zero_()
        self.codes = codes

    def turns(self) -> Iterator[Turn]:
        """Yield one turn per epoch; both sides are stopped when the caller stops."""
        with tempfile.TemporaryDirectory() as folder:
            self._give(Path(folder))
            with _child(self.script, folder) as child:
                found: list[Turn] = []
                clock = {"started": process_time()}

                def on_epoch(epoch: int, network: RankRNet) -> None:
                    ours = process_time() - clock["started"]
                    theirs = _one_epoch(child, self.script)
                    found.append(self._turn(epoch, network, Path(folder), ours, theirs))
                    clock["started"] = process_time()

                fit_alternating(
                    self.network,
                    self.problem,
                    EpochLoop(self.run.epochs, on_epoch=on_epoch),
                    self.steps,
                    generator=self._shuffler(),
                )
                yield from found

    def _shuffler(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.run.seed + 1)

    def _give(self, folder: Path) -> None:
        """Write the samples in the order in which our solver takes them, and our first weights."""
        order = torch.randperm(len(self.problem), generator=self._shuffler())
        slices = batch_slices(len(order), self.steps.batch_size)
        rows, columns, spectral = (f.detach().numpy() for f in self.network.hidden.factors)
        np.savez(
            folder / "given.npz",
            x=self.problem.x[order].numpy(),
            y=self.codes[order.numpy()].astype(np.int64),
            cuts=np.array([0, *(rows.stop for rows in slices)]),
            epochs=np.array(self.run.epochs),
            rows=rows,
            columns=columns,
            spectral=spectral,
            output=self.network.output.weight.detach().numpy(),
        )

    def _turn(
        self, epoch: int, network: RankRNet, folder: Path, ours: float, theirs: float
    ) -> Turn:
        with np.load(folder / "weights.npz") as stored:
            other = [stored[name] for name in stored.files]
        mine = _weights(network)
        largest = max(float(np.abs(w).max()) for w in mine)
        gap = max(float(np.abs(a - b).max()) for a, b in zip(mine, other, strict=True)) / largest
        accuracies = self._accuracy(mine), self._accuracy(other)
        return Turn(self.run.model, self.precision, epoch, gap, *accuracies, round(ours, 6), theirs)

    def _accuracy(self, weights: Arrays) -> float:
        """Return the overall accuracy of a network with these weights on the test pixels, in %."""
        settings = MODELS[self.run.model].settings
        network = RankRNet(
            tuple(self.problem.x.shape[1:]), settings["hidden"], len(self.classes),
            settings["rank"], settings["activation"], hidden_bias=False, dtype=torch.float32,
        )  # fmt: skip
        parts = [*network.hidden.factors, network.output.weight, network.output.bias]
        with torch.no_grad():
            for part, values in zip(parts, weights, strict=True):
                part.copy_(torch.from_numpy(values))
        predicted = self.classes[self.evaluator.predict(network)]
        return round(100 * float((predicted == self.truth).mean()), 4)


def _weights(network: RankRNet) -> Arrays:
    parts = [*network.hidden.factors, network.output.weight, network.output.bias]
    return [part.detach().numpy() for part in parts]


@contextmanager
def _child(script: Path, folder: str) -> Iterator[subprocess.Popen[str]]:
    """Start the script in a process of its own, one thread, and end it in any case."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    child = subprocess.Popen(
        # -P: no folder of polyad on the script's path
        [sys.executable, "-P", str(CHILD), str(script.resolve()), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | threads,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def _one_epoch(child: subprocess.Popen[str], script: Path) -> float:
    """Let the script do its next epoch; return its processor seconds."""
    if child.stdin is None or child.stdout is None or child.stderr is None:
        raise ValueError("the child was started without its pipes")
    try:
        child.stdin.write("\n")
        child.stdin.flush()
        line = child.stdout.readline()
    except BrokenPipeError:
        line = ""
    if not line:
        said = child.stderr.read().strip().splitlines()
        raise InputError(
            f"{script} did not run ({said[-1] if said else 'it said nothing'}); expected is the "
            "published Rank_R_FNN.py as it is, with torch, TensorLy and scikit-learn installed"
        )
    return float(line)


def load_turns(path: str | os.PathLike[str]) -> list[Turn]:
    """Read what `main` wrote."""
    return [Turn(**json.loads(line)) for line in Path(path).read_text().splitlines()]


def summary(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return for each model and precision the differences and the times, as plain values."""
    groups: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns:
        groups.setdefault((turn.model, turn.precision), []).append(turn)
    rows = []
    for (model, precision), group in groups.items():
        ours, theirs = (
            float(np.median([getattr(t, name) for t in group]))
            for name in ("our_seconds", "their_seconds")
        )
        rows.append(
            {
                "model": model,
                "precision": precision,
                "epochs": len(group),
                "first_difference": group[0].difference,
                "last_difference": group[-1].difference,
                "ours": group[-1].ours,
                "theirs": group[-1].theirs,
                "our_ms": 1000 * ours,
                "their_ms": 1000 * theirs,
                "times": theirs / ours,
            }
        )
    return rows


def render_against(turns: Sequence[Turn], command: str) -> str:
    """Return the page."""
    lines = [
        "# The published script beside ours",
        "",
        f"Made by `{command}`; every epoch is in [against.jsonl](against.jsonl). Both start from "
        "the same weights and take the same batches in the same order, one epoch each in turn, on "
        "one thread. Difference: the largest of any weight, over the largest weight. Times: median "
        "processor time of an epoch, classifying left out. Accuracy on the test pixels, %.",
        "",
        "| | epochs | difference after the first | after the last | ours, last | theirs, last "
        "| ours, ms | theirs, ms | times as fast |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in summary(turns):
        lines.append(
            f"| {MODELS[row['model']].title}, {row['precision']} | {row['epochs']} | "
            f"{row['first_difference']:.1e} | {row['last_difference']:.1e} | {row['ours']:.2f} | "
            f"{row['theirs']:.2f} | {row['our_ms']:.1f} | {row['their_ms']:.0f} | "
            f"{row['times']:.1f} |"
        )
    shown = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    lines += ["", "Epoch by epoch: difference of weights; accuracy of ours and of theirs.", ""]
    heads = list(dict.fromkeys(f"{MODELS[t.model].title}, {t.precision}" for t in turns))
    lines += [f"| epoch | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for epoch in sorted({t.epoch for t in turns} & set(shown)):
        cells = {
            f"{MODELS[t.model].title}, {t.precision}": f"{t.difference:.1e}; {t.ours:.2f}, "
            f"{t.theirs:.2f}"
            for t in turns
            if t.epoch == epoch
        }
        lines.append(f"| {epoch} | " + " | ".join(cells.get(head, "") for head in heads) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", type=Path, help="the published Rank_R_FNN.py: IT IS EXECUTED")
    parser.add_argument("--scene", default="indian-pines")
    parser.add_argument("--model", nargs="+", default=["rank-1", "rank-4"])
    parser.add_argument("--samples-per-class", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("against"))
    given = parser.parse_args()
    turns = list(
        run_against(given.script, given.scene, given.model, given.samples_per_class, given.epochs)
    )
    words = ["python", "-m", "benchmarks.against", given.script.name, "--scene", given.scene]
    words += ["--model", *given.model, "--samples-per-class", str(given.samples_per_class)]
    words += ["--epochs", str(given.epochs), "--out", given.out.name]
    given.out.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(turn)) + "\n" for turn in turns)
    (given.out / "against.jsonl").write_text(lines)
    (given.out / "against.md").write_text(render_against(turns, shlex.join(words)))
    print(given.out / "against.md")


if __name__ == "__main__":
    main()
