"""``polyad sample`` and ``polyad area``: the whole way from a map to a table, and every refusal."""

import csv
import json

import numpy as np
import pytest
import rasterio
from affine import Affine

from attacks.vectors import at, box, multi, point, polygon, write
from land import as_json as result
from land import refused, run
from polyad.scene.raster.classes import ClassInfo, ids_digest
from polyad.scene.raster.grid import grid_of
from polyad.scene.read.labels import open_labels
from polyad.scene.read.samples import open_points, open_sample
from polyad.scene.write.tables import write_points
from polyad.scene.write.writers import MapWriter

NAMES = ("Corn", "Oats", "Water")
PLACE = Affine(30, 0, 365_000, 0, -30, 5_809_000)
UTM = "EPSG:32633"


def truth():
    """Three upright fields; Corn is half of the land."""
    return np.repeat([1, 2, 3], [50, 30, 20])[None].repeat(80, axis=0).astype(np.uint8)


def mapped():
    """The truth with a tenth of the pixels confused, and a corner without a class."""
    rng = np.random.default_rng(2)
    wrong = rng.random(truth().shape) < 0.1
    ids = np.where(wrong, rng.integers(1, 4, truth().shape), truth()).astype(np.uint8)
    ids[:5, :5] = 0
    return ids


def write_map(path, ids, crs=UTM, place=PLACE, names=NAMES):
    classes = [ClassInfo(k, name, "") for k, name in enumerate(names, start=1)]
    with MapWriter(path, ids.shape, classes, crs=crs, transform=place) as out:
        out.write((slice(None), slice(None)), ids)
    return path


@pytest.fixture
def land(tmp_path, monkeypatch):
    """A folder with a map, and us in it."""
    monkeypatch.chdir(tmp_path)
    write_map(tmp_path / "map.tif", mapped())
    return tmp_path


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def checked(land, *options, size=200, name="checked.csv"):
    """Draw a sample and fill in the truth, as somebody in the field would."""
    assert run("sample", "map.tif", "--size", size, "--out", "drawn.csv", "--force", *options) == 0
    rows = rows_of(land / "drawn.csv")
    for row in rows:
        row["reference"] = NAMES[truth()[int(row["row"]), int(row["col"])] - 1]
    return write_rows(land / name, rows)


# -- the way ---------------------------------------------------------------------------------------


def test_a_table_of_areas_has_every_number_and_is_printed_as_a_paper_has_it(land, capsys):
    told = result(capsys, "area", "map.tif", checked(land))
    row = told["classes"][0]
    assert {"name", "area_ha", "se_ha", "ci95_ha", "users_accuracy", "producers_accuracy"} <= {*row}
    low, high = row["ci95_ha"]
    assert low < row["area_ha"] < high
    assert high - low == pytest.approx(2 * 1.959964 * row["se_ha"], rel=1e-6)
    assert told["overall_accuracy_ci95"][0] < told["overall_accuracy"]
    assert sum(r["area_ha"] for r in told["classes"]) == pytest.approx(told["total_ha"])
    assert told["total_ha"] == pytest.approx((8000 - 25) * 0.09)
    told = result(capsys, "area", "map.tif", checked(land, size=600))
    wanted = np.bincount(truth()[mapped() > 0], minlength=4)[1:] * 0.09
    for row, area in zip(told["classes"], wanted, strict=True):
        assert abs(row["area_ha"] - area) < 3 * row["se_ha"]
    assert run("area", "map.tif", checked(land)) == 0
    out = capsys.readouterr().out
    assert "class    mapped ha  area ha  ± SE   95 % interval  user's %" in out
    assert "Error matrix in shares of the area (rows: map, columns: reference)" in out
    assert "Estimator: stratified, the strata are the map's classes (Olofsson et al. 2014)." in out


def test_a_map_of_olofssons_size_gives_olofssons_table(land, capsys):
    """The example of 2014 as files: ten million pixels of 30 m, 640 points, one command."""
    matrix = [[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]]
    sizes = [200_000, 150_000, 3_200_000, 6_450_000]
    ids = np.repeat(np.arange(1, 5, dtype=np.uint8), sizes).reshape(2500, 4000)
    names = ("Deforestation", "Forest gain", "Stable forest", "Stable non-forest")
    write_map(land / "change.tif", ids, names=names)
    starts, lines = np.cumsum([0, *sizes]), ["row,col,reference"]
    for k, counts in enumerate(matrix):
        seen = np.repeat(names, counts)
        lines += [
            f"{(starts[k] + n) // 4000},{(starts[k] + n) % 4000},{s}" for n, s in enumerate(seen)
        ]
    (land / "points.csv").write_text("\n".join(lines))
    told = result(capsys, "area", "change.tif", "points.csv")
    areas = [row["area_ha"] for row in told["classes"]]
    assert np.round(areas).tolist() == [21_158, 11_686, 285_770, 581_386]
    assert round(told["classes"][0]["area_pixels"]) == 235_086
    halves = [(row["ci95_ha"][1] - row["ci95_ha"][0]) / 2 for row in told["classes"]]
    assert halves == pytest.approx([6_158, 3_756, 15_510, 16_281], rel=2e-4)
    assert told["overall_accuracy"] == pytest.approx(0.947, abs=5e-4)


@pytest.mark.parametrize("ending", ["csv", "geojson", "gpkg"])
def test_a_sample_of_every_kind_is_read_where_it_was_drawn(land, capsys, ending):
    out = f"points.{ending}"
    told = result(capsys, "sample", "map.tif", "--size", 60, "--out", out)
    assert told["size"] == 60
    wanted = result(capsys, "sample", "map.tif", "--size", 60, "--out", "same.csv")
    assert wanted["strata"] == told["strata"]
    class_map = open_labels("map.tif")
    here = open_points(out, class_map, field="map_name")
    there = open_points("same.csv", class_map, field="map_name")
    assert here.pixels.tolist() == there.pixels.tolist()
    assert here.reference.tolist() == there.reference.tolist()
    assert "60 of 60 points have no 'reference' yet" in refused(capsys, "area", "map.tif", out)


def test_a_geopackage_filled_in_gives_the_same_table_as_a_csv(land, capsys):
    rows = rows_of(checked(land))
    shapes = [point(*at(int(r["col"]) + 0.5, int(r["row"]) + 0.5, PLACE)) for r in rows]
    seen = [r["reference"] for r in rows]
    write(land / "points.gpkg", shapes, {"seen": seen}, crs=UTM)
    write(land / "multi.gpkg", [multi(4, shape) for shape in shapes], {"seen": seen}, crs=UTM)
    wanted = result(capsys, "area", "map.tif", "checked.csv")
    for name in ("points.gpkg", "multi.gpkg"):
        assert result(capsys, "area", "map.tif", name, "--field", "seen") == wanted


def test_a_blind_sample_tells_the_centers_of_its_pixels_and_nothing_of_the_map(land):
    assert run("sample", "map.tif", "--size", 50, "--blind", "--out", "blind.csv") == 0
    names = ["id", "x", "y", "row", "col", "drawn_from", "reference"]
    assert list(rows_of(land / "blind.csv")[0]) == names
    for row in rows_of(land / "blind.csv"):
        x, y = at(int(row["col"]) + 0.5, int(row["row"]) + 0.5, PLACE)
        assert (float(row["x"]), float(row["y"])) == (x, y)


@pytest.mark.parametrize("zones", ["zones.tif", "zones.gpkg"])
def test_other_strata_of_a_raster_or_polygons_give_stehmans_estimates(land, capsys, zones):
    ids = np.repeat([[1], [2]], 40, axis=0).repeat(100, axis=1).astype(np.uint8)
    write_map(land / "zones.tif", ids, names=("north", "south"))
    shapes = [polygon(box(0, 0, 100, 40, PLACE)), polygon(box(0, 40, 100, 80, PLACE))]
    write(land / "zones.gpkg", shapes, {"zone": ["north", "south"]}, crs=UTM)
    path = checked(land, "--strata", zones, "--allocation", "equal")
    told = result(capsys, "area", "map.tif", path, "--strata", zones)
    assert "Stehman 2014" in told["estimator"]
    strata = [(row["name"], row["points"]) for row in told["strata"]]
    assert strata == [("north", 100), ("south", 100)]


def test_a_sample_of_other_strata_is_not_taken_for_one_of_the_map(land, capsys):
    zones = np.repeat([[7], [9]], 40, axis=0).repeat(100, axis=1).astype(np.uint8)
    with rasterio.open(
        land / "zones.tif", "w", driver="GTiff", width=100, height=80, count=1, dtype="uint8",
        crs=UTM, transform=PLACE,
    ) as out:  # fmt: skip
        out.write(zones, 1)
    path = checked(land, "--strata", "zones.tif")
    said = refused(capsys, "area", "map.tif", path)
    assert "checked.csv: the sample was drawn from zones.tif (" in said
    assert "--strata" in said
    rows = [{k: v for k, v in row.items() if k != "drawn_from"} for row in rows_of(path)]
    said = refused(capsys, "area", "map.tif", write_rows(land / "older.csv", rows))
    assert "was drawn from stratum" in said
    assert "--strata" in said


@pytest.mark.parametrize("ending", ["csv", "geojson"])
def test_a_blind_sample_of_another_map_is_refused(land, capsys, ending):
    drawn = f"sample.{ending}"
    assert run("sample", "map.tif", "--size", 60, "--blind", "--out", drawn) == 0
    found = open_sample(drawn, grid_of(open_labels("map.tif")))
    (origin,) = set(found.fields["drawn_from"])
    rows, cols = found.pixels.T
    fields = found.fields | {"reference": truth()[rows, cols].tolist()}
    write_points(f"checked.{ending}", grid_of(open_labels("map.tif")), found.pixels, fields)
    assert result(capsys, "area", "map.tif", f"checked.{ending}")["n_points"] == 60
    before = open_labels("map.tif")
    write_map(land / "earlier.tif", before.values)
    other = np.where(mapped() > 0, mapped() % 3 + 1, 0).astype(np.uint8)
    write_map(land / "map.tif", other)  # as another model maps it
    said = refused(capsys, "area", "map.tif", f"checked.{ending}")
    now = ids_digest(open_labels("map.tif"))
    assert f"was drawn from map.tif ({origin[-12:]}), got another map or strata ({now})" in said
    told = result(capsys, "area", "map.tif", f"checked.{ending}", "--strata", "earlier.tif")
    assert "the strata are not the map's classes" in told["estimator"]
    write_map(land / "map.tif", before.values, names=("a", "b", "c"))  # the same map, renamed
    assert result(capsys, "area", "map.tif", f"checked.{ending}")["n_points"] == 60


def test_a_random_sample_that_missed_a_class_is_stratified_by_fewer_strata(land, capsys):
    pixels = np.argwhere((mapped() == 1) | (mapped() == 2))
    chosen = np.random.default_rng(0).choice(pixels, 60, replace=False).tolist()
    rows = [{"row": r, "col": c, "reference": truth()[r, c]} for r, c in chosen]
    path = write_rows(land / "random.csv", rows)
    said = refused(capsys, "area", "map.tif", path, "--design", "random")
    assert "name fewer and larger strata with --strata" in said
    write_map(land / "whole.tif", np.ones((80, 100), np.uint8), names=("all",))
    told = result(
        capsys, "area", "map.tif", path, "--design", "random", "--strata", "whole.tif"
    )  # fmt: skip
    assert "post-stratified by the strata given" in told["estimator"]
    assert "No point is mapped as 3 Water: no user's accuracy." in told["notes"]


def test_without_a_reference_system_areas_are_pixels_and_it_is_said(land, capsys):
    np.save(land / "map.npy", mapped())
    path = checked(land)
    rows = [{k: row[k] for k in ("row", "col")} for row in rows_of(path)]
    for row in rows:
        row["reference"] = truth()[int(row["row"]), int(row["col"])]
    write_rows(land / "bare.csv", rows)
    told = result(capsys, "area", "map.npy", "bare.csv")
    assert told["classes"][0]["area_ha"] is None
    assert told["classes"][0]["area_pixels"] > 0
    assert "areas are in pixels" in " ".join(told["notes"])


def test_table_and_report_are_written(land, capsys):
    path = checked(land)
    assert run("area", "map.tif", path, "--out", "t.csv", "--report", "r.html") == 0
    capsys.readouterr()
    rows = rows_of(land / "t.csv")
    assert [row["class"] for row in rows] == [*NAMES, "total"]
    told = result(capsys, "area", "map.tif", path, "--out", "t.json")
    assert json.loads((land / "t.json").read_text()) == told
    assert float(rows[0]["area_ha"]) == told["classes"][0]["area_ha"]
    assert float(rows[-1]["overall_accuracy"]) == told["overall_accuracy"]
    assert run("area", "map.tif", path, "--out", "t.csv", "--report", "r.html") == 0  # ours


# -- strata that are sampled whole -----------------------------------------------------------------


def test_a_class_of_one_pixel_is_sampled_whole_and_has_no_error_of_its_own(land, capsys):
    ids = mapped()
    ids[40, 40] = 4
    write_map(land / "map.tif", ids, names=(*NAMES, "Pond"))
    assert run("sample", "map.tif", "--size", 60, "--minimum", 10, "--out", "s.csv") == 0
    assert "Sampled whole, so without sampling error: 4 Pond." in capsys.readouterr().out
    filled = [r | {"reference": r["map_name"]} for r in rows_of(land / "s.csv")]
    assert len(filled) == 60
    told = result(capsys, "area", "map.tif", write_rows(land / "c.csv", filled))
    pond = told["classes"][3]
    assert (round(pond["area_pixels"], 9), pond["se_pixels"]) == (1, 0)
    told = result(capsys, "sample", "map.tif", "--margin", 0.1, "--out", "m.csv")
    assert [s["points"] for s in told["strata"] if s["name"] == "Pond"] == [1]
    assert told["margin"] <= 0.1
    said = refused(capsys, "sample", "map.tif", "--size", 6, "--out", "t.csv")
    assert "6 points are too few for 4 strata" in said
    assert "expected 7 or more" in said
    assert not (land / "t.csv").exists()


# -- points whose class could not be told ----------------------------------------------------------


def test_points_without_a_reference_are_counted_and_left_out_where_asked(land, capsys):
    rows = rows_of(checked(land))
    for k in (3, 9):
        rows[k]["reference"] = ""
    path = write_rows(land / "open.csv", rows)
    said = refused(capsys, "area", "map.tif", path)
    assert "2 of 200 points have no 'reference' yet" in said
    assert "polyad label --check, or leave them out with --skip-empty" in said
    told = result(capsys, "area", "map.tif", path, "--skip-empty")
    assert (told["n_points"], told["n_left_out"]) == (198, 2)
    assert "Left out: 2 of 200 points" in " ".join(told["notes"])
    kept = write_rows(land / "kept.csv", [r for r in rows if r["reference"]])
    alone = result(capsys, "area", "map.tif", kept)
    assert alone["classes"] == told["classes"]


# -- what is refused, with nothing written ---------------------------------------------------------

DEVIATIONS = ("--deviation=Corn=1e308", "--deviation=Oats=1", "--deviation=Water=1")
SAMPLES = [
    (("--size", 5), "5 points are too few for 3 strata of at least 2 each"),
    (("--size", 6000, "--allocation", "equal"), "pixels, and 2,000 points would be drawn from it"),
    (("--size", 60, "--allocation", "best"), "unknown allocation 'best'"),
    ((), "expected a size or a margin of error"),
    (("--margin", 0), "margin of error must lie between 0 and 1"),
    (("--size", 60, "--strata", "none.tif"), "none.tif: no such file"),
    (("--size", 60, "--accuracy", "Maize=0.9"), "no stratum is called 'Maize'"),
    (("--size", 60, "--deviation", "Corn=0.3"), "from 1e-30 to 1e+30 for each stratum, got nan"),
    (
        ("--size", 60, "--allocation", "optimal", *DEVIATIONS),
        "expected a standard deviation from 1e-30 to 1e+30 for each stratum, got 1e+308",
    ),
    (("--size", 60, "--deviation", "inf"), "for each stratum, got inf"),
    (("--size", 60, "--minimum", 10**20), "minimum must be at most 7,975"),
    (("--margin", 0.05, "--minimum", 10**20), "minimum must be at most 7,975"),
    (("--size", 10**23), "size must be at most 7,975, as many as the map has pixels"),
    (("--size", 60, "--out", "points.shp"), "expected a name ending in .gpkg, .geojson, .csv"),
    (("--size", 60, "--out", "map.tif"), "expected a name ending in"),
]


@pytest.mark.parametrize(("options", "words"), SAMPLES, ids=[words[:40] for _, words in SAMPLES])
def test_a_sample_that_cannot_be_drawn_is_refused_in_one_sentence(land, capsys, options, words):
    before = sorted(p.name for p in land.iterdir())
    assert words in refused(capsys, "sample", "map.tif", *options)
    assert sorted(p.name for p in land.iterdir()) == before


def test_a_sample_that_was_filled_in_is_not_written_over(land, capsys):
    path = checked(land)
    before = path.read_bytes()
    said = refused(capsys, "sample", "map.tif", "--size", 60, "--out", path)
    assert "what was filled in would be lost" in said
    assert path.read_bytes() == before
    assert run("sample", "map.tif", "--size", 60, "--out", path, "--force") == 0


def test_a_sample_of_a_map_without_a_place_is_rows_and_columns(land, capsys):
    np.save(land / "bare.npy", mapped())
    for out in ("s.gpkg", "s.geojson"):
        said = refused(capsys, "sample", "bare.npy", "--size", 60, "--out", out)
        assert "no georeference" in said
        assert "as in --out s.csv" in said
        assert not (land / out).exists()
    assert run("sample", "bare.npy", "--size", 60, "--out", "s.csv") == 0


def changed(k, **values):
    return lambda rows: [*rows[:k], rows[k] | values, *rows[k + 1 :]]


POINTS = [
    (
        lambda rows: [r for r in rows if r["map_name"] != "Water"],
        "class 3 Water of 1,",
        "has 0 points in the sample, expected at least 2",
    ),
    (lambda rows: [*rows, rows[3]], "line 5 and line 202 lie in one pixel", "each pixel once"),
    (changed(7, row="900"), "1 of 200 points lie off the map, the first in line 9", "remove them"),
    (changed(7, row="1", col="2"), "1 of 200 points lie where the map has no class", "line 9"),
    (changed(7, reference=""), "1 of 200 points have no 'reference' yet", "the first in line 9"),
    (changed(7, reference="Maize"), "line 9: reference 'Maize' is no class of the map", "1 Corn"),
    (changed(0, row="north"), "line 2: expected whole numbers for row and col", "north"),
]


@pytest.mark.parametrize("change", POINTS, ids=[words[:40] for _, words, _ in POINTS])
def test_points_that_cannot_be_used_are_refused_in_one_sentence(land, capsys, change):
    edit, *words = change
    path = write_rows(land / "edited.csv", edit(rows_of(checked(land))))
    said = refused(capsys, "area", "map.tif", path, "--out", "t.csv", "--report", "r.html")
    for each in words:
        assert each in said
    assert not (land / "t.csv").exists()
    assert not (land / "r.html").exists()


def test_polygons_other_fields_and_rasters_are_no_points_of_a_sample(land, capsys):
    shapes = [polygon(box(0, 0, 10, 10, PLACE))]
    write(land / "p.gpkg", shapes, {"reference": ["Corn"]}, crs=UTM)
    said = refused(capsys, "area", "map.tif", "p.gpkg")
    assert "feature 1: expected a point, got polygon" in said
    write(land / "q.gpkg", [point(*at(9, 9, PLACE))], {"kind": ["Corn"]}, crs=UTM)
    said = refused(capsys, "area", "map.tif", "q.gpkg")
    assert "there is no field 'reference'; it has kind (1 value)" in said
    assert "expected points as CSV" in refused(capsys, "area", "map.tif", "map.tif")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--design", "systematic"), "unknown design 'systematic'; expected one of stratified"),
        (("--out", "t.xlsx"), "expected a name ending in .csv, .json"),
        (("--report", "a.pdf"), "expected a name ending in .html, .htm, got '.pdf'"),
        (("--report", "a"), "expected a name ending in .html, .htm, got 'no ending'"),
        (("--out", "checked.csv"), "it is the input checked.csv, which would be lost"),
        (("--strata", "small.tif"), "labels must cover the scene's 80 rows and 100 columns"),
    ],
)
def test_options_that_cannot_be_are_refused(land, capsys, options, words):
    write_map(land / "small.tif", mapped()[:40])
    checked(land)
    before = sorted(p.name for p in land.iterdir())
    assert words in refused(capsys, "area", "map.tif", "checked.csv", *options)
    assert sorted(p.name for p in land.iterdir()) == before
