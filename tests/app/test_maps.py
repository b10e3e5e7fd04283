import numpy as np
import pytest

from polyad.app.advice import advise
from polyad.app.maps import (
    map_window,
    margin_uncertainty,
    score_against,
    shares,
)
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.windows import Tile, plan_tiles
from polyad.scene.read.scenes import scene_from_array


def test_margin_is_the_gap_between_the_two_best_classes():
    proba = np.array([[0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3], [np.nan] * 3])
    uncertainty = margin_uncertainty(proba)
    np.testing.assert_allclose(uncertainty[:2], [0.7, 1.0])
    assert np.isnan(uncertainty[2])
    assert margin_uncertainty(np.array([[1.0]])).tolist() == [0.0]


@pytest.fixture(scope="module")
def fitted(kit):
    scene, truth = kit.make_scene()
    pixels = np.array([[r, c] for r in (3, 12, 21) for c in (2, 8, 15, 22, 29, 36)])
    model = train_on(scene, truth, pixels, preset="fast", window=5, hidden=8, epochs=30)
    return scene, truth, model


def test_a_map_by_windows_is_the_map_of_the_whole(fitted):
    scene, _, model = fitted
    whole, proba = map_scene(model, scene, probabilities=True)
    for tile in plan_tiles(scene.shape[:2], (13, 17)):
        ids, unsure, candidates = map_window(model, scene, tile, candidates=20)
        np.testing.assert_array_equal(ids, whole.values[tile])
        exact = 1 + 254 * margin_uncertainty(proba.values[tile])
        assert np.abs(unsure - exact).max() <= 1
        assert len(candidates.pixels) <= 20
        inside = (candidates.pixels >= [tile.rows.start, tile.cols.start]).all()
        assert inside
        assert (candidates.pixels < [tile.rows.stop, tile.cols.stop]).all()


def test_candidates_are_the_most_uncertain_pixels_with_their_mean_spectra(fitted):
    scene, _, model = fitted
    _, unsure, candidates = map_window(
        model, scene, Tile(slice(0, 30), slice(0, 40)), candidates=10
    )
    assert candidates.uncertainty.min() >= np.sort(unsure.ravel())[-10] / 255 - 0.01
    row, col = next((r, c) for r, c in candidates.pixels if 2 <= r < 28 and 2 <= c < 38)
    at = [tuple(p) for p in candidates.pixels.tolist()].index((row, col))
    mean = scene.values[row - 2 : row + 3, col - 2 : col + 3].mean(axis=(0, 1))
    np.testing.assert_allclose(candidates.spectra[at], mean, rtol=1e-4)


def test_a_window_without_data_maps_to_nothing(fitted):
    _, _, model = fitted
    empty = scene_from_array(np.full((8, 9, 8), np.nan, np.float32))
    ids, unsure, candidates = map_window(model, empty, Tile(slice(0, 8), slice(0, 9)))
    assert not ids.any()
    assert not unsure.any()
    assert len(candidates.pixels) == 0
    assert advise([candidates], np.ones((2, 8))) == []


def test_shares_add_up_to_one_over_the_mapped_pixels():
    classes = (ClassInfo(1, "a", "#000000"), ClassInfo(2, "b", "#000000"))
    assert shares(np.array([[0, 1], [2, 2]], np.uint8), classes) == {"1": 1 / 3, "2": 2 / 3}


def test_scores_go_by_the_names_of_classes_and_leave_labels_out(fitted):
    scene, truth, model = fitted
    ids = map_scene(model, scene).values.astype(np.uint8)
    score = score_against(truth, ids, model)
    assert score["overall"] > 0.95
    assert score["pixels"] == truth.size - 18
    assert score["classes"] == "3 of 3"
    swapped = with_classes(
        truth.copy(data=np.array([0, 2, 1, 3])[truth.values]),
        [ClassInfo(2, "Water", "#000000"), ClassInfo(1, "Corn", "#000000"),
         ClassInfo(3, "Woods", "#000000")],
    )  # fmt: skip
    assert score_against(swapped, ids, model)["overall"] == score["overall"]


def test_true_classes_that_the_model_does_not_know_are_not_scored(fitted):
    scene, truth, model = fitted
    ids = map_scene(model, scene).values.astype(np.uint8)
    other = with_classes(truth, [ClassInfo(k, f"other {k}", "#000000") for k in (1, 2, 3)])
    assert score_against(other, ids, model) is None


def test_a_truth_without_names_is_scored_by_id_and_says_so(fitted):
    scene, truth, model = fitted
    ids = map_scene(model, scene).values.astype(np.uint8)
    wanted = score_against(truth, ids, model)
    score = score_against(truth.drop_attrs(), ids, model)
    assert (score["overall"], score["pixels"]) == (wanted["overall"], wanted["pixels"])
    assert (score["matched_by"], score["classes"]) == ("id", "3 of 3 (by id)")
