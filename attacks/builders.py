"""Bytes of good files to begin with."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def npy(values: np.ndarray) -> bytes:
    """Return an array as the bytes of an ``.npy`` file."""
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


def saved(write: Callable[[Path], Any], name: str) -> bytes:
    """Return the bytes of a file that ``write`` makes."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rasters without a place on the map
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()
