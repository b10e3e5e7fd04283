"""How far one scene is: its store of tiles, and which of them are left."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.distributed.ledger import BrokenLedgerWarning, TileStore
from polyad.distributed.outputs import write_output
from polyad.distributed.plans import ScenePlan
from polyad.scene.geotiff_map import class_dtype
from polyad.scene.model import SceneModel

Array = npt.NDArray[Any]


class SceneProgress:
    """The finished tiles of one scene.

    Parameters
    ----------
    folder : Path
        Where they are kept.
    plan : ScenePlan
    model : SceneModel
    known : mapping of int to int
        Tiles that the ledger calls finished, with their checksums.
    """

    def __init__(
        self, folder: Path, plan: ScenePlan, model: SceneModel, known: Mapping[int, int]
    ) -> None:
        self.plan, self.model = plan, model
        base = folder / f"{plan.out.name}.{plan.digest}"
        self._sweep(folder, base.name)
        self.ids = TileStore(f"{base}.ids", plan.tiles, class_dtype(model.classes))
        self.proba: TileStore | None = None
        if plan.probabilities is not None:
            path = f"{base}.probabilities"
            self.proba = TileStore(path, plan.tiles, np.float32, len(model.classes))
        finished = {n for n, crc in known.items() if self._holds(n, crc)}
        if len(finished) < len(known):
            warnings.warn(
                f"{len(known) - len(finished)} tiles kept in {folder} do not match their "
                "checksums and will be done again",
                BrokenLedgerWarning,
                stacklevel=2,
            )
        self.left = set(range(len(plan.tiles))) - finished

    def put(self, number: int, ids: Array, proba: Array | None) -> dict[str, Any]:
        """Keep one tile; return its line for the ledger."""
        crc = self.ids.put(number, ids)
        if self.proba is not None and proba is not None:
            crc = _joined(crc, self.proba.put(number, proba))
        self.left.discard(number)
        return {"map": self.plan.digest, "tile": number, "crc": crc}

    def write(self, probability_dtype: str) -> None:
        """Write the output, which needs all tiles."""
        write_output(self.model, self.plan, self.ids, self.proba, probability_dtype)

    def discard(self) -> None:
        """Remove the stores; the output is there."""
        for store in self._stores():
            store.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files."""
        for store in self._stores():
            store.close()

    def _stores(self) -> list[TileStore]:
        return [self.ids] if self.proba is None else [self.proba, self.ids]

    def _holds(self, number: int, crc: int) -> bool:
        if not 0 <= number < len(self.plan.tiles):
            return False
        found = self.ids.checksum(number)
        if self.proba is not None:
            found = _joined(found, self.proba.checksum(number))
        return found == crc

    def _sweep(self, folder: Path, name: str) -> None:
        """Remove tiles that were kept for the same output but for another model or scene."""
        for kind in ("ids", "probabilities"):
            for path in folder.glob(f"{escape(self.plan.out.name)}.{'[0-9a-f]' * 16}.{kind}"):
                if not path.name.startswith(name):
                    path.unlink()


def _joined(first: int, second: int) -> int:
    return zlib.crc32(second.to_bytes(4, "big"), first)
