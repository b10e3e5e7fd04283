"""A checker of types accepts what users pass, knows what comes back, and sees a misspelled word."""

import subprocess
import sys
from pathlib import Path

import pytest

import polyad
from tests.waiting import PATIENCE

USE = """
import numpy as np
import torch
import polyad
from polyad import RankRClassifier, RankRLinear, RankRRegressor

model = RankRClassifier(rank=2, solver="joint").fit(torch.zeros(3, 4, 5), [0, 1, 0])
regressor = RankRRegressor().fit([[0.0, 1.0], [1.0, 0.0]], np.array([0.0, 1.0]))
proba = model.predict_proba([[[0.0, 1.0]]])
reveal_type(RankRLinear((3, 4), 5, rank=2)(torch.zeros(2, 3, 4)))
reveal_type(polyad.load("m.polyad"))
reveal_type(polyad.load("m.polyad", RankRClassifier))
RankRClassifier(solver="joind")
"""


def test_pyright_in_strict_mode_knows_what_estimators_take_and_give(tmp_path):
    pytest.importorskip("pyright", reason="needs pyright, which fetches node where there is none")
    (tmp_path / "use.py").write_text("# pyright: strict\n" + USE)
    places = [Path(polyad.__file__).parents[1], Path(pytest.__file__).parents[1]]
    (tmp_path / "pyrightconfig.json").write_text(
        '{"extraPaths": ["%s", "%s"]}' % tuple(map(str, places))  # noqa: UP031
    )
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "use.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert "1 error, " in done.stdout, done.stdout
    assert '"Literal[\'joind\']" cannot be assigned to parameter "solver"' in done.stdout
    assert 'is "Tensor"' in done.stdout
    assert 'is "RankRClassifier | RankRRegressor | Pipeline"' in done.stdout
    assert 'is "RankRClassifier"' in done.stdout
