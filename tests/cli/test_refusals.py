"""Bad input to every command: one sentence, and nothing is left behind."""

import os
import shutil

import numpy as np
import pytest

from land import pixels, refused, truth, write_envi, write_named, write_tiff


@pytest.fixture
def bad(place, tmp_path):
    """Broken files, each by its name."""
    values = pixels()
    shutil.copy(place / "bil.hdr", tmp_path / "cut.hdr")
    (tmp_path / "cut.img").write_bytes((place / "bil.img").read_bytes()[:-100])
    write_envi(tmp_path / "narrow.hdr", values[..., :5], "bip")
    text = (place / "bil.hdr").read_text().replace("450.0", "2150.0")
    (tmp_path / "infrared.hdr").write_text(text)
    shutil.copy(place / "bil.img", tmp_path / "infrared.img")
    write_tiff(tmp_path / "small.tif", truth()[:30], dtype="uint8")
    write_tiff(tmp_path / "utm32.tif", truth(), crs="EPSG:32632", dtype="uint8")
    write_tiff(tmp_path / "empty.tif", truth() * 0, dtype="uint8")
    write_named(tmp_path / "other.tif", truth(), ("Lava", "Ice", "Sand"))
    lone = np.where(truth() == 3, 0, truth())
    lone[5, 5] = 3
    write_tiff(tmp_path / "lone.tif", lone, dtype="uint8")
    (tmp_path / "outside.csv").write_text("row,col,class\n100,3,Corn\n3,3,Soil\n")
    (tmp_path / "torn.polyad").write_bytes((place / "m.polyad").read_bytes()[:-9])
    (tmp_path / "a-file").write_text("not a folder")
    return tmp_path


TRAIN = ("train", "{place}/bil.hdr", "{place}/truth.tif", "--out", "{bad}/new.polyad")
MAP = ("map", "{place}/m.polyad", "{place}/bil.hdr", "--out", "{bad}/new.tif")
EVALUATE = ("evaluate", "{place}/m.polyad", "{place}/bil.hdr")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("info", "{bad}/nothing.hdr"), ("no such file",)),
        (("info", "indian-pine"), ("did you mean 'indian-pines'?",)),
        (("info", "{bad}/nothing.polyad"), ("cannot be read",)),
        (("info", "{bad}/torn.polyad"), ("damaged",)),
        (("info", "{bad}/cut.hdr"), ("truncated", "100 bytes are missing")),
        (("label", "{place}/bil.hdr", "--blind"), ("--blind is for checking a sample", "--check")),
        (("label", "{place}/bil.hdr", "--show-map"), ("--show-map is for checking a sample",)),
        (("label", "{place}/bil.hdr", "--check", "{bad}/no.csv"), ("no.csv: no such file",)),
        (
            ("label", "{place}/bil.hdr", "--check", "{bad}/outside.csv", "--truth", "indian-pines"),
            ("--truth is for labeling", "leave out --check"),
        ),
        (
            ("label", "{place}/bil.hdr", "--check", "{bad}/outside.csv", "--classes", "Corn, Soil"),
            ("1 of 2 points lie off the map", "line 2"),
        ),
        (("fetch", "salina"), ("did you mean 'salinas'?",)),
        (("fetch", "salinas", "--from", "{bad}/a-file"), ("is no file of salinas",)),
        ((TRAIN[0], "{bad}/cut.hdr", *TRAIN[2:]), ("truncated", "100 bytes are missing")),
        ((TRAIN[0], "pavia-univrsity", *TRAIN[2:]), ("did you mean 'pavia-university'?",)),
        ((*TRAIN[:2], "{bad}/none.csv", *TRAIN[3:]), ("no such file",)),
        ((*TRAIN[:2], "{bad}/small.tif", *TRAIN[3:]), ("40 rows", "30 rows", "resample")),
        ((*TRAIN[:2], "{bad}/utm32.tif", *TRAIN[3:]), ("32633", "32632", "reproject")),
        ((*TRAIN[:2], "{bad}/empty.tif", *TRAIN[3:]), ("no pixel is labeled",)),
        ((*TRAIN[:2], "{bad}/outside.csv", *TRAIN[3:]), ("outside",)),
        ((*TRAIN[:2], "{bad}/lone.tif", *TRAIN[3:], "--samples-per-class", "5"), ("1 labeled",)),
        ((*TRAIN, "--window", "4"), ("odd", "4")),
        ((*TRAIN, "--window", "101"), ("scene, 40 x 50 pixels, got 101", "up to 49")),
        ((*TRAIN, "--solver", "newton"), ("joint", "alternating", "newton")),
        ((*TRAIN, "--rank", "0"), ("rank", "0")),
        ((*TRAIN, "--epochs", "0"), ("epochs", "0")),
        ((*TRAIN, "--samples-per-class", "0"), ("at least 1", "0")),
        ((*TRAIN[:4], "{bad}/none/new.polyad"), ("no such folder",)),
        ((*TRAIN[:4], "{bad}/a-file/new.polyad"), ("a file of that name",)),
        ((*TRAIN[:4], "{bad}"), ("an existing folder",)),
        ((MAP[0], "{bad}/nothing.polyad", *MAP[2:]), ("cannot be read",)),
        ((MAP[0], "{bad}/torn.polyad", *MAP[2:]), ("damaged",)),
        ((MAP[0], "{bad}/a-file", *MAP[2:]), ("is not a model file",)),
        (
            (*MAP[:2], "{bad}/narrow.hdr", *MAP[3:]),
            ("8 bands (450 to 900 nm)", "has 5 (450 to 707 nm)", "gdal_translate"),
        ),
        (
            (*MAP[:2], "{bad}/infrared.hdr", *MAP[3:]),
            ("8 bands (450 to 900 nm)", "(514 to 2150 nm)"),
        ),
        ((*MAP, "--tile", "0"), ("tile", "0")),
        ((*MAP, "--probability-type", "int8", "--probabilities", "{bad}/p.tif"), ("'int8'",)),
        ((*MAP, "--probabilities", "{bad}/p.png"), (".tif", ".png")),
        ((*MAP[:4], "{bad}/none/map.tif"), ("no such folder",)),
        *(
            ((*MAP, "--ending", ending), (f"name the map instead, as in --out {named}",))
            for ending, named in ((".png", "map.png"), ("png", "map.png"), (".", "map.tif"))
        ),
        (
            (*MAP, "--out-dir", "{bad}/maps"),
            ("--out names one map and --out-dir a folder, got both",),
        ),
        ((*MAP[:4], "{bad}/map.jpg"), (".tif", ".jpg")),
        ((*MAP[:4], "{bad}/a-file/map.png"), ("a file of that name",)),
        ((*EVALUATE, "{bad}/empty.tif"), ("no pixel is labeled",)),
        ((*EVALUATE, "{bad}/other.tif"), ("none of the 1", "1 Lava", "1 Corn")),
        ((*EVALUATE, "{place}/truth.tif", "--out", "{bad}/s.txt"), (".json", ".txt")),
        ((*EVALUATE, "{place}/truth.tif", "--report", "{bad}/none/r.html"), ("no such folder",)),
        (("demo", "--out", "{bad}/a-file"), ("a-file",)),
    ],
    ids=lambda v: " ".join(v).replace("{bad}/", "").replace("{place}/", ""),
)
def test_bad_input_gets_one_sentence_and_leaves_nothing(place, bad, capsys, arguments, words):
    before = {p: p.read_bytes() for p in bad.iterdir()}
    sentence = refused(capsys, *(a.format(place=place, bad=bad) for a in arguments))
    for word in words:
        assert word in sentence
    assert {p: p.read_bytes() for p in bad.iterdir()} == before


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(place, tmp_path, capsys):
    tmp_path.chmod(0o500)
    for command in (("train", place / "bil.hdr", place / "truth.tif"),
                    ("map", place / "m.polyad", place / "bil.hdr")):  # fmt: skip
        assert "may be written" in refused(capsys, *command, "--out", tmp_path / "new.tif")
