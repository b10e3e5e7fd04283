"""What the records say of Rank-R networks against the CNNs: tests, spreads, and the best rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyad.experiments import paper
from polyad.experiments.comparisons import REFERENCES, Contrast, contrasts
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.results import Results, Summary
from polyad.experiments.settings import NOISES
from polyad.experiments.statistics import LEVEL, holm, levene
from polyad.experiments.tables import signed

FEWEST = 3  # runs: of fewer nothing is said
APART = 0.5  # of the paper's deviations: less does not decide between two readings
Lines = tuple[str, ...]


def significance(results: Results, scene: str) -> Lines:
    """Return which differences are significant after Holm's correction, and which the paper has."""
    lines: list[str] = []
    for against in REFERENCES:
        rows = contrasts(results, scene, "none", paper.EPOCHS[-1], paper.SAMPLES, against)
        if not rows:
            continue
        runs = sorted({c.paired.n for c in rows})
        lines.append(
            f'Against "{MODELS[against].title}", no noise, {_many(runs)} seeds that both models '
            f"have, {len(rows)} comparisons, corrected together by Holm at {100 * LEVEL:.0f} %:"
        )
        for n in paper.SAMPLES:
            for epoch in paper.EPOCHS:
                here = [c for c in rows if (c.samples, c.epoch) == (n, epoch)]
                if here:
                    lines.append(_outcomes(here, scene, n, epoch, against))
    if lines:
        lines += _beside_each_other(results, scene)
    return tuple(lines)


def _outcomes(rows: Sequence[Contrast], scene: str, n: int, epoch: int, against: str) -> str:
    """Return one line: for which ranks who is better, by both tests, and what the paper has."""
    unpaired = _verdicts([(c.model, c.unpaired.effect.value, c.p_holm) for c in rows])
    paired = _verdicts([(c.model, c.paired.mean, c.paired_p_holm) for c in rows])
    gaps = [c.paired.mean for c in rows]
    text = f"- {n} per class, {epoch} epochs: {unpaired} by the paper's path; "
    text += "the paired test says the same" if paired == unpaired else f"{paired} by paired tests"
    text += f". Mean differences {signed(min(gaps), 1)} to {signed(max(gaps), 1)} points."
    if against == "cnn":
        theirs = {c.model: paper.reported_p(scene, c.model, n, epoch) for c in rows}
        printed = {model: p for model, p in theirs.items() if p is not None}
        if printed:
            agree = sum(
                (c.unpaired.p < LEVEL) == (printed[c.model] < LEVEL)
                for c in rows
                if c.model in printed
            )
            text += (
                f" Whether there is a difference, without correction as in the paper's Table 3: "
                f"{agree} of {len(printed)} agree with it."
            )
    return text


def _verdicts(rows: Sequence[tuple[str, float, float]]) -> str:
    """Return in words for which ranks which side is better."""
    sides: dict[str, list[str]] = {"Rank-R better": [], "CNN better": [], "no difference shown": []}
    for model, value, p in rows:
        side = "no difference shown"
        if p < LEVEL:
            side = "Rank-R better" if value > 0 else "CNN better"
        sides[side].append(model.removeprefix("rank-"))
    return ", ".join(f"{words} for R = {', '.join(r)}" for words, r in sides.items() if r)


def _beside_each_other(results: Results, scene: str) -> list[str]:
    """Return the two CNNs beside each other: how much their settings are worth."""
    parts = []
    for n in paper.SAMPLES:
        for epoch in paper.EPOCHS:
            plain, tuned = (
                Summary.of(results.accuracies(scene, model, n, "none", epoch))
                for model in REFERENCES
            )
            paired = results.compare_paired(scene, REFERENCES[1], REFERENCES[0], n, "none", epoch)
            if plain is not None and tuned is not None and paired is not None:
                parts.append(
                    f"{n} per class, {epoch} epochs: {plain.mean:.1f} ± {plain.deviation:.1f} and "
                    f"{tuned.mean:.1f} ± {tuned.deviation:.1f} ({signed(paired.mean, 1)})"
                )
    if not parts:
        return []
    return [
        "The same layers with settings chosen on folds of training labels, after those that "
        "resemble the paper's CNN: " + "; ".join(parts) + "."
    ]


def deviations(results: Results, scene: str) -> Lines:
    """Return how the CNN's spread over runs compares with that of Rank-R networks."""
    lines: list[str] = []
    for against in REFERENCES:
        for noise, words in NOISES.items():
            for n in paper.SAMPLES:
                line = _ratios(results, scene, against, noise, n)
                if line is not None:
                    lines.append(f"- {MODELS[against].title}, {n} per class, {words}: {line}")
    if not lines:
        return ()
    claim = (
        "The paper says that the standard deviation over runs of its Rank-R networks is on average "
        f"{paper.DEVIATION_RATIO} times smaller than the CNN's without noise, and "
        f"{paper.DEVIATION_CUT} % smaller with it."
    )
    if theirs := _paper_ratios(scene):
        claim += f" From its tables for this scene, CNN / Rank-R: {theirs}."
    return (
        claim + " The ratio in our runs, CNN / Rank-R, R = 1 to 5, and Levene's test (deviations "
        f"from the median; Holm over the ratios of a line, {100 * LEVEL:.0f} %):",
        *lines,
    )


def _ratios(results: Results, scene: str, against: str, noise: str, n: int) -> str | None:
    parts = []
    for epoch in paper.EPOCHS:
        theirs = results.accuracies(scene, against, n, noise, epoch)
        ranks = [results.accuracies(scene, model, n, noise, epoch) for model in RANKS]
        ranks = [values for values in ranks if len(values) >= FEWEST and np.ptp(values) > 0]
        if len(theirs) < FEWEST or not ranks:
            continue
        ratios = [np.std(theirs, ddof=1) / np.std(values, ddof=1) for values in ranks]
        corrected = holm([levene(values, theirs) for values in ranks])
        count = sum(p < LEVEL for p in corrected)
        parts.append(
            f"after {epoch} epochs {min(ratios):.2f} to {max(ratios):.2f} ({count} of "
            f"{len(ratios)} significant)"
        )
    return "; ".join(parts) + "." if parts else None


def _paper_ratios(scene: str) -> str:
    parts = []
    for noise, words in (("none", "without noise"), ("band-offset", "with it")):
        for epoch in paper.EPOCHS:
            cnn = paper.reported(scene, "cnn", paper.SAMPLES[0], noise, epoch)
            ranks = [paper.reported(scene, m, paper.SAMPLES[0], noise, epoch) for m in RANKS]
            ratios = [cnn.deviation / r.deviation for r in ranks if cnn and r]
            if ratios:
                parts.append(f"{min(ratios):.1f} to {max(ratios):.1f} {words} after {epoch} epochs")
    return "; ".join(parts)


def best_rank(results: Results, scene: str) -> Lines:
    """Return which R is best, and whether the runs tell it from the others."""
    lines = []
    for noise, words in NOISES.items():
        for n in results.samples(scene):
            means = {
                model: float(np.mean(values))
                for model in RANKS
                if len(values := results.accuracies(scene, model, n, noise)) >= FEWEST
            }
            if len(means) < 2:
                continue
            best = max(means, key=lambda model: means[model])
            others = [model for model in means if model != best]
            pairs = [results.compare_paired(scene, best, model, n, noise) for model in others]
            corrected = holm([p.p for p in pairs if p is not None])
            apart = [m for m, p in zip(others, corrected, strict=True) if p < LEVEL]
            told = ", ".join(m.removeprefix("rank-") for m in apart) or "no other"
            lines.append(
                f"- {n} per class, {words}: R = {best.removeprefix('rank-')} "
                f"({means[best]:.1f}; {_span([means[m] for m in others])}); significantly better "
                f"than {told}."
            )
    if not lines:
        return ()
    theirs = paper.best_ranks(scene)
    claim = "Highest mean after the last epoch; paired tests against each other R, corrected by "
    claim += "Holm within a line."
    if theirs is not None:
        claim += f" The paper finds R = {theirs[0]} best without noise and R = {theirs[1]} with it."
    return (claim, *lines)


def epochs_meant(results: Results, scene: str) -> Lines:
    """Return the paper's numbers beside both readings of its "epochs"."""
    lines = []
    inner = int(MODELS[RANKS[0]].settings["inner_steps"])
    n = paper.SAMPLES[0]
    misses: dict[int, list[float]] = {1: [], inner: []}
    for epoch in paper.EPOCHS:
        parts = []
        for model in RANKS:
            theirs = paper.reported(scene, model, n, "none", epoch)
            ours = {
                steps: results.accuracies(scene, model, n, "none", epoch // steps)
                for steps in misses
            }
            if theirs is None or not all(len(values) >= FEWEST for values in ours.values()):
                continue
            for steps, values in ours.items():
                misses[steps].append(abs(float(np.mean(values)) - theirs.mean) / theirs.deviation)
            sweeps = " and ".join(f"{np.mean(values):.1f}" for values in ours.values())
            parts.append(f"{MODELS[model].title} {sweeps} (paper {theirs.mean:.1f})")
        if parts:
            lines.append(
                f'- "{epoch} epochs" as {epoch} sweeps and as {epoch // inner} sweeps of {inner} '
                f"steps: {'; '.join(parts)}."
            )
    if not lines:
        return ()
    by_sweeps, by_steps = (float(np.mean(values)) for values in misses.values())
    verdict = "do not tell them apart"
    if abs(by_sweeps - by_steps) >= APART:
        verdict = f"favor the {'first' if by_sweeps < by_steps else 'second'}"
    return (
        f"The published script makes 50 sweeps, each of {inner} steps on every block and batch. So "
        'the paper\'s "500 epochs" may be 500 sweeps, as our tables have it, or 50 sweeps of '
        f"{inner} steps. Mean accuracy under both readings, {n} per class, no noise; the mean "
        f"distance from the paper is {by_sweeps:.2f} of its standard deviations under the first "
        f"and {by_steps:.2f} under the second, so its numbers {verdict}.",
        *lines,
    )


def _many(counts: Sequence[int]) -> str:
    return " or ".join(map(str, counts))


def _span(means: Sequence[float]) -> str:
    if len(means) == 1:
        return f"the other {means[0]:.1f}"
    return f"the others {min(means):.1f} to {max(means):.1f}"
