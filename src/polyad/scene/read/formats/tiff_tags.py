"""The directories of a TIFF, checked before GDAL reads them.

GDAL reads every tag whole when it opens a file, and parses some: a tag of half a gigabyte takes
several. Real tags are small, except for the positions of the blocks.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from polyad.errors import SceneError
from polyad.safe_open import open_regular
from polyad.scene.raster import guards

MAX_DIRECTORIES = 1000  # an image, its masks and overviews are some twenty
MAX_TAGS = 1000
MAX_BYTES = 16 * 2**20  # of all tags of a directory
MAX_METADATA_BYTES = 8 * 2**20  # names of 65,535 classes need less
_METADATA = 42112  # GDAL's, XML
_BLOCK_TABLES = (273, 279, 324, 325)  # offsets and byte counts of strips and tiles
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4,
          16: 8, 17: 8, 18: 8}  # fmt: skip


def check_tags(path: Path, budget: int) -> None:
    """Refuse a TIFF with tags larger than real ones are, or with endless directories."""
    with open_regular(path) as file:
        check_directories(path, file, budget)


def check_directories(path: Path | str, file: BinaryIO, budget: int) -> None:
    """Refuse an open TIFF as `check_tags` does; ``path`` is named in messages."""
    mark = file.read(8)
    order = "<" if mark[:2] == b"II" else ">"
    big = mark[2:4] in (b"+\0", b"\0+")
    try:
        (start,) = struct.unpack(f"{order}Q", file.read(8)) if big else struct.unpack(
            f"{order}I", mark[4:]
        )  # fmt: skip
        seen: set[int] = set()
        while start and start not in seen:
            if len(seen) == MAX_DIRECTORIES:
                raise SceneError(
                    f"{path}: wanted a TIFF of one image, got more than {MAX_DIRECTORIES}; "
                    "save the scene alone"
                )
            seen.add(start)
            start = _check_directory(path, file, start, order, big, budget)
    except struct.error:
        return  # truncated, which GDAL reports


def _check_directory(
    path: Path | str, file: BinaryIO, start: int, order: str, big: bool, budget: int
) -> int:
    """Check the tags of one directory and return where the next one starts."""
    count_form, entry_form, next_form = ("Q", "HHQ8x", "Q") if big else ("H", "HHI4x", "I")
    file.seek(min(start, 2**62))
    (count,) = struct.unpack(order + count_form, file.read(8 if big else 2))
    if count > MAX_TAGS:
        raise SceneError(
            f"{path}: wanted at most {MAX_TAGS} tags in a TIFF, got {count}; it is damaged"
        )
    size = struct.calcsize(order + entry_form)
    entries = struct.iter_unpack(order + entry_form, _exactly(file, count * size))
    plain = tables = 0
    for tag, kind, number in entries:
        if tag in _BLOCK_TABLES:
            tables += 8 * number  # widened when read
            continue
        taken = number * _SIZES.get(kind, 8)
        plain += taken
        if plain > MAX_BYTES or (tag == _METADATA and taken > MAX_METADATA_BYTES):
            raise SceneError(
                f"{path}: wanted at most {guards.human_bytes(MAX_METADATA_BYTES)} of metadata, "
                f"TIFF tag {tag} has {guards.human_bytes(taken)}; save the scene without it"
            )
    if tables > guards.HARMLESS_BYTES:
        guards.check_budget(path, tables, budget, "the table of a TIFF's blocks")
    (following,) = struct.unpack(order + next_form, file.read(8 if big else 4))
    return int(following)


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise struct.error("cut short")
    return content
