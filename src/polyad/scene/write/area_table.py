"""Tables of areas to files: CSV, one line for each class, or JSON with all there is."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from polyad.atomic import replacing
from polyad.scene.files.paths import check_ending

# Column of the table, and where its value stands in the estimates of a class
_COLUMNS: tuple[tuple[str, str, int | None], ...] = (
    ("class", "name", None),
    ("id", "id", None),
    ("area_ha", "area_ha", None),
    ("se_ha", "se_ha", None),
    ("ci95_low_ha", "ci95_ha", 0),
    ("ci95_high_ha", "ci95_ha", 1),
    ("area_pixels", "area_pixels", None),
    ("se_pixels", "se_pixels", None),
    ("ci95_low_pixels", "ci95_pixels", 0),
    ("ci95_high_pixels", "ci95_pixels", 1),
    ("mapped_ha", "mapped_ha", None),
    ("share", "share", None),
    ("share_se", "share_se", None),
    ("users_accuracy", "users_accuracy", None),
    ("users_accuracy_se", "users_accuracy_se", None),
    ("users_accuracy_low", "users_accuracy_ci95", 0),
    ("users_accuracy_high", "users_accuracy_ci95", 1),
    ("producers_accuracy", "producers_accuracy", None),
    ("producers_accuracy_se", "producers_accuracy_se", None),
    ("producers_accuracy_low", "producers_accuracy_ci95", 0),
    ("producers_accuracy_high", "producers_accuracy_ci95", 1),
    ("points_mapped", "points_mapped", None),
    ("points_reference", "points_reference", None),
)


def write_areas(path: str | os.PathLike[str], estimates: Mapping[str, Any]) -> None:
    """Write areas as a table (``.csv``) or with all that belongs to them (``.json``).

    The last line of the table, ``total``, has the region's area, and the overall accuracy in
    columns of its own.

    Parameters
    ----------
    path : path-like
    estimates : mapping
        As `polyad.scene.AreaEstimates.to_dict` gives them.
    """
    write = _FORMATS[check_ending(path, "table of areas")]
    with replacing(path) as temporary:
        write(temporary, estimates)


def _json(temporary: Path, estimates: Mapping[str, Any]) -> None:
    text = json.dumps(estimates, indent=2, ensure_ascii=False, allow_nan=False)
    temporary.write_text(text + "\n", encoding="utf-8")


def _csv(temporary: Path, estimates: Mapping[str, Any]) -> None:
    overall = ["overall_accuracy", "overall_accuracy_se"]
    overall += ["overall_accuracy_low", "overall_accuracy_high"]
    names = [name for name, _, _ in _COLUMNS]
    total = {
        "class": "total",
        "area_ha": estimates["total_ha"],
        "area_pixels": estimates["total_pixels"],
        "points_mapped": estimates["n_points"],
        "points_reference": estimates["n_points"],
        **{name: estimates[name] for name in overall[:2]},
        **dict(zip(overall[2:], estimates["overall_accuracy_ci95"], strict=True)),
    }
    with temporary.open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, [*names, *overall], restval="")
        table.writeheader()
        for row in estimates["classes"]:
            table.writerow({name: _cell(row[key], part) for name, key, part in _COLUMNS})
        table.writerow(total)


def _cell(value: Any, part: int | None) -> Any:
    return value if value is None or part is None else value[part]


_FORMATS: dict[str, Callable[[Path, Mapping[str, Any]], None]] = {".csv": _csv, ".json": _json}
