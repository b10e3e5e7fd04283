"""No output is written over a file that belongs to an input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyad.errors import OutputError
from polyad.scene.files.paths import check_apart, check_kind


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"ENVI" if name.endswith(".hdr") else b"mine")


@pytest.mark.parametrize(
    ("source", "beside", "out"),
    [
        ("e.dat", "e.hdr", "e.hdr"),
        ("e.dat", "e.hdr", "e.img"),
        ("f", "f.hdr", "f.hdr"),
        ("g.dat", "g.dat.hdr", "g.dat.hdr"),
        ("q.hdr", "q.dat", "q.dat"),
        ("q.hdr", "q", "q"),
        ("q.hdr", "q.BSQ", "q.BSQ"),
        ("q.bil.hdr", "q.bil", "q.bil"),
        ("s.tif", "s.tif.aux.xml", "s.tif.aux.xml"),
        ("s.tif", "s.tfw", "s.tfw"),
        ("o.tif.aux.xml", "x", "o.tif"),
        ("o.qml", "x", "o.tif"),
        ("E-METADATA.XML", "E-SPECTRAL_IMAGE.TIF", "E-SPECTRAL_IMAGE.TIF"),
        ("s.zarr/cube/zarr.json", "s.zarr/zarr.json", "s.zarr"),
        ("s.zarr/cube", "s.zarr/cube/zarr.json", "s.zarr"),
        ("s.zarr", "s.zarr/zarr.json", "s.zarr/map.tif"),
        ("enmap", "enmap/image.tif", "enmap/image.tif"),
        ("bands", "bands/b1.tif", "bands/b1.tif"),
        ("D-METADATA.xml", "D-SPECTRAL_IMAGE.tif", "D-SPECTRAL_IMAGE.tif"),
        ("l.shp", "l.DBF", "l.DBF"),
        ("l.gpkg", "l.qml", "l.qml"),
    ],
)
def test_files_of_an_input_are_not_written_over(
    tmp_path: Path, source: str, beside: str, out: str
) -> None:
    make(tmp_path, beside)
    if not (tmp_path / source).exists():
        make(tmp_path, source)
    with pytest.raises(OutputError, match=r"it (is|lies in) the input"):
        check_apart(tmp_path / out, [str(tmp_path / source)])


def test_files_that_a_vrt_puts_together_are_not_written_over(tmp_path: Path) -> None:
    make(tmp_path, "a & b.tif")
    text = '<VRTDataset><SourceFilename relativeToVRT="1">a &amp; b.tif</SourceFilename>'
    (tmp_path / "s.vrt").write_text(text)
    with pytest.raises(OutputError, match="it is the input"):
        check_apart(tmp_path / "a & b.tif", [str(tmp_path / "s.vrt")])
    check_apart(tmp_path / "map.tif", [str(tmp_path / "s.vrt")])


def test_output_beside_an_input_is_written(tmp_path: Path) -> None:
    make(tmp_path, "s.tif", "s.tif.aux.xml", "e.dat", "e.hdr", "s.zarr/zarr.json")
    for source, out in [("s.tif", "s.hdr"), ("e.dat", "e.tif"), ("s.zarr", "s.tif")]:
        check_apart(tmp_path / out, [str(tmp_path / source)])


@pytest.mark.parametrize("extra", ["cube/zarr.json", "notes.txt", "class_map/c/0/notes", "y/c/0"])
def test_zarr_folder_with_more_than_a_map_is_kept(tmp_path: Path, extra: str) -> None:
    store = tmp_path / "map.zarr"
    about = {"attributes": {"class_values": [1], "coordinates": "spatial_ref"}}
    make(store, "zarr.json", "class_map/c/0/0", "class_map/zarr.json", "spatial_ref/zarr.json")
    (store / "class_map" / "zarr.json").write_text(json.dumps(about | {"dimension_names": ["x"]}))
    make(store, "x/c/0", "spatial_ref/c")
    check_kind(store, "map")
    make(store, extra)
    with pytest.raises(OutputError, match="is no map of polyad"):
        check_kind(store, "map")
