"""What the records say, in sentences whose numbers come from the records and the paper's tables.

What no record tells (why a setting was chosen, what else was tried) is written by hand in a page of
its own; see `polyad.experiments.document.NOTES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyad.experiments import paper
from polyad.experiments.comparisons import REFERENCES
from polyad.experiments.findings_cnn import (
    FEWEST,
    best_rank,
    deviations,
    epochs_meant,
    significance,
)
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.paper import PAPER_MODELS
from polyad.experiments.paper_tables import FAR, FURTHER
from polyad.experiments.records import Record
from polyad.experiments.results import Results, Summary
from polyad.experiments.settings import NOISES, PAPER_LEVEL
from polyad.experiments.tables import signed

NEAR = 1.0  # points: a curve has converged when it stays this near to its end
EARLY = paper.RANK_R_CONVERGES
TUNED = REFERENCES[1]
FIRST, LAST = paper.SAMPLES[0], paper.EPOCHS[-1]  # samples per class and epochs of the main result


@dataclass(frozen=True)
class Finding:
    """A heading and the paragraphs below it."""

    title: str
    text: tuple[str, ...]


def findings(results: Results, scene: str) -> list[Finding]:
    """Return what can be said of ``scene``; nothing about cells that were not run."""
    possible = [
        _reproduction(results, scene),
        _convergence(results, scene),
        _finding("Rank-R against CNN", significance(results, scene)),
        _finding("Spread over runs", deviations(results, scene)),
        _finding("The best R", best_rank(results, scene)),
        _finding('What "500 epochs" may mean', epochs_meant(results, scene)),
        _band_offset(results, scene),
        _pixel_noise(results, scene),
        _overlap(results, scene),
        _far(results, scene),
        _best_epoch(results, scene),
        _alternatives(results, scene),
    ]
    return [finding for finding in possible if finding is not None]


def _finding(title: str, text: tuple[str, ...]) -> Finding | None:
    return Finding(title, text) if text else None


def _reproduction(results: Results, scene: str) -> Finding | None:
    within: list[str] = []
    outside: list[str] = []
    for noise in NOISES:
        for epoch in paper.EPOCHS:
            for model in RANKS:
                theirs = paper.reported(scene, model, FIRST, noise, epoch)
                ours = Summary.of(results.accuracies(scene, model, FIRST, noise, epoch))
                if theirs is None or ours is None or ours.runs < paper.RUNS or noise == "pixel":
                    continue
                gap = (ours.mean - theirs.mean) / theirs.deviation
                words = (
                    f"{MODELS[model].title}, {epoch} epochs, {NOISES[noise]} ({ours.mean:.1f} "
                    f"against {theirs.mean:.1f} ± {theirs.deviation:.1f}, {signed(gap, 1)} sd)"
                )
                (within if abs(gap) <= 2 else outside).append(words)
    if not within and not outside:
        return None
    count = len(within) + len(outside)
    text = [
        f"Of the {count} Rank-R cells of {FIRST} samples per class that were run in full "
        f"({paper.RUNS} runs; no noise, and band offset as the published code has it), "
        f"{len(within)} lie within two of the paper's standard deviations."
    ]
    if outside:
        text.append("Further away: " + "; ".join(outside) + ".")
    text += [
        line
        for model in ("rank-1", *REFERENCES)
        if (line := _against_paper(results, scene, model)) is not None
    ]
    return Finding("What reproduces", tuple(text))


def _against_paper(results: Results, scene: str, model: str) -> str | None:
    """Return the main result of a model beside the paper's two: without and with its noise."""
    ours = Summary.of(results.accuracies(scene, model, FIRST, "none", LAST))
    theirs = "cnn" if model in REFERENCES else model
    plain, noisy = (paper.reported(scene, theirs, FIRST, n, LAST) for n in ("none", "band-offset"))
    if ours is None or plain is None or noisy is None:
        return None
    return (
        f"{MODELS[model].title}, {FIRST} samples per class, {LAST} epochs: {ours.mean:.2f} ± "
        f"{ours.deviation:.2f} ({ours.runs} runs). The paper has {plain.mean:.2f} ± "
        f"{plain.deviation:.2f} without noise ({signed(ours.mean - plain.mean, 2)} points) and "
        f"{noisy.mean:.2f} ± {noisy.deviation:.2f} with it."
    )


def _convergence(results: Results, scene: str) -> Finding | None:
    lines = []
    for n in results.samples(scene):
        for model in (*PAPER_MODELS, TUNED):
            curve = results.curve(scene, model, n)
            if curve is None or curve.epochs[-1] < paper.CNN_CONVERGES or curve.runs < FEWEST:
                continue
            far = np.flatnonzero(np.abs(curve.mean - curve.mean[-1]) > NEAR)
            settled = curve.epochs[min(far[-1] + 1, len(curve.epochs) - 1)] if len(far) else 1
            early = curve.mean[curve.epochs <= EARLY][-1]
            lines.append(
                f"- {MODELS[model].title}, {n} per class, {curve.runs} runs: {early:.1f} "
                f"after {EARLY} epochs, {curve.mean[-1]:.1f} after {curve.epochs[-1]:.0f}, "
                f"within {NEAR:.0f} point of it from epoch {settled:.0f} on."
            )
    if not lines:
        return None
    return Finding(
        "How fast it learns",
        (
            "The paper says that Rank-R networks converge in fewer than "
            f"{paper.RANK_R_CONVERGES} epochs, and that the CNN needs more than "
            f"{paper.CNN_CONVERGES}. Mean accuracy on the test pixels, no noise:",
            *lines,
        ),
    )


def _paired(
    results: Results, scene: str, model: str, n: int, noise: str
) -> list[tuple[Record, Record]]:
    """Return records of the same seed without and with noise."""
    plain = {r.settings.seed: r for r in results.runs(scene, model, n)}
    noisy = results.runs(scene, model, n, noise)
    pairs = [(plain[r.settings.seed], r) for r in noisy if r.settings.seed in plain]
    return [(a, b) for a, b in pairs if a.settings.epochs == b.settings.epochs]


def _band_offset(results: Results, scene: str) -> Finding | None:
    lines = []
    for model in MODELS:
        pairs = [
            pair
            for n in results.samples(scene)
            for pair in _paired(results, scene, model, n, "band-offset")
        ]
        if not pairs:
            continue
        gaps = [abs(_accuracy(a) - _accuracy(b)) for a, b in pairs]
        same = sum(gap < 0.005 for gap in gaps)
        early = [
            abs((a.accuracy_at(EARLY) or 0) - (b.accuracy_at(EARLY) or 0))
            for a, b in pairs
            if EARLY in a.curve_epochs and EARLY in b.curve_epochs
        ]
        after = f"; after {EARLY} epochs {np.mean(early):.2f} and {max(early):.2f}" if early else ""
        lines.append(
            f"- {MODELS[model].title}: {same} of {len(pairs)} equal; mean difference "
            f"{np.mean(gaps):.2f} points, largest {max(gaps):.2f}{after}"
        )
    if not lines:
        return None
    return Finding(
        "The published noise is no noise",
        (
            "The published code adds one random number per band to all pixels alike. "
            "Standardization per band, which the same code does next, takes a constant away, but "
            "for rounding. So the paper's noisy results are noise-free results with other random "
            "numbers.",
            "Shown on pairs of runs with the same seed, one without noise and one with the band "
            "offset, after the last epoch (equal: to a hundredth of a percent):",
            *lines,
        ),
    )


def _accuracy(record: Record) -> float:
    """Return the overall accuracy of a run after its last epoch, in percent."""
    return 100 * float(record.final["oa"] or 0)


def _pixel_noise(results: Results, scene: str) -> Finding | None:
    lines, changes = [], []
    for n in results.samples(scene):
        for model in MODELS:
            pairs = _paired(results, scene, model, n, "pixel")
            if not pairs:
                continue
            before, after = (
                float(np.mean([_accuracy(r) for r in side])) for side in zip(*pairs, strict=True)
            )
            lines.append(
                f"- {MODELS[model].title}, {n} per class: {before:.1f} without, {after:.1f} with "
                f"noise ({signed(after - before, 1)}; {len(pairs)} runs)"
            )
            changes.append(after - before)
    if not lines:
        return None
    level = f"{100 * PAPER_LEVEL:.0f} %"
    told = (
        f"What the paper's text describes: independent Gaussian noise with a deviation of {level} "
        f"of the band's maximum. It changes accuracy by {_range(changes)} points."
    )
    if theirs := _changes_in_paper(scene):
        told += " Between the paper's Tables 1 and 4 the Rank-R networks change by "
        told += f"{_range(theirs)}."
    return Finding(f"True noise of {level} in every band of each pixel", (told, *lines))


def _changes_in_paper(scene: str) -> list[float]:
    """Return the changes from Table 1 to Table 4, Rank-R networks after the last epoch."""
    pairs = [
        [paper.reported(scene, model, FIRST, noise, LAST) for noise in ("none", "pixel")]
        for model in RANKS
    ]
    return [noisy.mean - plain.mean for plain, noisy in pairs if plain and noisy]


def _range(values: Sequence[float]) -> str:
    return f"{signed(min(values), 1)} to {signed(max(values), 1)}"


def _overlap(results: Results, scene: str) -> Finding | None:
    lines = []
    for n in results.samples(scene):
        accuracies, shares = [], []
        for model, row in MODELS.items():
            apart = results.scores(scene, model, n, "none", "oa_no_overlap")
            if len(apart) < FEWEST:
                continue
            every = results.scores(scene, model, n, "none", "oa")
            runs = results.runs(scene, model, n)
            shares += [r.n_test_no_overlap / r.n_test for r in runs]
            gap = signed(float(np.mean(apart) - np.mean(every)), 1)
            accuracies.append(f"{row.title} {np.mean(every):.1f} and {np.mean(apart):.1f} ({gap})")
        if accuracies:
            lines.append(
                f"- {n} per class, {100 * np.mean(shares):.0f} % of the test pixels without "
                f"overlap: {'; '.join(accuracies)}."
            )
    if not lines:
        return None
    return Finding(
        "Pixels that share nothing with training",
        (
            "A test pixel beside a training pixel has most of its window in the training set. "
            "Accuracy on all test pixels and on those whose window overlaps no training window, "
            "last epoch, no noise. Two causes may be mixed in the difference, and the runs do not "
            "tell them apart: windows seen before, and pixels farther from any label.",
            *lines,
        ),
    )


def _far(results: Results, scene: str) -> Finding | None:
    lines = []
    for n in results.samples(scene):
        for protocol, words in FAR.items():
            accuracies = []
            for model, row in MODELS.items():
                near = results.scores(scene, model, n, "none", "oa")
                far = results.scores(scene, model, n, "none", "oa", protocol)
                if min(len(near), len(far)) >= FEWEST:
                    accuracies.append(f"{row.title} {np.mean(far):.1f} ({np.mean(near):.1f})")
            if accuracies:
                lines.append(f"- {words}, {n} per class: {'; '.join(accuracies)}.")
    if not lines:
        return None
    return Finding(
        "Other fields and blocks",
        (
            "The same models where no test pixel lies in a field, or a block, that was labeled; "
            "in brackets the random draw of the paper. Overall accuracy, last epoch, no noise:",
            *lines,
        ),
    )


def _best_epoch(results: Results, scene: str) -> Finding | None:
    lines = []
    for n in results.samples(scene):
        accuracies = []
        for model in (*PAPER_MODELS, TUNED):
            best = results.best(scene, model, n)
            if len(best) >= FEWEST:
                last = float(np.mean(results.accuracies(scene, model, n)))
                gap = signed(float(np.mean(best)) - last, 2)
                accuracies.append(
                    f"{MODELS[model].title} {last:.2f} and {np.mean(best):.2f} ({gap})"
                )
        if accuracies:
            lines.append(f"- {n} per class: {'; '.join(accuracies)}.")
    if not lines:
        return None
    return Finding(
        "Last epoch and best epoch",
        (
            "The published code prints the best accuracy over epochs, chosen on the test pixels. "
            "We report the last epoch. Accuracy after the last and the best of the evaluated "
            "epochs, no noise:",
            *lines,
        ),
    )


def _alternatives(results: Results, scene: str) -> Finding | None:
    lines = []
    for n in results.samples(scene):
        means = {
            model: float(np.mean(values))
            for model in MODELS
            if (values := results.accuracies(scene, model, n))
        }
        if not any(model in means for model in FURTHER):
            continue
        accuracies = [
            f"{MODELS[model].title} {mean:.1f} ({len(results.runs(scene, model, n))} runs)"
            for model, mean in means.items()
        ]
        best = max(means, key=lambda model: means[model])
        line = f"- {n} per class: {'; '.join(accuracies)}. Best: {MODELS[best].title}."
        if (comparison := results.compare(scene, "rank-1", "dense", n)) is not None:
            gain = signed(means["rank-1"] - means["dense"], 1)
            line += f" Rank-1 against as many hidden units with dense weights: {gain} points"
            line += f" (p = {comparison.p:.2g})."
        lines.append(line)
    if not lines:
        return None
    return Finding(
        "What else a user might pick",
        ("Mean overall accuracy after the last epoch, no noise:", *lines),
    )
