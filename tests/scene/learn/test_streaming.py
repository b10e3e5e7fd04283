"""Training sets above the memory budget: in which order their batches come."""

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, ClassifierMixin

from polyad.scene.learn.training import STREAMED_EPOCHS, train
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.scenes import scene_from_array

SIDE = 8


class Listener(ClassifierMixin, BaseEstimator):
    """Learns nothing and keeps what it was given; the only band is the pixel's number."""

    def __init__(self):
        self.batches = []

    def partial_fit(self, X, y, classes):
        self.classes_, self.n_features_in_ = classes, X.shape[1]
        self.batches.append((X[:, 0].astype(int), np.asarray(y)))
        return self


def passes():
    """Return pixel numbers and classes of each pass, ``(passes, pixels)`` each."""
    numbers = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
    values = np.repeat([1, 2], SIDE // 2)[:, None].repeat(SIDE, axis=1).astype(np.uint16)
    classes = (ClassInfo(1, "upper", "#112233"), ClassInfo(2, "lower", "#445566"))
    labels = with_classes(xr.DataArray(values, dims=("y", "x")), classes)
    listener = Listener()
    scene = scene_from_array(numbers[..., None])
    train(scene, labels, window=1, estimator=listener, max_bytes=4 * SIDE * 4)
    pixels, y = (np.concatenate(part) for part in zip(*listener.batches, strict=True))
    assert len(listener.batches) == STREAMED_EPOCHS * SIDE
    return pixels.reshape(STREAMED_EPOCHS, -1), y.reshape(STREAMED_EPOCHS, -1)


def test_every_pass_over_a_streamed_training_set_sees_each_pixel_once_with_its_own_class():
    pixels, y = passes()
    assert (np.sort(pixels, axis=1) == np.arange(SIDE * SIDE)).all()
    assert (y == 1 + (pixels >= SIDE * SIDE // 2)).all()


def test_streamed_batches_are_shuffled_anew_in_every_pass():
    pixels, y = passes()
    assert len({tuple(order) for order in pixels.tolist()}) == STREAMED_EPOCHS
    mixed = [len(set(batch)) > 1 for batch in y.reshape(-1, SIDE).tolist()]
    assert np.mean(mixed) > 0.8  # in the scene's order every batch would hold one class
