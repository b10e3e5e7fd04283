from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyad.errors import OutputError
from polyad.scene.write.tables import write_scores

SCORES: dict[str, Any] = {
    "overall_accuracy": np.float64(0.875),
    "kappa": float("nan"),
    "n_test": np.int64(8),
    "classes": [
        {"name": "Corn, no till", "precision": 1.0, "recall": None, "f1": 0.5, "support": 8}
    ],
    "confusion_matrix": np.eye(2, dtype=int),
}


def test_scores_come_back_from_json(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores.json", SCORES)
    back = json.loads((tmp_path / "scores.json").read_text())
    assert back["overall_accuracy"] == 0.875
    assert back["kappa"] is None
    assert back["confusion_matrix"] == [[1, 0], [0, 1]]


def test_scores_come_back_from_csv(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores.csv", SCORES)
    with (tmp_path / "scores.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {"measure": "overall_accuracy", "class": "", "value": "0.875"} in rows
    assert {"measure": "support", "class": "Corn, no till", "value": "8"} in rows


def test_scores_in_another_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"\.json, \.csv"):
        write_scores(tmp_path / "scores.xml", SCORES)
    assert list(tmp_path.iterdir()) == []
