"""The page of values has a row for each model, its seeds and what follows from them."""

import numpy as np

from benchmarks.values_page import write_page


def records(seeds=(0, 1)):
    rng = np.random.default_rng(0)
    measured, tile = rng.uniform(0, 1, 40), np.repeat(np.arange(8), 5)
    rows = []
    for seed in seeds:
        for model, noise in (("ridge, spectra", 0.3), ("polyad fast", 0.1)):
            predicted = np.clip(measured + noise * rng.normal(size=40), 0, 1)
            row = {"model": model, "seed": seed, "seconds": 1.0, "predicted": predicted.tolist()}
            told = {"measured": measured.tolist(), "tile": tile.tolist()}
            rows.append(row | ({} if rows else told))
    return rows


def test_our_rows_come_first_with_their_seeds_and_intervals(tmp_path):
    write_page(records(), tmp_path / "page.md")
    table = [
        line for line in (tmp_path / "page.md").read_text().splitlines() if line.startswith("|")
    ]
    assert table[2].startswith("| **polyad fast** | 0 to 1 | 0.")
    assert table[3].startswith("| ridge, spectra | 0 to 1 | ")
    assert table[3].endswith("| 100 % | 1.0 |")


def test_the_difference_to_the_best_other_model_is_told(tmp_path):
    write_page(records(), tmp_path / "page.md")
    assert "which does not hold zero" in (tmp_path / "page.md").read_text()


def test_without_records_there_is_no_page(tmp_path):
    write_page([], tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()
