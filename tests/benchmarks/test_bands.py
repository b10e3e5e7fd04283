"""The transformers of the few-labels ablation: fused bands, and scales as one more mode."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.bands import BandFusion, ScaleProfiles
from polyad import RankRClassifier
from polyad.errors import InputError


def fields(height=24, width=30, bands=6, seed=0):
    """Return three upright fields of different spectra and their labels."""
    rng = np.random.default_rng(seed)
    label = np.repeat([0, 1, 2], width // 3)[None].repeat(height, axis=0)
    spectra = rng.normal(0, 4, size=(3, bands))
    return spectra[label] + rng.normal(size=(height, width, bands)), label


def test_fused_bands_keep_the_mean_of_equal_groups():
    values = np.random.default_rng(0).normal(size=(9, 11, 12))
    fused = BandFusion(4).fit_transform(values)
    assert_allclose(fused.mean(axis=2), values.mean(axis=2), atol=1e-6)
    assert BandFusion(99).fit_transform(values).shape == values.shape
    with pytest.raises(InputError, match="at least 1"):
        BandFusion(0).transform(values)


def test_a_rank_r_network_learns_profiles_of_order_four():
    values, label = fields()
    profiles = ScaleProfiles((2.0,)).fit_transform(values)  # (h, w, 2, bands)
    X = np.stack([profiles[4:7, x : x + 3] for x in range(27)])
    model = RankRClassifier(hidden=5, random_state=0).fit(X, label[5, 1:28])
    assert model.sample_shape_ == (3, 3, 2, 6)
    assert model.score(X, label[5, 1:28]) > 0.9
