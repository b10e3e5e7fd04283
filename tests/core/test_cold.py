"""A process that fits once must not import what only compilers of torch need."""

import subprocess
import sys

import pytest

CODE = """
import sys
import numpy as np
import torch

torch.nn.Linear(1, 1, device="meta")
already = "sympy" in sys.modules  # old versions of torch need it for a layer without memory
from polyad import RankRClassifier, load, save

model = RankRClassifier(epochs=2).fit(np.random.rand(8, 3, 4, 5), np.arange(8) % 2)
save(model, sys.argv[1])
load(sys.argv[1]).predict(np.random.rand(2, 3, 4, 5))
assert already or "sympy" not in sys.modules
"""


@pytest.mark.slow
def test_fit_save_and_load_do_not_import_sympy(tmp_path):
    subprocess.run([sys.executable, "-c", CODE, tmp_path / "m.polyad"], check=True)
