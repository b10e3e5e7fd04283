"""The simulation of intervals: in short, and its page by its records."""

from __future__ import annotations

import json

import pytest

from benchmarks.areas import DESIGNS, DOCS, NAMES, land, page, simulate

DRAWS = 60


def records():
    return [json.loads(line) for line in (DOCS / "areas.jsonl").read_text().splitlines()]


def test_the_page_is_what_its_records_give():
    assert (DOCS / "areas.md").read_text() == page(records())


def test_the_page_says_how_good_its_maps_are():
    maps = land()
    right = [100 * (maps["truth"] == maps[k]).values.mean() for k in ("map", "older map")]
    text = (DOCS / "areas.md").read_text()
    assert [f"({share:.0f} % right)" in text for share in right] == [True, True]


@pytest.mark.parametrize("design", [d for d in DESIGNS if d.size >= 600], ids=lambda d: d.key)
def test_intervals_of_a_thousand_samples_hold_as_often_as_they_say(design):
    own = [r for r in records() if r["design"] == design.key and r["class"] in NAMES]
    assert [r["draws"] - r["refused"] for r in own] == [1000] * len(NAMES)
    assert all(930 <= r["held"] <= 970 for r in own)


@pytest.mark.parametrize("design", [d for d in DESIGNS if d.size >= 600], ids=lambda d: d.key)
def test_intervals_of_a_few_samples_hold_about_as_often(design):
    """Of 60 samples 57 are expected to hold; fewer than 50 come once in a thousand runs."""
    for row in simulate(design, DRAWS, land()):
        assert row["held"] >= 50, row
        if "mean_ha" in row:
            error = row["deviation_ha"] / DRAWS**0.5
            assert abs(row["mean_ha"] - row["true_ha"]) < 4 * error
