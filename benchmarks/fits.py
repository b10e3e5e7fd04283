"""Fitting: one epoch or step against its references, and whole fits against the peers."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
import xarray as xr

from benchmarks.data import HIDDEN, RANKS, WINDOW, Task, as_problem, indian_pines, paper_network
from benchmarks.harness import Times, interleave, operations, peak_bytes, sgemm, sgemm_rate
from benchmarks.peers import Peer, Watch, peers
from benchmarks.textbook import Textbook
from polyad.core.network import RankRNet
from polyad.fitting import alternating as solver
from polyad.fitting.alternating import Steps
from polyad.fitting.joint import AdamState, FlatWeights, adam_step, written_gradient
from polyad.fitting.problem import Problem
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.windows import extract_patches

STRIP = 20  # rows of Indian Pines that the peers map; their scene seconds are scaled from it
PROFILED = 20  # joint steps that are profiled together


def epochs(rounds: int) -> dict[str, Any]:
    """Time one epoch of Algorithm 1 in its several forms, and one joint step with its GEMMs."""
    problem = as_problem(indian_pines())
    measured: dict[str, Any] = {}
    for rank in RANKS:
        network = paper_network(problem, rank)
        forms = {
            "textbook, unit by unit": Textbook(network, problem, Steps()),
            "textbook, units at once": Textbook(network, problem, Steps(), unit_by_unit=False),
            "plain torch": solver._PlainSweep(paper_network(problem, rank), problem, Steps()),
            "polyad": solver._CpuSweep(paper_network(problem, rank), problem, Steps()),
        }
        times = interleave(forms, rounds)
        measured[f"alternating, rank {rank}"] = {
            name: {
                "seconds": t.median,
                "least": t.least,
                "over polyad": vars(t.over(times["polyad"])),
            }
            for name, t in times.items()
        }
        measured[f"joint, rank {rank}"] = _joint_step(problem, rank, max(rounds, 9))
    return measured


def _joint_step(problem: Problem, rank: int, rounds: int) -> dict[str, Any]:
    """Time one joint step, its two large products alone, and sgemm at its best."""
    network = RankRNet(problem.x.shape[1:], HIDDEN, problem.target.shape[1], rank)
    weights = FlatWeights.of(network)
    state = AdamState.like(weights.values)
    x = problem.x.flatten(1)
    dense, by = torch.rand(HIDDEN, x.shape[1]), torch.rand(len(x), HIDDEN)
    before, by_dense = torch.empty(len(x), HIDDEN), torch.empty_like(dense)

    @torch.no_grad()
    def step() -> None:
        outputs = written_gradient(network, weights, problem)
        problem.mean_loss(outputs), problem.score(outputs)
        adam_step(weights, state, 1e-3, 0.1)

    def products() -> None:
        torch.mm(x, dense.T, out=before)
        torch.mm(by.T, x, out=by_dense)

    times = interleave({"step": step, "GEMMs": products, "sgemm": sgemm()}, rounds, least=0.02)
    # Two large products, and three over the terms: the weight rebuilt, its gradient opened twice
    flops = 4 * x.numel() * HIDDEN + 6 * rank * dense.numel()
    at_limit = [flops / (2 * 2048**3 / s) for s in times["sgemm"].seconds]
    return {
        "seconds": times["step"].median,
        "own GEMMs": times["GEMMs"].median,
        "over own GEMMs": vars(times["step"].over(times["GEMMs"])),
        "over sgemm rate": vars(times["step"].over(Times(tuple(at_limit)))),
        "sgemm": sgemm_rate(times["sgemm"]),
        "profile": operations(lambda: [step() for _ in range(PROFILED)], PROFILED),
    }


def fits(rounds: int) -> list[dict[str, Any]]:
    """Fit every peer; return its row."""
    task = indian_pines()
    rows = {p.name: _Row(p) for p in peers()}
    for r in range(rounds):  # interleaved: each peer once per round
        for row in rows.values():
            if r < row.peer.rounds:
                row.run(task)
    return [row.finish(task) for row in rows.values()]


class _Row:
    """Collects the rounds of one peer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.seconds: list[float] = []
        self.curves: list[list[tuple[float, float]]] = []
        self.model: Any = None

    def run(self, task: Task) -> None:
        watch = Watch(task, self.peer.every)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = self.peer.fit(task, watch)
        self.seconds.append(time.process_time() - watch.started - watch.paused)
        self.curves.append(watch.curve)

    def finish(self, task: Task) -> dict[str, Any]:
        """Return the row: median seconds, accuracy, the curves, scene seconds, memory."""
        X, y = task.watched
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peak = peak_bytes(lambda: self.peer.fit(task, None, brief=True))
        return {
            "name": self.peer.name,
            "ours": self.peer.ours,
            "seconds": float(np.median(self.seconds)),
            "spread": [min(self.seconds), max(self.seconds)],
            "accuracy": float(np.mean(self.model.predict(X) == y)),
            "curves": self.curves,
            "scene": self._scene_seconds(task),
            "peak": peak,
        }

    def _scene_seconds(self, task: Task) -> float:
        """Return what a map of the whole scene takes; patch by patch, from a strip, for peers."""
        if self.peer.ours:
            scene = xr.DataArray(task.cube, dims=("y", "x", "band"))
            return interleave({"map": lambda: map_scene(self.model, scene)}, 3)["map"].median
        rows, cols = (a.ravel() for a in np.indices((STRIP, task.cube.shape[1])))
        started = time.process_time()
        self.model.predict(extract_patches(task.cube, rows, cols, WINDOW))
        return (time.process_time() - started) * task.cube.shape[0] / STRIP


def seconds_to(row: dict[str, Any], accuracy: float) -> float | None:
    """Return the median time at which the row's rounds reached an accuracy."""
    reached = [next((s for s, a in curve if a >= accuracy), None) for curve in row["curves"]]
    known = [s for s in reached if s is not None]
    return float(np.median(known)) if len(known) > len(reached) / 2 else None
