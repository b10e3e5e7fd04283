"""What the data of the runs were, as a table: sums, shape, range, and whether they are known."""

from __future__ import annotations

from collections.abc import Sequence

from polyad.experiments.identity import Identity
from polyad.experiments.paper_names import scene_title
from polyad.experiments.results import Results
from polyad.experiments.scenes import load_scene
from polyad.experiments.tables import Cell, Table

SHOWN = 16  # digits of a sum


def data_table(results: Results, scenes: Sequence[str], present: Sequence[str]) -> Table:
    """Return one row for each set of data that runs were made with, or that is at hand now."""
    rows: list[tuple[str | Cell, ...]] = []
    for scene in scenes:
        records = [r for r in results.all() if r.settings.scene == scene]
        counts: dict[Identity | None, int] = {}
        for record in records:
            counts[record.data] = counts.get(record.data, 0) + 1
        now = load_scene(scene).identity if scene in present else None
        if now is not None:
            counts.setdefault(now, 0)
        for identity, count in counts.items():
            if identity is None:
                rows.append(
                    (scene_title(scene), f"{count}", "not noted: these records are older", "", "",
                     "", "")
                )  # fmt: skip
                continue
            shape = " x ".join(map(str, identity.shape))
            rows.append(
                (
                    scene_title(scene),
                    f"{count}" + ", at hand now" * (identity == now),
                    identity.status,
                    _sums(identity.cube, identity.cube_file),
                    _sums(identity.labels, identity.labels_file),
                    shape,
                    f"{identity.low:g} to {identity.high:g}",
                )
            )
    note = (
        f"SHA-256, first {SHOWN} digits (the records have all): of the values (cube as float32, "
        "labels as uint16, little-endian, row by row) and, where there are files, of the files."
    )
    columns = ("scene", "runs", "these are", "cube", "labels", "shape", "range")
    return Table("data", "What the data were", columns, tuple(rows), note)


def _sums(values: str, file: str | None) -> str:
    return f"values {values[:SHOWN]}" + (f", file {file[:SHOWN]}" if file else "")
