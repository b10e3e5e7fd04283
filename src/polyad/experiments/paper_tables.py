"""The paper's four tables, and those it does not have, made from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyad.experiments import paper
from polyad.experiments.identity import base_name
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.paper import PAPER_MODELS
from polyad.experiments.paper_names import scene_title
from polyad.experiments.results import Results, Summary
from polyad.experiments.settings import (
    AS_GIVEN,
    NOISES,
    PAPER_LEVEL,
    PAPER_PROTOCOL,
    RUN_PROTOCOLS,
)
from polyad.experiments.tables import Cell, Table
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.learn.sampling import Blocks

FURTHER = tuple(model for model in MODELS if model not in PAPER_MODELS)  # not in the paper
# Protocols the paper does not have, and how a heading puts them
FAR = {name: name.replace("-", " ") for name in RUN_PROTOCOLS if name != PAPER_PROTOCOL}
MISSING = "missing scene"
SHAPES = {name: (row.shape[2], len(row.class_names)) for name, row in KNOWN_SCENES.items()}


def accuracy_table(
    results: Results,
    scenes: Sequence[str],
    *,
    name: str,
    title: str,
    noise: str,
    samples: int,
    missing: Mapping[str, str],
    runs: int = paper.RUNS,
) -> Table:
    """Return accuracies after 50 epochs and after the last, as the paper's Tables 1 and 4.

    Models that the paper does not have are further rows, where they were run. ``missing`` has the
    scenes that are not on the machine; their cells say so.
    """
    last = _last_epoch(results, scenes, samples, noise)
    further = [
        model
        for model in FURTHER
        if any(results.runs(scene, model, samples, noise) for scene in scenes)
    ]
    rows: list[tuple[str | Cell, ...]] = []
    for epoch in sorted({min(50, last), last}):
        for model in (*PAPER_MODELS, *further):
            iterative = MODELS[model].iterative
            if not iterative and epoch < last:
                continue
            cells = []
            for scene in scenes:
                values = results.accuracies(scene, model, samples, noise, epoch)
                theirs = paper.reported(scene, model, samples, noise, epoch)
                absent = MISSING if scene in missing else "not run"
                cells.append(Cell(Summary.of(values), theirs, absent, runs))
            rows.append((MODELS[model].title + f", {epoch} epochs" * iterative, *cells))
    note = "Overall accuracy in %."
    if any(isinstance(cell, Cell) and cell.paper for row in rows for cell in row):
        note += " sd: the paper's standard deviations."
    return Table(name, title, ("", *map(scene_title, scenes)), tuple(rows), note)


def parameter_table(scenes: Sequence[str], results: Results) -> Table:
    """Return Table 2: trainable parameters, by formula and as the fitted models counted them."""
    rows: list[tuple[str | Cell, ...]] = []
    for model in PAPER_MODELS:
        texts = []
        for scene in scenes:
            if base_name(scene) not in SHAPES:
                texts.append("")
                continue
            count = expected_parameters(model, *SHAPES[base_name(scene)])
            printed = paper.reported_parameters(scene, model)
            counted = {r.parameters for n in (10, 50) for r in results.runs(scene, model, n)}
            suffix = "" if printed is None else f" (paper ~{printed}K)"
            if counted and counted != {count}:
                suffix += f", but counted {sorted(counted)}"
            texts.append(f"{count:,}{suffix}")
        rows.append((MODELS[model].title, *texts))
    note = "Without biases for the Rank-R networks and with them for the CNN, as the paper counts."
    if rounded_up := _rounded_up(scenes):
        note += f" The paper rounds up {'; '.join(rounded_up)}."
    note += _parameter_ratios()
    columns = ("", *map(scene_title, scenes))
    return Table("table-2", "Table 2: trainable parameters", columns, tuple(rows), note)


def _parameter_ratios() -> str:
    """Say how many times the parameters of Rank-1 the CNN has, and what the paper says of it."""
    exact, printed = {}, {}
    for scene in paper.SCENES:
        cnn, rank = (expected_parameters(model, *SHAPES[scene]) for model in ("cnn", "rank-1"))
        exact[scene] = cnn / rank
        theirs = [paper.reported_parameters(scene, model) or 0 for model in ("cnn", "rank-1")]
        printed[scene] = theirs[0] / theirs[1]
    said = paper.PARAMETER_RATIOS
    swapped = [s for s in said if round(printed[s]) != said[s]]
    text = " CNN / Rank-1: " + ", ".join(f"{exact[s]:.1f} ({scene_title(s)})" for s in exact)
    text += ". The paper says " + ", ".join(f"{n} ({scene_title(s)})" for s, n in said.items())
    text += ", which are the ratios of its rounded counts"
    if sorted(round(printed[s]) for s in swapped) == sorted(said[s] for s in swapped) != []:
        text += f", those of {' and '.join(map(scene_title, swapped))} swapped"
    return text + "."


def _rounded_up(scenes: Sequence[str]) -> list[str]:
    """Return where the paper prints more thousands for a Rank-R network than its formula gives."""
    cells = []
    for scene in scenes:
        for model in RANKS:
            printed = paper.reported_parameters(scene, model)
            if printed is None:
                continue
            count = expected_parameters(model, *SHAPES[base_name(scene)])
            if round(count / 1000) < printed:
                where = f"{MODELS[model].title}, {scene_title(scene)}"
                cells.append(f"{count:,} to {printed}K ({where})")
    return cells


def expected_parameters(model: str, bands: int, classes: int, window: int = 5) -> int:
    """Return the parameters of a model, by the paper's formula.

    Examples
    --------
    >>> expected_parameters("rank-1", 200, 16), expected_parameters("cnn", 103, 9)
    (16950, 567759)
    """
    if model == "cnn":
        left = (window - 4) ** 2
        first, second = 9 * bands * 150 + 150, 9 * 150 * 300 + 300
        return first + second + (300 * left + 1) * 75 + 76 * classes
    rank = int(MODELS[model].settings["rank"])
    return rank * 75 * (2 * window + bands) + 75 * classes


def score_table(results: Results, scene: str, runs: int = paper.RUNS) -> Table:
    """Return what the paper does not show: other scores, no-overlap, last against best epoch."""
    rows: list[tuple[str | Cell, ...]] = []
    for noise, words in NOISES.items():
        for n in results.samples(scene):
            for model in MODELS:
                if not results.runs(scene, model, n, noise):
                    continue
                values = {
                    name: results.scores(scene, model, n, noise, name)
                    for name in ("oa", "oa_no_overlap", "aa", "kappa")
                }
                best = results.best(scene, model, n, noise)
                rows.append(
                    (
                        f"{MODELS[model].title}, {n} per class, {words}",
                        Cell(Summary.of(values["oa"]), wanted=runs),
                        Cell(Summary.of(best), wanted=runs, absent="has no epochs"),
                        Cell(Summary.of(values["oa_no_overlap"]), wanted=runs),
                        Cell(Summary.of(values["aa"]), wanted=runs),
                        Cell(Summary.of(values["kappa"]), wanted=runs, digits=3),
                    )
                )
    note = (
        "After the last epoch. Best: the best of the evaluated epochs, chosen by looking at the "
        "test pixels, as the published code prints it. No overlap: test pixels whose window shares "
        "no pixel with any training window."
    )
    columns = ("", "overall accuracy", "best epoch", "no overlap", "average accuracy", "kappa")
    title = f"What the paper does not show, {scene_title(scene)}"
    return Table(f"scores-{scene}", title, columns, tuple(rows), note)


def protocol_table(results: Results, scene: str, runs: int = paper.RUNS) -> Table | None:
    """Return one model beside the other under every protocol; None if only the random one ran."""
    rows: list[tuple[str | Cell, ...]] = []
    for noise, words in NOISES.items():
        for n in results.samples(scene):
            for model in MODELS:
                near = results.scores(scene, model, n, noise, "oa")
                apart = results.scores(scene, model, n, noise, "oa_no_overlap")
                far = [results.scores(scene, model, n, noise, "oa", name) for name in FAR]
                if not any(far):
                    continue
                values = [near, apart, *far]
                cells = [Cell(Summary.of(v), wanted=runs) for v in values]
                rows.append((f"{MODELS[model].title}, {n} per class, {words}", *cells))
    if not rows:
        return None
    side = Blocks().size
    note = (
        "Overall accuracy in % after the last epoch. No overlap: test pixels of the random draw "
        "whose window shares no pixel with a training window. Other fields: one field of each "
        "class trains, its other fields test; classes with a single field are left out. "
        f"Blocks: squares of {side} x {side} pixels train or test, no window in common; a class "
        "too small to lie in both is not tested. Runs of the last two are added by "
        f"--protocol {' '.join(FAR)}."
    )
    columns = ("", PAPER_PROTOCOL, "no overlap", *FAR.values())
    title = f"Every protocol side by side, {scene_title(scene)}"
    return Table(f"protocols-{scene}", title, columns, tuple(rows), note)


def noise_level_table(results: Results, scene: str, runs: int = paper.RUNS) -> Table | None:
    """Return the overall accuracy by noise level; None if only the paper's level was run."""
    levels = {r.settings.noise_level for r in results.all() if r.settings.scene == scene}
    if levels <= {PAPER_LEVEL}:
        return None
    columns = sorted(levels | {PAPER_LEVEL})
    rows: list[tuple[str | Cell, ...]] = []
    for noise, words in list(NOISES.items())[1:]:
        for n in results.samples(scene):
            for model in MODELS:
                cells = [
                    results.runs(scene, model, n),
                    *(results.runs(scene, model, n, noise, noise_level=v) for v in columns),
                ]
                if any(cells[1:]):
                    values = [[100 * float(r.final["oa"] or 0) for r in cell] for cell in cells]
                    texts = [Cell(Summary.of(v), wanted=runs) for v in values]
                    rows.append((f"{MODELS[model].title}, {n} per class, {words}", *texts))
    note = (
        "Overall accuracy in % after the last epoch. Level: standard deviation of the noise as a "
        "share of each band's maximum."
    )
    heads = ("", "no noise", *(f"{100 * level:g} %" for level in columns))
    title = f"Noise levels, {scene_title(scene)}"
    return Table(f"noise-levels-{scene}", title, heads, tuple(rows), note)


def fixed_table(results: Results, scene: str, runs: int = paper.RUNS) -> Table | None:
    """Return the scores on splits that others made; None if there was none."""
    rows: list[tuple[str | Cell, ...]] = []
    given = {
        r.settings.protocol
        for r in results.all()
        if r.settings.scene == scene and r.settings.samples_per_class == AS_GIVEN
    }
    for protocol in sorted(given):
        for noise, words in NOISES.items():
            for model in MODELS:
                records = results.runs(scene, model, AS_GIVEN, noise, protocol)
                if not records:
                    continue
                values = {
                    name: results.scores(scene, model, AS_GIVEN, noise, name, protocol)
                    for name in ("oa", "aa", "kappa", "oa_no_overlap")
                }
                counts = f"{records[0].n_train:,} and {records[0].n_test:,}"
                digits = {"kappa": 3}
                cells = [
                    Cell(Summary.of(v), wanted=runs, digits=digits.get(name, 2))
                    for name, v in values.items()
                ]
                rows.append((f"{MODELS[model].title}, {protocol}, {words}", counts, *cells))
    if not rows:
        return None
    note = (
        "After the last epoch, on the training and test pixels of the rasters given by --train and "
        "--test; the digits of a split's name are the sum of both. Runs differ in their starts "
        "alone, and their deviation says nothing of other splits. No overlap: test pixels whose "
        "window shares no pixel with a training window."
    )
    heads = ("overall accuracy", "average accuracy", "kappa", "no overlap")
    columns = ("", "training and test pixels", *heads)
    title = f"Splits made by others, {scene_title(scene)}"
    return Table(f"fixed-{scene}", title, columns, tuple(rows), note)


def _last_epoch(results: Results, scenes: Sequence[str], samples: int, noise: str) -> int:
    """Return how many epochs the runs have; the paper's number where there are none."""
    epochs = [
        r.settings.epochs
        for scene in scenes
        for model in PAPER_MODELS
        for r in results.runs(scene, model, samples, noise)
    ]
    return max(epochs, default=max(paper.EPOCHS))
