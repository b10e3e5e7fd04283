"""How often 95 % intervals hold the true area, by simulation: docs/results/areas.md.

    python -m benchmarks.areas [--draws 1000]

A made land of 120,000 pixels whose truth is known everywhere, a map of it with errors along the
borders of its classes, and an older map of the same land. Samples are drawn and evaluated with the
functions that ``polyad sample`` and ``polyad area`` call, seeds 0 to 999. Writes one JSON line for
each design and class to docs/results/areas.jsonl, and the page.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from affine import Affine
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from benchmarks.harness import RESULTS, chosen, fill, read_records, table
from polyad.errors import SceneError
from polyad.scene import ClassInfo, SamplePoints, draw_sample, estimate_areas, with_classes
from polyad.scene.raster.scene import describe

RECORDS, PAGE = RESULTS / "areas.jsonl", RESULTS / "areas.md"
SHAPE, PIXEL = (300, 400), 0.09  # rows and columns of 30 m; hectares of a pixel
NAMES = ("Forest", "Crops", "Grass", "Water")
SHARES = (0.5, 0.3, 0.15, 0.05)
LAND = 7  # seed of the land itself


class Design(NamedTuple):
    """What is drawn, and how it is told on the page."""

    key: str
    title: str
    size: int
    minimum: int
    strata: str  # "map", "older map" or "none"


DESIGNS = (
    Design("stratified", "Stratified, strata = classes (Olofsson 2014)", 600, 75, "map"),
    Design("stehman", "Stratified, strata = older map (Stehman 2014)", 600, 75, "older map"),
    Design("random", "Simple random, post-stratified by the map", 600, 2, "none"),
    Design("stratified, small", "Stratified, strata = classes", 80, 10, "map"),
    Design("stehman, small", "Stratified, strata = older map", 80, 10, "older map"),
    Design("random, small", "Simple random, post-stratified", 80, 2, "none"),
)


def smooth(rng: np.random.Generator, width: float) -> NDArray[np.float64]:
    """Return a field of hills, mean 0 and deviation 1."""
    field = gaussian_filter(rng.standard_normal(SHAPE), width, mode="wrap")
    return (field - field.mean()) / field.std()


def classes_of(field: NDArray[np.float64], cuts: NDArray[np.float64]) -> xr.DataArray:
    """Return the field cut into classes, as a georeferenced map."""
    ids = (np.digitize(field, cuts) + 1).astype(np.uint16)
    grid = Affine(30, 0, 365_000, 0, -30, 5_809_000)
    raster = describe(xr.DataArray(ids, dims=("y", "x")), crs="EPSG:32633", transform=grid)
    return with_classes(raster, [ClassInfo(k, n, "") for k, n in enumerate(NAMES, start=1)])


def land() -> dict[str, xr.DataArray]:
    """Return truth, map, older map, and one stratum for all."""
    rng = np.random.default_rng(LAND)
    hills = smooth(rng, 8.0)
    cuts = np.quantile(hills, np.cumsum(SHARES)[:-1])
    truth = classes_of(hills, cuts)
    # The map errs along borders, and in favor of the classes below: it is biased
    seen = hills + 0.25 * smooth(rng, 2.0) - 0.05
    older = hills + 0.5 * smooth(rng, 3.0)
    one = truth.copy(data=np.ones(SHAPE, np.uint16)).drop_attrs()
    maps = {"map": classes_of(seen, cuts), "older map": classes_of(older, cuts)}
    return {"truth": truth, **maps, "none": one}


def simulate(design: Design, draws: int, maps: dict[str, xr.DataArray]) -> list[dict[str, Any]]:
    """Return a record for each class: how often its interval held its true area."""
    truth, mapped = maps["truth"].values, maps["map"]
    strata = None if design.strata == "map" else maps[design.strata]
    true = np.bincount(truth.ravel(), minlength=len(NAMES) + 1)[1:] * PIXEL
    agreed = float((truth == mapped.values).mean())
    areas, errors, held, overall, refused = [], [], [], [], 0
    for seed in range(draws):
        sample = draw_sample(
            mapped, design.size, strata=strata, minimum=design.minimum, random_state=seed
        )
        points = SamplePoints(sample.pixels, truth[tuple(sample.pixels.T)].astype(np.int64))
        random = design.strata == "none"
        try:
            found = estimate_areas(
                mapped,
                points,
                strata=None if random else strata,
                design="random" if random else "stratified",
            )
        except SceneError:  # fewer than two points fell into a class
            refused += 1
            continue
        low, high = found.intervals.T
        areas.append(found.areas)
        errors.append(found.errors)
        held.append((low <= true) & (true <= high))
        told = found.to_dict()["overall_accuracy_ci95"]
        overall.append(told[0] <= agreed <= told[1])
    mean, spread = np.mean(areas, axis=0), np.std(areas, axis=0, ddof=1)
    shared = {"design": design.key, "draws": draws, "refused": refused}
    by_map = np.bincount(mapped.values.ravel(), minlength=len(NAMES) + 1)[1:] * PIXEL
    rows = [
        shared
        | {
            "class": name,
            "true_ha": round(float(true[k]), 2),
            "mapped_ha": round(float(by_map[k]), 2),
            "mean_ha": round(float(mean[k]), 2),
            "deviation_ha": round(float(spread[k]), 2),
            "mean_se_ha": round(float(np.mean(errors, axis=0)[k]), 2),
            "held": int(np.sum(held, axis=0)[k]),
        }
        for k, name in enumerate(NAMES)
    ]
    return [*rows, shared | {"class": "overall accuracy", "held": int(np.sum(overall))}]


NUMBERS = ("true_ha", "mapped_ha", "mean_ha", "deviation_ha", "mean_se_ha")


def parts() -> dict[str, str]:
    """Return a table for each design."""
    records, found = read_records(RECORDS), {}
    for design in DESIGNS:
        rows = []
        for row in chosen(records, design=design.key):
            done = row["draws"] - row["refused"]
            cells = [f"{row[k]:,.0f}" if k in row else "" for k in NUMBERS]
            rows.append([row["class"], *cells, f"{100 * row['held'] / done:.1f} % of {done:,}"])
        head = ["class", "true ha", "by the map", "mean estimate", "its deviation", "mean SE"]
        found[design.key] = table([*head, "intervals that hold the truth"], rows)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--draws", type=int, default=1000)
    given = arguments.parse_args()
    maps, records = land(), []
    for design in DESIGNS:
        records += simulate(design, given.draws, maps)
        print(design.key, [row["held"] for row in records[-5:]], flush=True)
    RECORDS.write_text("".join(json.dumps(record) + "\n" for record in records))
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
