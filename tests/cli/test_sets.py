"""`polyad map` and `evaluate` with --coverage: sets of classes with a promise."""

import numpy as np
import pytest
import rasterio

from land import HEIGHT, WIDTH, as_json, run, truth


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_map_writes_size_and_members_of_the_sets_beside_it(place, tmp_path, capsys):
    out, proba = tmp_path / "map.tif", tmp_path / "p.tif"
    given = (place / "m.polyad", place / "scene.tif", "--out", out, "--coverage", 0.9)
    assert run("map", *given, "--tile", 17, "--probabilities", proba) == 0
    told = capsys.readouterr().out
    assert f"sets: {tmp_path / 'map_set_size.tif'}, {tmp_path / 'map_sets.tif'}" in told
    with (
        rasterio.open(out) as mapped,
        rasterio.open(tmp_path / "map_set_size.tif") as size,
        rasterio.open(tmp_path / "map_sets.tif") as members,
        rasterio.open(proba) as shares,
    ):
        assert size.crs == members.crs == mapped.crs
        assert size.transform == members.transform == mapped.transform
        assert (size.dtypes, size.nodata, size.shape) == (("uint8",), 0, (HEIGHT, WIDTH))
        assert (set(members.dtypes), members.nodata) == ({"uint8"}, 255)
        assert members.descriptions == ("Corn", "Soil", "Water")
        assert size.tags()["coverage"] == members.tags()["coverage"] == "0.9"
        sets, likeliest = members.read(), shares.read().argmax(axis=0)
        np.testing.assert_array_equal(size.read(1), sets.sum(axis=0))
        np.testing.assert_array_equal(mapped.read(1), likeliest + 1)
    assert set(np.unique(sets)) <= {0, 1}
    assert np.take_along_axis(sets, likeliest[None], axis=0).all()  # no set is empty
    own = np.take_along_axis(sets, truth()[None] - 1, axis=0)
    assert own.mean() > 0.85
    # The next map of the same name replaces them
    told = as_json(capsys, "map", *given)
    assert told["sets"] == [str(tmp_path / "map_set_size.tif"), str(tmp_path / "map_sets.tif")]


def test_pixels_without_data_have_no_set(place, tmp_path):
    box = ("--bbox", 500_000, 3_999_600, 500_250, 4_000_000)
    given = ("--out", tmp_path / "map.tif", "--coverage", 0.8, *box)
    assert run("map", place / "m.polyad", place / "scene.tif", *given) == 0
    with (
        rasterio.open(tmp_path / "map_set_size.tif") as size,
        rasterio.open(tmp_path / "map_sets.tif") as members,
    ):
        sizes, sets = size.read(1), members.read()
    assert (sizes[:, :25] > 0).all()
    assert (sizes[:, 25:] == 0).all()
    assert (sets[:, :, 25:] == 255).all()


def test_evaluate_tells_measured_coverage_beside_the_promised_one(place, tmp_path, capsys):
    given = (place / "m.polyad", place / "scene.tif", place / "truth.tif", "--coverage", 0.9)
    told = as_json(capsys, "evaluate", *given, "--out", tmp_path / "s.csv")
    assert told["promised_coverage"] == 0.9
    assert told["measured_coverage"] > 0.85
    assert 1 <= told["mean_set_size"] <= 3
    total = sum(row["coverage"] * row["support"] for row in told["sets"])
    assert total / told["n_test"] == pytest.approx(told["measured_coverage"])
    table = (tmp_path / "s.csv").read_text()
    assert "measured_coverage,," in table
    assert "coverage,Corn," in table
    assert run("evaluate", *given, "--report", tmp_path / "page.html") == 0
    said = capsys.readouterr().out
    assert "hold the true class, promised 90 %" in said
    assert "coverage  set size  pixels" in said
    text = " ".join((tmp_path / "page.html").read_text().split())
    assert "% of the sets of test pixels hold the true class, 90 % promised" in text
    table = text.partition("<h2>Prediction sets</h2>")[2].partition("</table>")[0]
    assert "mean set size" in table
    assert all(name in table for name in ("Corn", "Soil", "Water"))


@pytest.mark.parametrize(
    ("level", "said"),
    [(0, "between 0 and 1"), (90, "between 0 and 1"), (0.9999, "want 9999 labels held out")],
)
def test_a_level_out_of_reach_is_refused_in_a_sentence(place, tmp_path, capsys, level, said):
    out = ("--out", tmp_path / "map.tif", "--coverage", level)
    assert run("map", place / "m.polyad", place / "scene.tif", *out) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert "\n" not in told
    assert not files(tmp_path)


def test_a_model_without_scores_is_refused_in_a_sentence(place, tmp_path, capsys):
    model = tmp_path / "paper.polyad"
    quick = ("--preset", "paper", "--epochs", 2, "--hidden", 5, "--window", 3)
    run("train", place / "scene.tif", place / "labels.csv", "--out", model, *quick)
    capsys.readouterr()
    for where in (("--out", tmp_path / "map.tif"), ("--out-dir", tmp_path / "maps")):
        assert run("map", model, place / "scene.tif", *where, "--coverage", 0.9) == 2
        told = capsys.readouterr().err.strip()
        assert "train it with preset fast or best" in told
        assert "\n" not in told
    assert files(tmp_path) == ["paper.polyad"]


def test_a_file_of_someone_else_is_kept_and_every_file_has_its_name(place, tmp_path, capsys):
    given = (place / "m.polyad", place / "scene.tif", "--out", tmp_path / "map.tif")
    given += ("--coverage", 0.9)
    assert run("map", *given, "--probabilities", tmp_path / "map_sets.tif") == 2
    assert "one would replace the other" in capsys.readouterr().err
    assert not files(tmp_path)
    (tmp_path / "map_sets.tif").write_text("my notes")
    assert run("map", *given) == 2
    assert "is no file of sets of polyad" in capsys.readouterr().err
    assert files(tmp_path) == ["map_sets.tif"]
    assert (tmp_path / "map_sets.tif").read_text() == "my notes"
