"""PNG: pixels and palette alone; nothing else in the file is unpacked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from polyad.errors import SceneError
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.read.formats.opening import open_content

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Compressed texts and profiles, of which an image may have a thousand, are left out.
_KEPT = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_MOST_CHUNKS = 100_000  # of 8 KiB each, as usual, they make an image of 800 MB


def open_png(path: Path, budget: int) -> AbstractContextManager[Any]:
    """Open a PNG file with GDAL, from a copy in memory of what makes its pixels."""
    guards.check_budget(path, 2 * guards.existing_file(path), budget, "a PNG file")
    with open_regular(path) as file:
        content = file.read()
    if not content.startswith(_SIGNATURE):
        raise SceneError(f"{path}: wanted a PNG image, got another kind of file; convert it")
    image = b"".join([_SIGNATURE, *_chunks(path, content)])
    del content
    return open_content(path, "PNG", {"image.png": image})


def _chunks(path: Path, content: bytes) -> Iterator[bytes]:
    """Yield the chunks that are kept, each with its length and checksum; all but IDAT once."""
    start, count, seen = len(_SIGNATURE), 0, set[bytes]()
    while start + 12 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, start)
        stop = start + 12 + length
        if (count := count + 1) > _MOST_CHUNKS:
            raise SceneError(
                f"{path}: wanted a PNG image of at most {_MOST_CHUNKS:,} chunks, got more; save it "
                "again"
            )
        if kind in _KEPT and kind not in seen - {b"IDAT"}:
            seen.add(kind)
            yield content[start:stop]
        if kind == b"IEND":
            return
        start = stop
