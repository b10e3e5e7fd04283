"""Turns the measurements into docs/benchmarks.md: tables, targets, profiles."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.busy import WANTED as BUSY_WANTED
from benchmarks.fits import seconds_to
from benchmarks.growth import slopes
from benchmarks.plans import FAST_ENOUGH

COMMAND = "make bench"

# What limits us, by the beginning of a target's name; shown where the target is missed
LIMITS = {
    "alternating": "**Alternating.** The textbook that takes one unit after the other is Algorithm"
    " 1 as it is printed. Contracting all units at once is already half of the remedy; against that"
    " form, what is left to gain is reading the contracted input (rank 1: 3.9 MB for a batch in the"
    " spectral block, ten times) at memory speed, which takes most of our epoch.",
    "joint": "**Joint.** Beyond its GEMMs a step is some sixty operations on small arrays"
    " (activation, softmax, bias sums, Adam), a few microseconds each whatever their size; the"
    " profile below has them as *other operations* and *outside torch*. They grow little with the"
    " samples.",
    "map_scene, share": "**Map, share of sgemm.** The GEMM itself runs near the limit but is a"
    " quarter of the time; correlation, centring, tanh, the search for the largest score and the"
    " test for missing data read and write arrays that hardly reuse a number. The rate of a large"
    " square product is out of reach for them.",
    "map_scene on two": "**Two threads.** Both cores share the way to memory, and the steps between"
    " the operations are Python's.",
    "plan": "**Plans.** The cases that miss take 0.1 to 0.3 ms: calls into torch, which the plan"
    " counts as equally dear, and are not.",
}


def page(measured: dict[str, Any]) -> str:
    """Return the whole page."""
    written = {
        "epochs": _epochs,
        "fits": lambda rows: _fits(rows, measured["goal"]),
        "control": _control,
        "layers": _layers,
        "maps": _maps,
        "throughput": _throughput,
        "plans": _plans,
        "growth": _growth,
        "startup": _startup,
        "busy": _busy,
    }
    parts = [_head(), _targets(measured)]
    for name, write in written.items():
        if name in measured:
            title, text = write(measured[name]).split("\n\n", 1)
            parts += [title, _measured_on(measured["machines"].get(name)), text]
    return "\n\n".join(parts) + "\n"


def _measured_on(machine: dict[str, Any] | None) -> str:
    """Return the line that says where and when a section was measured: each has its own run."""
    if machine is None:
        return "*Nobody noted which machine this was measured on.*"
    return (
        f"*{machine['processor']}, {machine['cores']} cores, sgemm on one thread "
        f"{machine['sgemm, one thread']}; Python {machine['python']}, torch {machine['torch']}, "
        f"numpy {machine['numpy']}; load of other work {machine['load']}.*"
    )


def _head() -> str:
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "This page is written by a program; do not edit it. To make it anew:",
            "",
            "<!-- not run: ten minutes, and a machine left alone -->",
            "```sh",
            COMMAND,
            "```",
            "",
            "All ways of a table ran in turn in the same run, round after round. Seconds are",
            "medians of processor time, one thread, unless said otherwise; a ratio is the median",
            "of the rounds' ratios with the smallest and largest in brackets; the sgemm limit, and",
            "shares of it, are from the least times of the rounds. Every section says what it was",
            "measured on: a section can be measured anew by itself.",
        ]
    )


def _targets(measured: dict[str, Any]) -> str:
    rows = targets(measured)
    lines = [
        [t["what"], t["wanted"], t["measured"], "yes" if t["reached"] else "**no**"] for t in rows
    ]
    missed = [f"- {note}" for start, note in LIMITS.items() if _missed(rows, start)]
    text = "## Targets\n\n" + _table(["target", "wanted", "measured", "reached"], lines)
    return text + ("\n\nWhat stands in the way:\n\n" + "\n".join(missed) if missed else "")


def _missed(rows: list[dict[str, Any]], start: str) -> bool:
    return any(row["what"].startswith(start) and not row["reached"] for row in rows)


def targets(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the project promised itself about speed, and what was measured."""
    rows = []

    def add(what: str, wanted: str, value: float, reached: bool, unit: str = "x") -> None:
        text = f"{100 * value:.0f} %" if unit == "%" else f"{value:.3g}{unit}"
        rows.append({"what": what, "wanted": wanted, "measured": text, "reached": reached})

    for rank in (1, 4):
        table = measured["epochs"][f"alternating, rank {rank}"]
        for form in ("unit by unit", "units at once"):
            ratio = table[f"textbook, {form}"]["over polyad"]["median"]
            what = f"alternating epoch against the textbook ({form}), rank {rank}"
            add(what, "at least 30x", ratio, ratio >= 30)
        ratio = measured["epochs"][f"joint, rank {rank}"]["over sgemm rate"]["median"]
        what = f"joint step over its GEMMs at the sgemm rate, rank {rank}"
        add(what, "at most 2x", ratio, ratio <= 2)
    ratio = _to_accuracy(measured)
    what = "joint: time to the accuracy of 50 epochs of Algorithm 1, textbook over joint"
    add(what, "at least 100x", ratio, ratio >= 100)
    rows_of_maps = measured["maps"]["rows"]
    share = rows_of_maps["polyad map_scene"]["share of sgemm"]
    add("map_scene, share of the sgemm limit", "at least 40 %", share, share >= 0.4, "%")
    for name, least in (
        ("TensorLy-Torch FactorizedConv (CP)", 1),
        ("patch GEMM, cutting included", 20),
    ):
        if name in rows_of_maps:
            ratio = rows_of_maps[name]["over polyad"]["median"]
            add(f"map_scene against {name}", f"at least {least}x", ratio, ratio >= least)
    ratio = measured["maps"]["two threads"]["of the least"]
    add("map_scene on two threads against one", "at least 1.6x", ratio, ratio >= 1.6)
    for row in measured.get("throughput", {}).get("rows", []):
        name = f"a scene of {row['bands']} bands of {row['dtype']} ({row['order']})"
        share, ratio = row["share of sgemm"], row["searching"]
        add(f"{name}, share of the sgemm limit", "at least 40 %", share, share >= 0.4, "%")
        what = f"{name}, map with the search for corrupt pixels over without"
        add(what, "at most 1.2x", ratio, ratio <= 1.2)
    if "throughput" in measured:
        ratio = measured["throughput"]["two threads"]["of the least"]
        add("a scene of uint16 on two threads against one", "at least 1.8x", ratio, ratio >= 1.8)
    worst = max(case["ratio"] for case in measured["plans"])
    add("plan against the best candidate, worst case", "at most 1.2x", worst, worst <= FAST_ENOUGH)
    slowest = max(row["beside"][-1]["median"] for row in measured["busy"])
    what = "fits and maps beside two busy processes over quiet, the slowest"
    add(what, f"at most {BUSY_WANTED:g}x", slowest, slowest <= BUSY_WANTED)
    for name, row in measured["startup"].items():
        if row["wanted"] is not None:
            ratio, most = row["over"]["median"], row["wanted"]
            add(f"`{name}` against `{row['base']}`", f"at most {most:g}x", ratio, ratio <= most)
    return rows


def _to_accuracy(measured: dict[str, Any]) -> float:
    """Return the textbook's time to the goal over the joint solver's.

    The textbook goes through the same networks as our alternating solver, so it needs as many
    epochs; each takes as long as was measured.
    """
    rows = {row["name"]: row for row in measured["fits"]}
    fast = seconds_to(rows["polyad joint, rank 1"], measured["goal"])
    curve = rows["polyad alternating, rank 1, 50 epochs"]["curves"][0]
    needed = next(k for k, (_, a) in enumerate(curve, 1) if a >= measured["goal"])
    epoch = measured["epochs"]["alternating, rank 1"]["textbook, unit by unit"]["seconds"]
    return float("nan") if fast is None else needed * epoch / fast


def _epochs(epochs: dict[str, Any]) -> str:
    lines = []
    for name, table in epochs.items():
        if name.startswith("alternating"):
            lines += [
                [name, form, _seconds(row["seconds"]), _ratio(row["over polyad"])]
                for form, row in table.items()
            ]
    joint = [
        [
            name,
            _seconds(row["seconds"]),
            _seconds(row["own GEMMs"]),
            _ratio(row["over own GEMMs"]),
            _ratio(row["over sgemm rate"]),
        ]
        for name, row in epochs.items()
        if name.startswith("joint")
    ]
    return "\n".join(
        [
            "## One epoch, one step",
            "",
            "160 samples of 5 x 5 x 200 (Indian Pines, ten labels per class), 75 hidden units. An",
            "epoch of Algorithm 1 is 4 blocks x 3 batches x 10 steps. The textbook form makes",
            "every sample's Khatri-Rao contraction by itself, for one unit after the other as the",
            "algorithm is printed, or for all units at once.",
            "",
            _table(["", "form", "seconds per epoch", "over polyad"], lines),
            "",
            "A joint step is one Adam step on all weights with all samples. At the sgemm rate, the",
            "smaller products over the R terms are counted too.",
            "",
            _table(
                [
                    "",
                    "seconds per step",
                    "its two large GEMMs alone",
                    "step over them",
                    "step over all its GEMMs at the sgemm rate",
                ],
                joint,
            ),
            "",
            "Where the time of a joint step goes (torch's profiler, which slows it), seconds:",
            "",
            _profiles({k: row["profile"] for k, row in epochs.items() if k.startswith("joint")}),
        ]
    )


def _profiles(profiles: dict[str, dict[str, float]]) -> str:
    lines = [
        [name, operation, _seconds(seconds)]
        for name, profile in profiles.items()
        for operation, seconds in profile.items()
    ]
    return _table(["", "operation", "seconds"], lines)


def _fits(rows: list[dict[str, Any]], goal: float) -> str:
    base = next(r for r in rows if r["name"] == "polyad joint, rank 1")
    lines = []
    for row in rows:
        reached = seconds_to(row, goal)
        lines.append(
            [
                row["name"],
                _seconds(row["seconds"]),
                f"{row['seconds'] / base['seconds']:.3g}",
                f"{100 * row['accuracy']:.1f} %",
                "not reached" if reached is None else _seconds(reached),
                _seconds(row["scene"]),
                _megabytes(row["peak"]),
            ]
        )
    return "\n".join(
        [
            "## Fits",
            "",
            "Ten labels per class of Indian Pines; accuracy on 2,000 other pixels after the last",
            f"epoch; time until {100 * goal:.1f} % of them were right, which is what 50 epochs of",
            "Algorithm 1 reach at rank 1. Scene: a map of all 21,025 pixels, by `map_scene` for",
            "ours, for the others patch by patch (timed on 20 of 145 rows). Memory: how far the",
            "first epochs raised the process's.",
            "",
            _table(
                ["", "fit, s", "over ours", "accuracy", "s to goal", "scene, s", "memory"], lines
            ),
        ]
    )


def _control(rows: list[dict[str, Any]]) -> str:
    def mean(row: dict[str, Any]) -> str:
        shares = [100 * a for a in row["accuracy"]]
        return f"{statistics.mean(shares):.1f} ± {statistics.pstdev(shares):.1f} %"

    ours = [[row["name"], mean(row)] for row in rows if row["start"] is None]
    in_loop: dict[str, list[str]] = {}
    for row in rows:
        if row["start"] is not None:
            in_loop.setdefault(row["name"], []).append(mean(row))
    starts = list(dict.fromkeys(row["start"] for row in rows if row["start"] is not None))
    return "\n".join(
        [
            "## The layer by itself",
            "",
            "The table above compares our solver with other layers under plain Adam. Here",
            "the three layers stand in the same network (75 units, tanh, a linear output) and",
            "the same loop: 500 full-batch steps of Adam at 0.005, bands standardized. Ten",
            "labels per class of Indian Pines, accuracy on 2,000 other pixels, mean ±",
            f"deviation of seeds 0 to {len(rows[0]['accuracy']) - 1}. *Random*: as each library",
            "draws, scaled to outputs of deviation one. *From the data*: the weights that our",
            "solver starts with, so that all three begin as the same function.",
            "",
            _table(
                ["in the same loop", *(f"start: {s}" for s in starts)],
                [[name, *cells] for name, cells in in_loop.items()],
            ),
            "",
            "Our estimator on the same samples; each row leaves out one thing more:",
            "",
            _table(["", "accuracy"], ours),
            "",
            "Drawn at random, no layer is better than another by more than the seeds differ, and",
            "none comes near our estimator: its lead over the other layers above is that of the",
            "solver and its start. The start from the data is what matters most, the penalty and",
            "the whitening hardly. It helps the Rank-R layer in the plain loop too, and the dense",
            "layer, which is free to leave it, not at all.",
        ]
    )


def _layers(found: dict[str, Any]) -> str:
    cases = [
        [
            " x ".join(map(str, case["shape"])),
            str(case["hidden"]),
            str(case["n"]),
            _micro(case["dense"]),
            _ratio(case["over dense"]),
            _micro(case["dense, training"]),
            _ratio(case["over dense, training"]),
        ]
        for case in found["cases"]
    ]
    issue = [
        [f"`{name.replace(', ', '`, ', 1)}" if ", " in name else f"`{name}`",
         _micro(row["seconds"]), _ratio(row["over dense"])]
        for name, row in found["issue 35"].items()
    ]  # fmt: skip
    slower = [c for c in found["cases"] if c["over dense"]["median"] > 1]
    slower_to_train = [c for c in found["cases"] if c["over dense, training"]["median"] > 1]
    return "\n".join(
        [
            "## Where nn.Linear is faster",
            "",
            "`RankRLinear` at rank 1 over `nn.Linear` on the flattened sample, in inference and",
            "with the backward pass. A ratio above 1 means that `nn.Linear` is faster: in",
            f"{len(slower)} of {len(cases)} cases of inference and {len(slower_to_train)} of "
            "training. The layer has fewer weights,",
            "not less work: small inputs pay for more calls, large batches for the same product",
            "after the weight is rebuilt.",
            "",
            _table(
                [
                    "sample",
                    "units",
                    "batch",
                    "nn.Linear, µs",
                    "RankRLinear over it",
                    "with backward, µs",
                    "RankRLinear over it",
                ],
                cases,
            ),
            "",
            "The layers of [tensorly/torch issue 35]"
            "(https://github.com/tensorly/torch/issues/35): 4 samples, 16 inputs as 4 x 4, 10",
            "outputs as 2 x 5, Tucker rank 0.1. The issue reports 38.7 µs for `nn.Linear`, 880 µs",
            "for `FactorizedLinear` reconstructed and 2.74 ms factorized, on another machine. All",
            "of them here, on one thread of a CPU:",
            "",
            _table(["", "µs", "over nn.Linear"], issue),
            "",
            "At these sizes a layer is calls, not arithmetic: nothing factorized is faster than",
            "one small matrix product.",
        ]
    )


def _maps(maps: dict[str, Any]) -> str:
    lines = [
        [
            name,
            _seconds(row["seconds"]),
            _ratio(row["over polyad"]),
            f"{100 * row['share of sgemm']:.1f} %",
            _megabytes(row["peak"]),
            f"{100 * row['agreement']:.2f} %",
        ]
        for name, row in maps["rows"].items()
    ]
    height, width, bands = maps["scene"]
    two = maps["two threads"]
    return "\n".join(
        [
            "## A whole scene",
            "",
            f"{height} x {width} pixels of {bands} bands (the size of Pavia University), window 5,",
            "75 hidden units, 9 classes; from float32 counts to class ids, standardization",
            f"included. The map needs {maps['flops'] / 1e9:.1f} GFLOP; sgemm ran at "
            f"{maps['sgemm'] / 1e9:.0f} GFLOP/s in the",
            "same rounds. Patch GEMM ran on 1/8 of the rows.",
            "",
            _table(
                ["", "seconds", "over polyad", "of the sgemm limit", "memory", "same classes"],
                lines,
            ),
            "",
            f"Two threads, wall clock: {_ratio(two['speed-up'])} times one; least against least "
            f"{two['of the least']:.2f}.",
            "",
            "Where the time of one map goes (torch's profiler, which slows it):",
            "",
            _profiles({"map_scene": maps["profile"]}),
        ]
    )


def _throughput(found: dict[str, Any]) -> str:
    lines = [
        [
            str(row["bands"]),
            row["dtype"],
            row["order"],
            _megabytes(row["bytes"]),
            _seconds(row["least"]),
            f"{100 * row['share of sgemm']:.0f} %",
            f"{row['searching']:.2f}",
        ]
        for row in found["rows"]
    ]
    height, width = found["size"]
    return "\n".join(
        [
            "## Scenes larger than the caches",
            "",
            f"{height} x {width} pixels in memory, the network as above, one thread; least",
            "processor times. BIL has the bands of a pixel apart, as files of that interleave. The",
            "last column is a map that looks for corrupt pixels over one that does not.",
            "",
            _table(
                ["bands", "type", "order", "size", "seconds", "of sgemm", "corrupt pixels"], lines
            ),
            "",
            f"Two threads, wall clock, uint16: {_ratio(found['two threads']['speed-up'])} times",
            f"one; least against least {found['two threads']['of the least']:.2f}.",
        ]
    )


def _plans(cases: list[dict[str, Any]]) -> str:
    near = sum(case["ratio"] <= FAST_ENOUGH for case in cases)
    worst = sorted(cases, key=lambda case: -case["ratio"])[:8]
    lines = [
        [
            " x ".join(map(str, case["shape"])),
            str(case["rank"]),
            str(case["n"]),
            case["chosen"].replace("|", "/"),
            case["best"].replace("|", "/"),
            f"{case['ratio']:.2f}",
        ]
        for case in worst
    ]
    return "\n".join(
        [
            "## Plans",
            "",
            f"Of {len(cases)} cases of order 2 to 5, the plan's choice was within "
            f"{100 * (FAST_ENOUGH - 1):.0f} % of the fastest candidate in {near}. The worst:",
            "",
            _table(["sample", "rank", "n", "chosen", "fastest", "chosen over fastest"], lines),
        ]
    )


def _growth(growth: dict[str, Any]) -> str:
    lines = [
        [name, way, f"{power:.2f}"]
        for name, points in growth.items()
        for way, power in slopes(points).items()
    ]
    pictures = [f"![Time and memory against {name}](images/growth-{name}.png)" for name in growth]
    return "\n".join(
        [
            "## Growth",
            "",
            "One size at a time; dotted lines are proportional to it. The formulas say: a map",
            "grows with pixels, bands, rank and hidden units; a joint step with bands, hidden",
            "units and samples, but hardly with the rank, because the terms are added before the",
            "large products; an epoch of Algorithm 1 with all four. Fixed costs flatten the lower",
            "ends.",
            "Power of the size by which time grows, over the upper half of each sweep:",
            "",
            _table(["size", "way", "power"], lines),
            "",
            *pictures,
        ]
    )


def _startup(starts: dict[str, Any]) -> str:
    lines = [
        [
            f"`{name}`",
            _seconds(row["seconds"]),
            _ratio(row["over"]),
            f"`{row['base']}`",
            "-" if row["wanted"] is None else f"at most {row['wanted']:g}",
        ]
        for name, row in starts.items()
    ]
    return "\n".join(
        [
            "## Start-up",
            "",
            "Processor time, of user and system, of a new process until it has answered. Names",
            "are imported when they are used, and a command checks its arguments before it",
            "imports what does the work: `missing` is nowhere on the disk. `scene.tif` holds 500 x",
            "400 pixels of 100 bands as floats; `demo` trains, maps, scores and writes its report.",
            "",
            _table(["", "seconds", "ratio", "to that of", "wanted"], lines),
        ]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value >= 0.01 else f"{value:.5f}"


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f}" if seconds >= 1e-4 else f"{1e6 * seconds:.3g}"


def _ratio(value: dict[str, float]) -> str:
    return f"{value['median']:.3g} ({value['low']:.3g}-{value['high']:.3g})"


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.0f} MB"


def _busy(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        [row["name"], f"{row['quiet']:.3g}", *(_ratio(ratio) for ratio in row["beside"])]
        for row in rows
    ]
    return "\n".join(
        [
            "## A busy machine",
            "",
            "Indian Pines, ten labels per class, beside processes that never rest. Wall clock, as",
            "many threads as torch takes by itself; wanted beside two: at most "
            f"{BUSY_WANTED:g} times the quiet seconds.",
            "",
            _table(["work", "quiet seconds", "beside one", "beside two"], lines),
        ]
    )
