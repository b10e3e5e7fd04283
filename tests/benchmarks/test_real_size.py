"""Scenes of real size: how they are made, and the power of their growth."""

from __future__ import annotations

from benchmarks import real_size as bench


def test_made_scene_has_labels_of_every_part_for_training_and_testing(tmp_path):
    import numpy as np

    bench.write_mirrored(tmp_path, (200, 200))
    with np.load(tmp_path / "labels.npz") as stored:
        truth, train = stored["truth"], stored["train"]
    assert truth.shape == (200, 200)
    assert (truth[train] > 0).all()
    assert train[:145, :145].any()
    assert train[145:, 145:].any()
    assert (tmp_path / "scene.img").stat().st_size == 200 * 200 * bench.BANDS * 2
