"""The simulation of intervals, in short."""

from __future__ import annotations

import pytest

from benchmarks.areas import DESIGNS, PAGE, land, simulate

DRAWS = 60


def test_the_page_says_how_good_its_maps_are():
    maps = land()
    right = [100 * (maps["truth"] == maps[k]).values.mean() for k in ("map", "older map")]
    text = PAGE.read_text()
    assert [f"({share:.0f} % right)" in text for share in right] == [True, True]


@pytest.mark.parametrize("design", [d for d in DESIGNS if d.size >= 600], ids=lambda d: d.key)
def test_intervals_of_a_few_samples_hold_about_as_often(design):
    """Of 60 samples 57 are expected to hold; fewer than 50 come once in a thousand runs."""
    for row in simulate(design, DRAWS, land()):
        assert row["held"] >= 50, row
        if "mean_ha" in row:
            error = row["deviation_ha"] / DRAWS**0.5
            assert abs(row["mean_ha"] - row["true_ha"]) < 4 * error
