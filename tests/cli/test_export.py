"""``polyad export`` writes what onnxruntime maps the scene with, and refuses what no graph does."""

import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import polyad
from land import as_json, pixels, refused, run
from polyad import RankRRegressor

pytest.importorskip("onnx", reason="needs polyad[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def test_the_exported_model_maps_the_scene_as_polyad_map_does(capsys, place, tmp_path):
    out = tmp_path / "model.onnx"
    assert run("export", place / "m.polyad", out, "--whole-scene") == 0
    assert "takes (8, height + 2p, width + 2p) with p = 1" in capsys.readouterr().out
    run("map", place / "m.polyad", place / "bil.hdr", "--out", tmp_path / "map.npy")
    tile = np.pad(pixels().astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="reflect")
    session = runtime.InferenceSession(out, providers=["CPUExecutionProvider"])
    ids, _ = session.run(["class_ids", "probabilities"], {"pixels": tile.transpose(2, 0, 1)})
    np.testing.assert_array_equal(ids, np.load(tmp_path / "map.npy"))


def test_by_default_it_takes_windows_and_tells_so(capsys, place, tmp_path):
    told = as_json(capsys, "export", place / "m.polyad", tmp_path / "model.onnx")
    assert told["input"] == ["n", 3, 3, 8]
    assert told["bytes"] == (tmp_path / "model.onnx").stat().st_size


def test_an_earlier_export_is_replaced_and_other_files_are_not(capsys, place, tmp_path):
    out = tmp_path / "model.onnx"
    assert run("export", place / "m.polyad", out) == 0
    assert run("export", place / "m.polyad", out, "--whole-scene") == 0
    out.write_text("my notes")
    capsys.readouterr()
    assert "--force" in refused(capsys, "export", place / "m.polyad", out)
    assert out.read_text() == "my notes"


def test_label_propagation_is_refused_unless_the_network_is_wanted_alone(
    capsys, place, best, tmp_path
):
    out = tmp_path / "model.onnx"
    sentence = refused(capsys, "export", best, out, "--whole-scene")
    assert "label propagation" in sentence
    assert "--network-only" in sentence
    assert not out.exists()
    assert run("export", best, out, "--whole-scene", "--network-only") == 0


def test_a_model_of_plain_samples_is_exported_too(capsys, tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 4, 3))
    model = RankRRegressor(hidden=3, epochs=2, random_state=0).fit(X, X[:, 0, 0])
    polyad.save(model, tmp_path / "m.polyad")
    assert run("export", tmp_path / "m.polyad", tmp_path / "model.onnx") == 0
    assert "takes (n, 4, 3)" in capsys.readouterr().out
    sentence = refused(
        capsys, "export", tmp_path / "m.polyad", tmp_path / "model.onnx", "--whole-scene"
    )
    assert "leave out --whole-scene" in sentence


def test_what_is_no_model_of_ours_alone_is_refused_in_a_sentence(capsys, tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 4, 3))
    model = RankRRegressor(hidden=3, epochs=2, random_state=0)
    line = make_pipeline(polyad.ModeStandardScaler(), model).fit(X, X[:, 0, 0])
    polyad.save(line, tmp_path / "line.polyad")
    sentence = refused(capsys, "export", tmp_path / "line.polyad", tmp_path / "model.onnx")
    assert "a Pipeline is exported by skl2onnx" in sentence
    monkeypatch.chdir(tmp_path)
    assert "it lies in the input" in refused(capsys, "export", ".", "model.onnx")


def test_without_onnx_one_sentence_says_what_to_install(capsys, place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    sentence = refused(capsys, "export", place / "m.polyad", tmp_path / "model.onnx")
    assert "pip install 'polyad[onnx]'" in sentence
    assert list(tmp_path.iterdir()) == []
