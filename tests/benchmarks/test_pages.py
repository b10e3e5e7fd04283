"""The measured parts of every page are what its records give, and its records what they claim."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import approximation, areas, cnn_tuning, profiles
from benchmarks.harness import DOCS, RESULTS, chosen, fill, filled, read_records, resume, table
from benchmarks.page import PAGE, parts, targets
from polyad.experiments.settings import MODELS

MODULES = (
    "approximation",
    "areas",
    "cnn_tuning",
    "compression",
    "coverage",
    "few_labels_page",
    "findings",
    "label_accuracy",
    "noise_levels",
    "other_places_page",
    "profiles",
    "real_size",
    "tensors",
    "values_page",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_measured_parts_of_a_page_are_what_its_records_give(name):
    module = importlib.import_module(f"benchmarks.{name}")
    assert filled(module.PAGE) == module.parts()


def test_the_page_of_benchmarks_is_what_was_measured():
    measured = json.loads((DOCS / "benchmarks.json").read_text())
    found = parts(measured)
    assert filled(PAGE) == found
    assert all(target["what"] in found["targets"] for target in targets(measured))
    measured["machines"]["plans"] = {**measured["machines"]["maps"], "processor": "abacus"}
    del measured["machines"]["busy"]
    found = parts(measured)
    assert found["plans, machine"].startswith("*abacus, ")
    assert found["busy, machine"].startswith("*Nobody noted")


def test_a_page_is_filled_between_its_marks_and_its_words_stay(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("In <!-- n -->3<!-- end --> of 4:\n\n<!-- t -->\n\nold\n\n<!-- end -->\nEnd.\n")
    new = {"n": "4", "t": table(["a", "b:"], [["1", "2"]])}
    fill(page, new)
    assert filled(page) == new
    words, _, rest = page.read_text().partition("| a | b |")
    assert words == "In <!-- n -->4<!-- end --> of 4:\n\n<!-- t -->\n\n"
    assert rest.endswith("\n\n<!-- end -->\nEnd.\n")
    with pytest.raises(SystemExit, match="has no <!-- other -->"):
        fill(page, {"other": "x"})


def test_a_case_that_has_a_record_is_not_measured_again(tmp_path):
    path, cases, seen = tmp_path / "r.jsonl", [{"seed": 0}, {"seed": 1}], []

    def measure(seed):
        seen.append(seed)
        return [{"oa": seed}, {"oa": seed + 1}] if seed else {"oa": 5}

    assert resume(path, cases[:1], measure) == [{"seed": 0, "oa": 5}]
    assert len(resume(path, cases, measure)) == 3
    assert seen == [0, 1]
    path.write_text(path.read_text() + '{"seed": 2, "o')  # killed while it was written
    assert len(read_records(path)) == 3


# --- what the records must show ------------------------------------------------------------------


def test_the_settings_of_the_tuned_cnn_are_those_that_the_folds_chose():
    rows = read_records(cnn_tuning.RECORDS)
    assert min(row["seed"] for row in rows) >= 100  # development seeds
    taken = cnn_tuning.taken(rows)
    assert {k: MODELS["cnn-tuned"].settings[k] for k in taken._fields} == taken._asdict()


def test_theorem_1_and_its_corollaries_hold_in_the_records():
    rows = read_records(approximation.RECORDS)
    assert max(row["error"] for row in chosen(rows, what="theorem 1")) < 1e-12
    for what, sizes in (("rank", approximation.RANKS), ("samples", approximation.SAMPLES)):
        own = chosen(rows, what=what)
        means = [np.mean([r["error"] for r in chosen(own, **{what: k})]) for k in sizes]
        assert means == sorted(means, reverse=True), what


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_coverage_is_kept_on_random_pixels_and_broken_on_other_fields(level):
    rows = [r for r in read_records(RESULTS / "coverage.jsonl") if r["seed"] < 100]
    for preset in ("fast", "best, this-scene", "best, other-scenes"):
        near, far = (
            chosen(rows, protocol=protocol, preset=preset, level=level)
            for protocol in ("random-10", "other-fields-10")
        )
        assert sorted(r["seed"] for r in near) == list(range(10))
        assert np.mean([r["coverage"] for r in near]) > level - 0.01
        assert np.mean([r["coverage"] for r in far]) < level - 0.1


def test_settings_of_profiles_were_chosen_on_other_seeds_than_those_reported():
    assert {row["key"][2] for row in read_records(profiles.CHOICE)} == set(profiles.CHOICE_SEEDS)
    assert {row["key"][2] for row in read_records(profiles.RECORDS)} == set(profiles.SEEDS)
    assert min(profiles.CHOICE_SEEDS) >= 100


@pytest.mark.parametrize("design", [d for d in areas.DESIGNS if d.size >= 600], ids=lambda d: d.key)
def test_intervals_of_areas_hold_as_often_as_they_say(design):
    rows = chosen(read_records(areas.RECORDS), design=design.key)
    own = [r for r in rows if r["class"] in areas.NAMES]
    assert [r["draws"] - r["refused"] for r in own] == [1000] * len(areas.NAMES)
    assert all(930 <= r["held"] <= 970 for r in own)


def test_tables_of_few_labels_say_propagation_where_the_records_say_walk():
    assert "walk" not in Path(RESULTS / "few-labels.md").read_text()


def test_pictures_of_the_benchmarks_are_there():
    text = PAGE.read_text()
    pictures = [part.split(")")[0] for part in text.split("](images/")[1:]]
    assert pictures
    assert all((DOCS / "images" / picture).exists() for picture in pictures)
