import numpy as np
import pytest

from polyad.app.maps import (
    Drawing,
    MapVersion,
    advise,
    margin_uncertainty,
    score_against,
    shares,
    suggest,
)
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import map_scene
from polyad.scene.map.tile_mapper import Mapper
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.windows import Tile, extract_patches, plan_tiles
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


def draw(model, scene, tiles):
    """Draw tiles one by one, as the page does."""
    drawing = Drawing(MapVersion.empty(scene.shape[:2]), tiles)
    mapper = Mapper(model, scene, numbers=True)

    def spectra(pixels, window):
        return extract_patches(scene, *pixels.T, window).mean(axis=(1, 2))

    tile_drawer = drawing.drawer(model, lambda tile: mapper(tile)[1], spectra, lambda: None)
    for tile in tiles:
        tile_drawer(tile)
    return drawing


def test_a_map_by_tiles_is_the_map_of_the_whole(fitted):
    scene, _, model = fitted
    whole, proba = map_scene(model, scene, probabilities=True)
    tiles = plan_tiles(scene.shape[:2], (13, 17))
    drawing = draw(model, scene, tiles)
    np.testing.assert_array_equal(drawing.ids, whole.values)
    assert np.abs(drawing.uncertainty - (1 + 254 * margin_uncertainty(proba.values))).max() <= 1
    for tile, candidates in zip(tiles, drawing.candidates, strict=True):
        assert len(candidates.pixels) <= drawing.most
        assert (candidates.pixels >= [tile.rows.start, tile.cols.start]).all()
        assert (candidates.pixels < [tile.rows.stop, tile.cols.stop]).all()


def test_a_scene_without_data_maps_to_nothing(fitted):
    _, _, model = fitted
    empty = scene_from_array(np.full((8, 9, 8), np.nan, np.float32))
    drawing = draw(model, empty, [Tile(slice(0, 8), slice(0, 9))])
    assert not drawing.ids.any()
    assert not drawing.uncertainty.any()
    assert advise(drawing.candidates, np.ones((2, 8))) == []


def test_shares_add_up_to_one_over_the_mapped_pixels():
    classes = (ClassInfo(1, "a", "#000000"), ClassInfo(2, "b", "#000000"))
    assert shares(np.array([[0, 1], [2, 2]], np.uint8), classes) == {"1": 1 / 3, "2": 2 / 3}


def test_scores_go_by_the_names_of_classes_or_by_id_and_leave_labels_out(fitted):
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
    nameless = score_against(truth.drop_attrs(), ids, model)
    assert (nameless["overall"], nameless["pixels"]) == (score["overall"], score["pixels"])
    assert (nameless["matched_by"], nameless["classes"]) == ("id", "3 of 3 (by id)")
    other = with_classes(truth, [ClassInfo(k, f"other {k}", "#000000") for k in (1, 2, 3)])
    assert score_against(other, ids, model) is None


# -- where to click next ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spectra", "uncertainty", "first"),
    [
        ([[5], [6], [7]], [0.1, 0.9, 0.5], [1]),  # equally new: the most uncertain
        ([[0, 0], [4, 4], [4.1, 3.9]], [0.9, 0.8, 0.7], [1]),  # one like a labeled one comes later
        ([[4], [4], [-4]], [0.9, 0.9, 0.6], [0, 2]),  # and one like an advised one
    ],
)
def test_advice_is_for_uncertain_pixels_unlike_those_before(spectra, uncertainty, first):
    labeled = np.zeros((1, len(spectra[0])))
    order = suggest(np.array(spectra, float), np.array(uncertainty), labeled, len(first))
    assert sorted(order.tolist()) == first


@pytest.mark.parametrize(("candidates", "labels"), [(0, 3), (4, 0), (1, 1)])
def test_advice_is_given_from_little_or_nothing(candidates, labels):
    rng = np.random.default_rng(0)
    order = suggest(rng.normal(size=(candidates, 5)), np.ones(candidates), np.ones((labels, 5)), 9)
    assert sorted(order.tolist()) == list(range(candidates))
