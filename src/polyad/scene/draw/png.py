"""Arrays of pixels as PNG files, by zlib alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
RGBA = tuple[int, int, int, int]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _PALETTE, _RGBA = 2, 3, 6  # color types
_COMPRESSION = 3  # quick: the images seldom leave this machine


def encode_rgb(image: Array) -> bytes:
    r"""Return an array of uint8, shape (height, width, 3) or with alpha 4, as PNG.

    Examples
    --------
    >>> encode_rgb(np.zeros((1, 1, 3), np.uint8))[:4]
    b'\x89PNG'
    """
    color_type = _RGBA if image.shape[2] == 4 else _RGB
    return _encode(image, color_type, b"")


def encode_indexed(indices: Array, colors: Sequence[RGBA]) -> bytes:
    """Return indices of uint8, shape (height, width), in at most 256 colors, as PNG."""
    table = np.asarray(colors, np.uint8)  # (n, 4)
    palette = _chunk(b"PLTE", table[:, :3].tobytes()) + _chunk(b"tRNS", table[:, 3].tobytes())
    return _encode(indices[..., None], _PALETTE, palette)


def _encode(pixels: Array, color_type: int, palette: bytes) -> bytes:
    height, width, _ = pixels.shape
    rows = pixels.astype(np.uint8, copy=False).reshape(height, -1)
    lines = np.zeros((height, rows.shape[1] + 1), np.uint8)  # a line's first byte: no filter
    lines[:, 1:] = rows
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    body = _chunk(b"IDAT", zlib.compress(lines.tobytes(), _COMPRESSION))
    return _SIGNATURE + _chunk(b"IHDR", header) + palette + body + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
