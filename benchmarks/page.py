"""The measured parts of docs/benchmarks.md: targets, and the tables of each section."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.busy import WANTED as BUSY_WANTED
from benchmarks.fits import seconds_to
from benchmarks.growth import slopes
from benchmarks.harness import DOCS, table
from benchmarks.plans import FAST_ENOUGH

PAGE = DOCS / "benchmarks.md"
Measured = dict[str, Any]


def parts(measured: Measured) -> dict[str, str]:
    """Return the measured parts of the page, section by section."""
    rows = [
        [t["what"], t["expected"], t["measured"], "yes" if t["reached"] else "**no**"]
        for t in targets(measured)
    ]
    found = {"targets": table(["target", "expected", "measured", "reached"], rows)}
    for name, section in SECTIONS.items():
        found[f"{name}, machine"] = _measured_on(measured["machines"].get(name))
        found |= section(measured)
    return found


def _measured_on(machine: dict[str, Any] | None) -> str:
    """Return the line that says where a section was measured: each has its own run."""
    if machine is None:
        return "*Nobody noted which machine this was measured on.*"
    return (
        f"*{machine['processor']}, {machine['cores']} cores, sgemm on one thread "
        f"{machine['sgemm, one thread']}; Python {machine['python']}, torch {machine['torch']}, "
        f"numpy {machine['numpy']}; load of other work {machine['load']}.*"
    )


def targets(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the project promised itself about speed, and what was measured."""
    rows = []

    def add(what: str, expected: str, value: float, reached: bool, unit: str = "x") -> None:
        text = f"{100 * value:.0f} %" if unit == "%" else f"{value:.3g}{unit}"
        rows.append({"what": what, "expected": expected, "measured": text, "reached": reached})

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
        if row["expected"] is not None:
            ratio, most = row["over"]["median"], row["expected"]
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


def _epochs(measured: Measured) -> dict[str, str]:
    epochs = measured["epochs"]
    alternating = [
        [name, form, _seconds(row["seconds"]), _ratio(row["over polyad"])]
        for name, forms in epochs.items()
        if name.startswith("alternating")
        for form, row in forms.items()
    ]
    steps = {name: row for name, row in epochs.items() if name.startswith("joint")}
    joint = [
        [
            name,
            _seconds(row["seconds"]),
            _seconds(row["own GEMMs"]),
            _ratio(row["over own GEMMs"]),
            _ratio(row["over sgemm rate"]),
        ]
        for name, row in steps.items()
    ]
    head = ["", "seconds per step", "its two large GEMMs alone", "step over them"]
    return {
        "epochs": table(["", "form", "seconds per epoch", "over polyad"], alternating),
        "joint": table([*head, "step over all its GEMMs at the sgemm rate"], joint),
        "joint, profile": _profiles({name: row["profile"] for name, row in steps.items()}),
    }


def _profiles(profiles: dict[str, dict[str, float]]) -> str:
    lines = [
        [name, operation, _seconds(seconds)]
        for name, profile in profiles.items()
        for operation, seconds in profile.items()
    ]
    return table(["", "operation", "seconds"], lines)


def _fits(measured: Measured) -> dict[str, str]:
    rows, goal = measured["fits"], measured["goal"]
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
    head = ["", "fit, s", "over ours", "accuracy", "s to goal", "scene, s", "memory"]
    return {"goal": f"{100 * goal:.1f} %", "fits": table(head, lines)}


def _control(measured: Measured) -> dict[str, str]:
    rows = measured["control"]

    def mean(row: dict[str, Any]) -> str:
        shares = [100 * a for a in row["accuracy"]]
        return f"{statistics.mean(shares):.1f} ± {statistics.pstdev(shares):.1f} %"

    ours = [[row["name"], mean(row)] for row in rows if row["start"] is None]
    in_loop: dict[str, list[str]] = {}
    for row in rows:
        if row["start"] is not None:
            in_loop.setdefault(row["name"], []).append(mean(row))
    starts = list(dict.fromkeys(row["start"] for row in rows if row["start"] is not None))
    head = ["in the same loop", *(f"start: {s}" for s in starts)]
    return {
        "control": table(head, [[name, *cells] for name, cells in in_loop.items()]),
        "ours": table(["", "accuracy"], ours),
    }


def _layers(measured: Measured) -> dict[str, str]:
    found = measured["layers"]
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
    slower, to_train = (
        sum(c[key]["median"] > 1 for c in found["cases"])
        for key in ("over dense", "over dense, training")
    )
    head = ["sample", "units", "batch", "nn.Linear, µs", "RankRLinear over it"]
    return {
        "slower": f"{slower} of {len(cases)} cases of inference and {to_train} of training",
        "layers": table([*head, "with backward, µs", "RankRLinear over it"], cases),
        "issue 35": table(["", "µs", "over nn.Linear"], issue),
    }


def _maps(measured: Measured) -> dict[str, str]:
    maps = measured["maps"]
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
    head = ["", "seconds", "over polyad", "of the sgemm limit", "memory", "same classes"]
    return {
        "limit": f"The map needs {maps['flops'] / 1e9:.1f} GFLOP; sgemm ran at "
        f"{maps['sgemm'] / 1e9:.0f} GFLOP/s",
        "maps": table(head, lines),
        "two threads": _two_threads(maps["two threads"]),
        "maps, profile": _profiles({"map_scene": maps["profile"]}),
    }


def _two_threads(two: dict[str, Any]) -> str:
    return f"{_ratio(two['speed-up'])} times one; least against least {two['of the least']:.2f}."


def _throughput(measured: Measured) -> dict[str, str]:
    found = measured["throughput"]
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
    head = ["bands", "type", "order", "size", "seconds", "of sgemm", "corrupt pixels"]
    return {
        "throughput": table(head, lines),
        "uint16, two threads": _two_threads(found["two threads"]),
    }


def _plans(measured: Measured) -> dict[str, str]:
    cases = measured["plans"]
    near = sum(case["ratio"] <= FAST_ENOUGH for case in cases)
    lines = [
        [
            " x ".join(map(str, case["shape"])),
            str(case["rank"]),
            str(case["n"]),
            case["chosen"].replace("|", "/"),
            case["best"].replace("|", "/"),
            f"{case['ratio']:.2f}",
        ]
        for case in sorted(cases, key=lambda case: -case["ratio"])[:8]
    ]
    head = ["sample", "rank", "n", "chosen", "fastest", "chosen over fastest"]
    return {
        "near": f"Of {len(cases)} cases of order 2 to 5, the plan's choice was within "
        f"{100 * (FAST_ENOUGH - 1):.0f} % of the fastest candidate in {near}",
        "plans": table(head, lines),
    }


def _growth(measured: Measured) -> dict[str, str]:
    lines = [
        [name, way, f"{power:.2f}"]
        for name, points in measured["growth"].items()
        for way, power in slopes(points).items()
    ]
    return {"growth": table(["size", "way", "power"], lines)}


def _startup(measured: Measured) -> dict[str, str]:
    lines = [
        [
            f"`{name}`",
            _seconds(row["seconds"]),
            _ratio(row["over"]),
            f"`{row['base']}`",
            "-" if row["expected"] is None else f"at most {row['expected']:g}",
        ]
        for name, row in measured["startup"].items()
    ]
    return {"startup": table(["", "seconds", "ratio", "to that of", "expected"], lines)}


def _busy(measured: Measured) -> dict[str, str]:
    lines = [
        [row["name"], f"{row['quiet']:.3g}", *(_ratio(ratio) for ratio in row["beside"])]
        for row in measured["busy"]
    ]
    return {"busy": table(["work", "quiet seconds", "beside one", "beside two"], lines)}


SECTIONS = {
    "epochs": _epochs,
    "fits": _fits,
    "control": _control,
    "layers": _layers,
    "maps": _maps,
    "throughput": _throughput,
    "plans": _plans,
    "growth": _growth,
    "startup": _startup,
    "busy": _busy,
}


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value >= 0.01 else f"{value:.5f}"


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f}" if seconds >= 1e-4 else f"{1e6 * seconds:.3g}"


def _ratio(value: dict[str, float]) -> str:
    return f"{value['median']:.3g} ({value['low']:.3g}-{value['high']:.3g})"


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.0f} MB"
