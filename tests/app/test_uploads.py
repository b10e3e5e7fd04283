"""Uploaded label files: read within limits by a process of their own, while labeling goes on."""

import io
import json
import struct
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from polyad import sandbox
from polyad.app import uploads
from polyad.errors import InputError, SceneError
from polyad.scene.read.labels import open_labels
from tests.waiting import PATIENCE, wait_until

SPOT = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [9.0006, 46.9503]},
        "properties": {"class": 2, "name": "Corn"}}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "content"),
    [("csv", b"row,col,class,name\n1,2,3,Woods\n4,5,1,\n"),
     ("geojson", json.dumps({"type": "FeatureCollection", "features": [SPOT]}).encode())],
)  # fmt: skip
def test_an_upload_is_what_opening_the_file_gives(scene, tmp_path, kind, content):
    (tmp_path / f"upload.{kind}").write_bytes(content)
    wanted = open_labels(tmp_path / f"upload.{kind}", scene)
    labels = uploads.read_upload(content, kind, scene)
    np.testing.assert_array_equal(labels.values, wanted.values)
    assert all(labels.attrs[k] == wanted.attrs[k] for k in labels.attrs)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Return the folder of one layer of points in each format of GIS programs."""
    pyogrio = pytest.importorskip("pyogrio")
    folder = tmp_path_factory.mktemp("vectors")
    points = struct.Struct("<BIdd")
    places = [(500045.0, 5199945.0), (500615.0, 5199645.0), (500645.0, 5199645.0)]
    shapes = np.array([points.pack(1, 1, x, y) for x, y in places], object)
    kinds = np.array(["Water", "Corn", "Corn"], object)
    for ending in ("gpkg", "shp", "fgb"):
        pyogrio.raw.write(
            folder / f"upload.{ending}", shapes, [kinds], ["kind"],
            geometry_type="Point", crs="EPSG:32632",
        )  # fmt: skip
    return folder


def parts(folder):
    """Return what the page sends of a Shapefile: its files, and what follows the first."""
    beside = [path for path in sorted(folder.glob("upload.*")) if path.suffix[1:] in uploads.BESIDE]
    content = b"".join(path.read_bytes() for path in (folder / "upload.shp", *beside))
    return content, ",".join(f"{p.suffix[1:]}:{p.stat().st_size}" for p in beside)


def zipped(folder, place="fields/", **others):
    """Return a zip of a Shapefile as a file manager makes it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for ending in ("shp", "shx", "dbf", "prj"):
            archive.write(folder / f"upload.{ending}", f"{place}Plots.{ending}")
        archive.writestr("__MACOSX/fields/._Plots.shp", b"x")
        for name, content in others.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["gpkg", "fgb", "shp", "zip"])
def test_an_upload_of_a_gis_format_is_what_labels_reads(scene, vectors, kind):
    if kind == "shp":
        content, beside = parts(vectors)
    else:
        content = zipped(vectors) if kind == "zip" else (vectors / f"upload.{kind}").read_bytes()
        beside = ""
    wanted = open_labels(vectors / f"upload.{'shp' if kind == 'zip' else kind}", scene)
    labels = uploads.read_upload(content, kind, scene, beside)
    np.testing.assert_array_equal(labels.values, wanted.values)
    assert labels.attrs["class_names"] == wanted.attrs["class_names"] == ["Corn", "Water"]
    assert (labels.values > 0).sum() == 3


def test_a_shapefile_without_its_other_files_says_which_are_missing(scene, vectors):
    content = (vectors / "upload.shp").read_bytes()
    with pytest.raises(InputError, match=r"\.shx and \.dbf missing; choose all of them together"):
        uploads.read_upload(content, "shp", scene)


@pytest.mark.parametrize("beside", ["dbf:-1", "dbf:99999", "dbf", "exe:1", "../x:1", "dbf:1:2"])
def test_parts_that_make_no_sense_are_refused(scene, beside):
    with pytest.raises(InputError, match="expected"):
        uploads.read_upload(b"0123456789", "shp", scene, beside)


def test_a_zip_of_several_shapefiles_of_none_or_of_too_much_is_refused(tmp_path, vectors):
    (tmp_path / "upload.zip").write_bytes(zipped(vectors, **{"fields/._upload.shp": b"macOS"}))
    assert uploads.unpacked(tmp_path / "upload.zip").read_bytes()
    for path in tmp_path.glob("upload.*"):
        path.unlink()
    (tmp_path / "upload.zip").write_bytes(zipped(vectors, **{"b.shp": b"x"}))
    with pytest.raises(SceneError, match="expected a zip of one Shapefile, got 2"):
        uploads.unpacked(tmp_path / "upload.zip")
    with zipfile.ZipFile(tmp_path / "upload.zip", "w") as archive:
        archive.writestr("../../a.txt", b"x")
    with pytest.raises(SceneError, match="expected a zip of one Shapefile, got 0"):
        uploads.unpacked(tmp_path / "upload.zip")
    with zipfile.ZipFile(tmp_path / "upload.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../a.shp", b"x")
        archive.writestr("../../a.dbf", bytes(65 * 2**20))  # 65 KB packed
    with pytest.raises(SceneError, match=r"expected at most 64\.0 MiB when unpacked"):
        uploads.unpacked(tmp_path / "upload.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["upload.zip"]


def test_a_tiff_of_another_place_is_refused_as_for_a_file(scene, kit, tmp_path):
    other = kit.make_scene()[0]
    other = other.assign_coords(x=other.x + 15.0)
    other = other.rio.write_transform(other.rio.transform(recalc=True))
    from polyad.app.labels import Session, labels_tif
    from polyad.scene.files.paths import is_ours

    session = Session(other, journal=tmp_path / "j")
    session.do({"do": "add", "name": "Water"})
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})
    content = labels_tif(session.snapshot(), other)
    session.close()
    (tmp_path / "labels.tif").write_bytes(content)
    assert not is_ours(tmp_path / "labels.tif", "map")
    with pytest.raises(InputError, match="labels must lie on the scene's grid"):
        uploads.read_upload(content, "tif", scene)


def covering(n):
    """Return a GeoJSON of n polygons over the whole scene: work without end for a few bytes."""
    ring = [[8.9, 46.9], [9.1, 46.9], [9.1, 47.0], [8.9, 47.0], [8.9, 46.9]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "geometry": shape, "properties": {"class": 1}}
    return json.dumps({"type": "FeatureCollection", "features": [feature] * n}).encode()


def test_labeling_goes_on_while_a_file_is_read(page, client, monkeypatch, tmp_path):
    go = tmp_path / "go"

    def wait(*_, **__):
        wait_until(go.exists)
        raise SceneError("the file could not be read")

    monkeypatch.setattr(sandbox, "run", wait)
    where = f"{page.url}api/labels/geojson"
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(httpx.post, where, content=covering(1), timeout=PATIENCE)
        wait_until(lambda: uploads._slots._value < uploads.MAX_PROCESSES)
        for k in range(10):
            command = {"do": "label", "class": k % 3 + 1, "pixels": [[0, 0]]}
            assert client.post("api/do", json=command).status_code == 200
        assert not upload.done()
        go.touch()
        assert upload.result().status_code == 422
    assert "could not be read" in upload.result().json()["error"]


def test_a_file_that_takes_too_long_is_refused(scene, monkeypatch):
    monkeypatch.setattr(uploads, "SECONDS", 1)
    with pytest.raises(InputError, match=r"the file: reading it took more than 1 s"):
        uploads.read_upload(covering(40_000), "geojson", scene)


def test_no_more_than_two_files_are_read_at_once(scene, monkeypatch):
    monkeypatch.setattr(uploads, "_slots", threading.BoundedSemaphore(1))
    assert uploads._slots.acquire()
    with pytest.raises(InputError, match="other label files are being read"):
        uploads.read_upload(b"row,col,class\n0,0,1\n", "csv", scene)


@pytest.mark.parametrize("kind", ["csv", "tif", "mat", "zip"])
def test_no_upload_is_parsed_outside_of_the_confined_process(scene, monkeypatch, kind):
    def parse(*_, **__):
        raise AssertionError("parsed here")

    for name in ("read_file", "read_drawn", "read_label_raster", "unpacked"):
        monkeypatch.setattr(uploads, name, parse)
    asked = []
    monkeypatch.setattr(sandbox, "run", lambda *given, **_: asked.append(given) or (None, ()))
    monkeypatch.setattr(uploads, "with_classes", lambda *_: "labels")
    monkeypatch.setattr(uploads.xr, "DataArray", lambda *_, **__: None)
    assert uploads.read_upload(b"anything", kind, scene) == "labels"
    assert [given[0] for given in asked] == ["polyad.app.uploads:read_file"]
