"""What a page shows of the scene: mapped first, and no finer than it can be seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polyad.errors import InputError
from polyad.scene.raster.windows import Tile


@dataclass(frozen=True)
class View:
    """A rectangle of the scene on somebody's screen.

    Attributes
    ----------
    tile : Tile
        Its rows and columns.
    scale : float
        Pixels of the screen that a pixel of the scene takes, along one side.
    """

    tile: Tile
    scale: float = 1.0

    @classmethod
    def whole(cls, shape: tuple[int, int]) -> View:
        """Return the view of a whole scene."""
        return cls(Tile(slice(0, shape[0]), slice(0, shape[1])))

    @classmethod
    def from_message(cls, message: Mapping[str, Any], shape: tuple[int, int]) -> View:
        """Return the view that a page has told: ``rows`` and ``cols`` as pairs, and ``scale``.

        Raises
        ------
        InputError
            It is no rectangle within the scene.
        """
        sides = [
            _span(message.get(name), name, length)
            for name, length in zip(("rows", "cols"), shape, strict=True)
        ]
        scale = message.get("scale")
        if type(scale) not in (int, float) or not 1e-6 < scale < 1e6:  # type: ignore[operator]
            raise InputError("scale must be a number above 0: screen pixels for each scene pixel")
        return cls(Tile(sides[0], sides[1]), float(scale))  # type: ignore[arg-type]

    @property
    def pixels(self) -> int:
        """How many pixels of the scene it holds."""
        return math.prod(self.tile.shape)

    def shows(self, tile: Tile) -> bool:
        """Whether any pixel of a tile is in view."""
        return all(
            own.start < other.stop and other.start < own.stop
            for own, other in zip(self.tile, tile, strict=True)
        )

    def distance(self, tile: Tile) -> tuple[bool, float]:
        """Return a key by which tiles in view come first, then those nearest to its middle."""
        middles = [[(s.start + s.stop) / 2 for s in each] for each in (self.tile, tile)]
        return not self.shows(tile), math.dist(*middles)

    def stride(self, most: int) -> int:
        """Return which pixels to map, every first, second or fourth, for at most so many in all.

        Nor more of them than the screen has.

        Examples
        --------
        >>> View.whole((1000, 1000)).stride(most=300_000)
        2
        """
        height, width = self.tile.shape
        step = 2 ** max(math.floor(math.log2(1 / self.scale)), 0)
        while -(-height // step) * -(-width // step) > most:
            step *= 2
        return int(step)


def _span(value: Any, name: str, length: int) -> slice:
    whole = isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)
    if not whole or not 0 <= value[0] < value[1] <= length:
        raise InputError(f"{name} must be two whole numbers that rise between 0 and {length}")
    return slice(value[0], value[1])
