"""The page on morphological profiles is what its records give."""

from benchmarks import profiles


def test_the_committed_page_is_what_its_records_give():
    assert profiles.PAGE.read_text() == profiles.page()


def test_settings_were_chosen_on_other_seeds_than_those_reported():
    assert {row["key"][2] for row in profiles.load(profiles.CHOICE)} == set(profiles.CHOICE_SEEDS)
    assert {row["key"][2] for row in profiles.load(profiles.RECORDS)} == set(profiles.SEEDS)
    assert min(profiles.CHOICE_SEEDS) >= 100
