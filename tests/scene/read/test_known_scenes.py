import hashlib

import numpy as np
import pooch
import pytest
import requests
import scipy.io

from polyad.errors import OutputError, SceneError
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES, KnownScene, RemoteFile, known_scene
from polyad.scene.read import scenes as sources
from polyad.scene.read.scenes import fetch, open_known, open_known_labels


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A known scene of a few pixels, and its two files as a user may have saved them."""
    rng = np.random.default_rng(0)
    cube = rng.integers(1, 1000, size=(6, 5, 4)).astype(np.uint16)
    gt = rng.integers(0, 3, size=(6, 5)).astype(np.uint8)
    scipy.io.savemat(tmp_path / "download (1).mat", {"tiny": cube})
    scipy.io.savemat(tmp_path / "labels.mat", {"tiny_gt": gt})

    def remote(name, path, key):
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        return RemoteFile(f"https://example.org/a/{name}", digest, len(data), key)

    row = KnownScene(
        title="Tiny",
        sensor="none",
        shape=(6, 5, 4),
        pixel_size=1.0,
        class_names=("Corn", "Oats"),
        cube=remote("Tiny.mat", tmp_path / "download (1).mat", "tiny"),
        labels=remote("Tiny_gt.mat", tmp_path / "labels.mat", "tiny_gt"),
        citation="nobody",
    )
    monkeypatch.setitem(KNOWN_SCENES, "tiny", row)
    return cube, gt, tmp_path / "download (1).mat", tmp_path / "labels.mat"


@pytest.fixture
def no_network(monkeypatch):
    """Let every download fail; a test sets what with."""
    failure = {"error": requests.exceptions.ConnectionError("no route to host\nmore words")}

    def download(self, url, output_file, pooch, check_only=False):
        failure["asked"] = url
        raise failure["error"]

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    return failure


def test_every_row_is_complete():
    assert list(KNOWN_SCENES) == [
        "indian-pines", "pavia-university", "botswana", "salinas", "ksc", "pavia-centre",
    ]  # fmt: skip
    for row in KNOWN_SCENES.values():
        assert len(set(row.class_names)) == len(row.class_names)
        for file in row.files:
            assert file.address.startswith("https://")
            assert len(file.sha256) == 64
            assert int(file.sha256, 16) > 0
            assert file.bytes > 1000
            assert file.name.endswith(".mat")
    counts = [len(row.class_names) for row in KNOWN_SCENES.values()]
    assert counts == [16, 9, 14, 16, 13, 9]
    assert len({file.sha256 for row in KNOWN_SCENES.values() for file in row.files}) == 12


def test_indian_pines_needs_no_file_and_no_network(no_network):
    scene, labels = open_known("indian-pines"), open_known_labels("indian-pines")
    assert scene.dims == ("y", "x", "band")
    assert scene.shape == (145, 145, 200)
    assert scene.dtype == np.uint16
    assert (int(scene.min()), int(scene.max())) == (955, 9604)
    assert labels.dtype == np.uint16
    assert np.bincount(labels.values.ravel())[1:].tolist() == [
        46, 1428, 830, 237, 483, 730, 28, 478, 20, 972, 2455, 593, 205, 1265, 386, 93,
    ]  # fmt: skip
    assert labels.attrs["class_names"][8] == "Oats"
    assert len(set(labels.attrs["class_colors"])) == 16
    assert fetch("indian-pines") == []


def test_indian_pines_wavelengths_are_marked_nominal():
    wavelength = open_known("indian-pines").wavelength
    assert wavelength.attrs["units"] == "nm"
    assert "nominal" in wavelength.attrs["comment"]
    assert (float(wavelength[0]), float(wavelength[-1])) == (400.02, 2498.96)


def test_hand_fetched_files_are_recognized_by_their_sum_and_open_by_name(tiny, folder):
    cube, gt, cube_file, labels_file = tiny
    assert fetch("tiny", from_file=cube_file) == [folder / "Tiny.mat"]
    assert fetch("tiny", from_file=[str(labels_file)]) == [folder / "Tiny_gt.mat"]
    np.testing.assert_array_equal(open_known("tiny").values, cube)
    labels = open_known_labels("tiny")
    np.testing.assert_array_equal(labels.values, gt)
    assert labels.attrs["class_names"] == ["Corn", "Oats"]
    assert sorted(p.name for p in folder.iterdir()) == ["Tiny.mat", "Tiny_gt.mat"]
    assert cube_file.exists()  # copied, not moved


def test_a_file_with_another_sum_is_refused_and_nothing_is_put_in_place(tiny, folder, tmp_path):
    other = tmp_path / "Tiny.mat"
    other.write_bytes(b"not it")
    with pytest.raises(SceneError, match=r"\(6 bytes, SHA-256 \w+\) is no file of tiny, which has"):
        fetch("tiny", from_file=other)
    assert not folder.exists()


def test_a_missing_file_and_an_unwritable_data_folder_are_named(tiny, tmp_path, monkeypatch):
    with pytest.raises(SceneError, match=r"nowhere\.mat: no such file"):
        fetch("tiny", from_file=tmp_path / "nowhere.mat")
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "labels.mat" / "data"))
    with pytest.raises(OutputError, match="cannot make the folder"):
        fetch("tiny", from_file=tiny[2])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.exceptions.HTTPError("403 Client Error: Forbidden for url"), "403 Client Error"),
        (requests.exceptions.ConnectionError("no route to host\nmore words"), "no route to host"),
        (requests.exceptions.Timeout(), "Timeout"),
    ],
)
def test_a_refused_download_says_what_to_fetch_by_hand_and_how(
    tiny, folder, no_network, error, words
):
    no_network["error"] = error
    with pytest.raises(SceneError, match=words) as caught:
        fetch("tiny", progress=False)
    message = str(caught.value)
    assert "more words" not in message
    assert "https://example.org/a/Tiny.mat" in message
    assert "`polyad fetch tiny --from Tiny.mat`" in message
    assert str(folder) in message


def test_a_download_goes_to_the_data_folder_and_is_not_repeated(tiny, folder, monkeypatch):
    _, _, cube_file, labels_file = tiny
    served = {"Tiny.mat": cube_file, "Tiny_gt.mat": labels_file}
    asked = []

    def download(self, url, output_file, pooch, check_only=False):
        asked.append(url)
        with open(output_file, "wb") as out:  # noqa: PTH123
            out.write(served[url.rsplit("/", 1)[1]].read_bytes())

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    wanted = [folder / "Tiny.mat", folder / "Tiny_gt.mat"]
    assert fetch("tiny", progress=False) == wanted
    assert fetch("tiny", progress=False) == wanted
    assert asked == ["https://example.org/a/Tiny.mat", "https://example.org/a/Tiny_gt.mat"]


def test_a_download_with_a_wrong_sum_is_not_kept(tiny, folder, monkeypatch):
    def download(self, url, output_file, pooch, check_only=False):
        with open(output_file, "wb") as out:  # noqa: PTH123
            out.write(b"an error page")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    with pytest.raises(SceneError, match=r"cannot download Tiny.mat of tiny .*fetch it by hand"):
        fetch("tiny", progress=False)
    assert not list(folder.iterdir())


def test_an_unfetched_scene_says_how_to_fetch_it():
    for opener in (open_known, open_known_labels):
        with pytest.raises(SceneError, match=r"not on this machine.*run `polyad fetch botswana`"):
            opener("botswana")


def test_an_unknown_name_lists_the_known_ones_and_suggests():
    with pytest.raises(SceneError, match=r"indian-pines, pavia-u.*did you mean 'indian-pines'\?"):
        known_scene("Indian_Pine")
    with pytest.raises(SceneError, match=r"'zzz' is not a known scene \(indian-pines, .*\)$"):
        known_scene("zzz")


def test_data_folder_is_the_users_own_by_default(monkeypatch):
    monkeypatch.delenv("POLYAD_DATA")
    assert sources.data_folder().name == "polyad"
