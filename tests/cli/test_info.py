"""What `polyad info` shows of files that hold no single scene, and how it writes numbers."""

import subprocess
import sys

import numpy as np
import pytest
import rasterio
from affine import Affine
from scipy.io import savemat

from attacks.vectors import ENDINGS, box, point, polygon, write
from land import as_json, pixels, refused, run, truth
from polyad.scene.read.formats import kinds

LIBRARY = """ENVI
samples = 177
lines = 75
bands = 1
header offset = 0
file type = ENVI Spectral Library
data type = 4
interleave = bsq
byte order = 0
wavelength units = Micrometers
"""


EACH = """
import sys
from polyad.cli import main
for path in sys.argv[1:]:
    try:
        main(["info", path])
    except SystemExit as stop:
        assert not stop.code, path
    heavy = {"torch", "sklearn", "skimage", "matplotlib"} & set(sys.modules)
    assert not heavy, (path, heavy)
"""


def shown(capsys, *arguments):
    """Run `polyad info` and return its JSON."""
    return as_json(capsys, "info", *arguments)


def test_nothing_is_described_with_torch(place, tmp_path):
    np.save(tmp_path / "floats.npy", pixels().astype("f4"))  # in which NaN is looked for
    names = ("scene.tif", "bil.hdr", "truth.tif", "labels.csv", "labels.geojson", "m.polyad")
    files = [tmp_path / "floats.npy", *(place / name for name in names)]
    done = subprocess.run(
        [sys.executable, "-c", EACH, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def library(tmp_path):
    """A spectral library of 75 spectra with 177 bands."""
    centers = ", ".join(f"{nm / 1000:.4f}" for nm in np.linspace(400, 2400, 177))
    (tmp_path / "urban.hdr").write_text(LIBRARY + f"wavelength = {{{centers}}}\n")
    (tmp_path / "urban.sli").write_bytes(np.ones(75 * 177, "<f4").tobytes())
    return tmp_path


@pytest.mark.parametrize("name", ["urban.sli", "urban.hdr"])
def test_a_spectral_library_is_no_scene(library, capsys, name):
    facts = {"kind": "spectral library", "spectra": 75, "bands": 177}
    assert shown(capsys, library / name) == facts | {"wavelength_nm": [400.0, 2400.0]}


def test_a_layer_of_many_numeric_fields_is_read(tmp_path, capsys):
    pytest.importorskip("pyogrio")
    spectra = {f"b{k}": [float(k), 1.0] for k in range(90)}
    write(tmp_path / "s.gpkg", [point(0, 0), point(1, 1)], {"class": ["a", "b"], **spectra})
    assert shown(capsys, tmp_path / "s.gpkg")["features"] == 2


def test_nothing_is_trained_on_a_spectral_library(library, place, capsys):
    labels = place / "labels.csv"
    said = refused(capsys, "train", library / "urban.sli", labels, "--out", library / "m.polyad")
    assert "expected a scene, got a spectral library of 75 spectra with 177 bands" in said
    said = refused(capsys, "map", place / "m.polyad", library / "urban.sli")
    assert "got a spectral library" in said


@pytest.mark.parametrize("driver", ENDINGS)
def test_a_vector_file_shows_features_fields_and_classes(tmp_path, capsys, driver):
    pytest.importorskip("pyogrio")
    path = tmp_path / f"labels.{ENDINGS[driver]}"
    crs = "EPSG:4326" if driver == "LIBKML" else "EPSG:32633"
    shapes = [point(k, k) for k in range(4)]
    fields = {"land": ["tree", "water", "tree", None], "height": [1.5, 2.5, 3.5, 4.5]}
    write(path, shapes, fields, driver=driver, crs=crs, geometry_type="Point")
    facts = shown(capsys, path)
    assert facts["kind"] == f"vector ({kinds.vector_kind(path)})"
    assert (facts["features"], facts["geometry"]) == (4, {"point": 4})
    assert "land (text, 2 values)" in facts["fields"]
    assert (facts["crs"], facts["class_field"]) == (crs, "land")
    assert facts["classes"] == {"tree": 2, "water": 1}


def test_layers_of_a_geopackage_are_listed_and_one_is_described_by_name(tmp_path, capsys):
    pytest.importorskip("pyogrio")
    path = tmp_path / "several.gpkg"
    write(path, [point(1, 1)], {"land": ["tree"]}, layer="points")
    area = [polygon(box(0, 0, 1, 1)), polygon(box(2, 2, 3, 3))]
    write(path, area, {"land": ["tree", "soil"]}, layer="fields")
    facts = {"kind": "vector (GeoPackage)", "layers": {"points": 1, "fields": 2}}
    assert shown(capsys, path) == facts
    facts = shown(capsys, f"{path}:fields")
    assert (facts["features"], facts["geometry"]) == (2, {"polygon": 2})


def test_labels_in_geojson_and_csv_are_counted_by_class(place, tmp_path, capsys):
    facts = shown(capsys, place / "labels.geojson")
    assert (facts["kind"], facts["crs"]) == ("vector (GeoJSON)", "EPSG:4326")
    assert facts["geometry"] == {"point": 54, "polygon": 1}
    assert facts["classes"] == {"Corn": 27, "Water": 27, "Soil": 1}
    (tmp_path / "points.csv").write_text("lon,lat,class\n1,2,Corn\n3,4,Oats\n5,6,Corn\n")
    facts = shown(capsys, tmp_path / "points.csv")
    assert (facts["kind"], facts["coordinates"]) == ("points (CSV)", "EPSG:4326")
    assert facts["classes"] == {"Corn": 2, "Oats": 1}


def test_a_wide_table_lists_its_first_fields(tmp_path, capsys):
    names = [f"{nm}" for nm in range(400, 500)]
    (tmp_path / "spectra.csv").write_text(",".join(names) + "\n" + ",".join("1" * 100) + "\n")
    assert len(shown(capsys, tmp_path / "spectra.csv")["fields"]) == 100
    assert run("info", tmp_path / "spectra.csv") == 0
    told = capsys.readouterr().out
    assert "table (CSV) without coordinates" in told
    assert "422, 423, 76 more\n" in told


def test_bands_of_unknown_wavelength_do_not_hide_the_range(tmp_path, capsys):
    header = "ENVI\nsamples = 2\nlines = 2\nbands = 3\ndata type = 1\ninterleave = bsq\n"
    header += "wavelength units = Nanometers\nwavelength = {nan, 500, 900}\n"
    (tmp_path / "s.hdr").write_text(header)
    (tmp_path / "s.img").write_bytes(bytes(12))
    assert shown(capsys, tmp_path / "s.hdr")["wavelength_nm"] == [500.0, 900.0]


def test_a_matlab_file_shows_its_cube_and_its_labels(tmp_path, capsys):
    savemat(tmp_path / "both.mat", {"cube": pixels(), "gt": truth().astype("u1")})
    facts = shown(capsys, tmp_path / "both.mat")
    assert (facts["kind"], facts["bands"]) == ("scene", 8)
    assert facts["arrays"] == {"cube": "40 x 50 x 8", "gt": "40 x 50"}
    assert facts["labels"] == {"class 1": 800, "class 2": 600, "class 3": 600}


def test_a_matlab_file_of_several_cubes_does_not_hide_them_behind_its_labels(tmp_path, capsys):
    arrays = {"before": pixels(), "after": pixels(), "gt": truth().astype("u1")}
    savemat(tmp_path / "two.mat", arrays)
    facts = shown(capsys, tmp_path / "two.mat")
    assert facts["kind"] == "MATLAB file with 2 cubes"
    assert set(facts["arrays"]) == set(arrays)
    assert shown(capsys, f"{tmp_path / 'two.mat'}:after")["kind"] == "scene"


def test_numbers_have_the_digits_that_mean_something(tmp_path, capsys):
    nodata = float(np.float32(-3.4e38))  # -3.3999999521443642e+38
    grid = Affine(0.09999999999994838, 0, 500_000, 0, -0.1, 4_000_000)
    form = {"driver": "GTiff", "width": 5, "height": 4, "count": 3, "dtype": "float32"}
    with rasterio.open(
        tmp_path / "a.tif", "w", **form, nodata=nodata, crs="EPSG:32633", transform=grid
    ) as file:
        file.write(np.ones((3, 4, 5), "f4"))
    facts = shown(capsys, tmp_path / "a.tif")
    assert (facts["nodata"], facts["pixel_size"]) == (-3.4e38, [0.1, 0.1])
    assert run("info", tmp_path / "a.tif") == 0
    told = capsys.readouterr().out
    assert "nodata         -3.4e+38\n" in told
    assert "pixel size     0.1, 0.1\n" in told
