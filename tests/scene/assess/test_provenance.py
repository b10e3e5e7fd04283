"""What a report says of the command, the software and the files."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

import numpy as np
import pytest
import rasterio

from polyad.scene.assess import pages as provenance
from polyad.scene.assess.pages import record_run


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def test_every_file_of_an_input_is_named_and_hashed(tmp_path: Path) -> None:
    wanted = {
        "scene.hdr": write(tmp_path / "scene.hdr", b"ENVI\n"),
        "scene.img": write(tmp_path / "scene.img", b"\1\2\3"),
        "labels.csv": write(tmp_path / "labels.csv", b"x,y\n"),
    }
    write(tmp_path / "other.img", b"nobody asked")
    inputs = {"scene": str(tmp_path / "scene.hdr"), "labels": [str(tmp_path / "labels.csv"), None]}
    files = record_run("", inputs | {"mask": None}).files
    assert {file.name: file.sha256 for file in files} == wanted
    assert [(file.role, file.bytes) for file in files] == [
        ("scene", 5),
        ("scene", 3),
        ("labels", 4),
    ]


def test_no_folder_reaches_the_record(tmp_path: Path) -> None:
    write(tmp_path / "scene.npy", b"1")
    path = str(tmp_path / "scene.npy")
    record = record_run(["polyad", "train", path, f"--mask={path}", f"{path}:key"], {"scene": path})
    assert str(tmp_path) not in str(record)
    assert record.command == "polyad train scene.npy --mask=scene.npy scene.npy:key"


def test_no_secret_of_an_address_reaches_the_record() -> None:
    address = "https://me:pass@host/scene.tif?sig=secret"
    record = record_run(["polyad", "train", address], {"scene": address})
    assert "secret" not in (said := str(record))
    assert "pass" not in said
    assert record.files[0].note == "not hashed: read by parts from its address"


def test_a_folder_is_hashed_by_the_list_of_its_files(tmp_path: Path) -> None:
    store = tmp_path / "scene.zarr"
    (store / "c").mkdir(parents=True)
    lines = (
        f"{write(store / 'c' / '0', b'a')}  c/0\n{write(store / 'zarr.json', b'{}')}  zarr.json\n"
    )
    (file,) = record_run("", {"scene": str(store)}).files
    assert file.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert "2 files" in file.note


def test_large_files_are_left_out_and_said_to_be_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write(tmp_path / "scene.npy", b"123")
    inputs = {"scene": str(tmp_path / "scene.npy")}
    monkeypatch.setattr(provenance, "HASHED_BYTES", 2)
    (left,) = record_run("", inputs).files
    assert (left.sha256, left.bytes) == (None, 3)
    assert left.note == "not hashed: above 16 GiB; asked for with --hash"
    assert record_run("", inputs, hashes=True).files[0].sha256 == digest
    monkeypatch.undo()
    assert record_run("", inputs, hashes=False).files[0].note == "not hashed: not asked for"


def test_a_known_scene_says_where_it_comes_from() -> None:
    (file,) = record_run("", {"scene": "indian-pines"}).files
    assert file.name == "indian-pines"
    assert "TensorLy" in file.note


def test_date_is_in_utc_and_versions_are_those_that_run() -> None:
    record = record_run("polyad")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record.date)
    assert record.versions["python"] == platform.python_version()
    assert record.versions["numpy"] == np.__version__
    assert record.versions["GDAL"] == rasterio.__gdal_version__
    assert next(iter(record.versions)) == "polyad"
