"""The first bytes of a model file, looked at before torch is imported."""

from __future__ import annotations

import os
from pathlib import Path

from polyad.errors import ModelFileError
from polyad.regular import open_regular

HEADER_BYTES = 2**25  # enough for three million training pixels
MODEL_BYTES = 2**28  # of the network: 67 million weights in single precision


def check_model_file(path: str | os.PathLike[str]) -> None:
    """Raise `ModelFileError` if the file is missing, no file, empty, a pickle or an archive."""
    path = Path(path)
    try:
        with open_regular(path, ModelFileError) as file:
            start = file.read(9)
            length = os.fstat(file.fileno()).st_size
    except OSError as error:
        remedy = "; check the path" if isinstance(error, FileNotFoundError) else ""
        raise ModelFileError(f"{path} cannot be read: {error.strerror}{remedy}") from error
    if not start:
        raise ModelFileError(f"{path} is empty (0 bytes); a model file holds a header and weights")
    # A safetensors header opens after eight bytes of length, which may look like anything
    if start[8:] != b"{" and (start[:1] == b"\x80" or start[:2] == b"PK"):
        raise ModelFileError(
            f"{path} is a pickle or an archive, which polyad never opens since it could run code; "
            "save the model with polyad.save"
        )
    size = int.from_bytes(start[:8], "little")
    if size > HEADER_BYTES and start[8:] != b"{":
        raise ModelFileError(
            f"{path} is no model file, or damaged: it does not begin as one; name the model first, "
            "as in polyad map model.polyad scene.tif, or get the file again"
        )
    if size > HEADER_BYTES or length > size + 2 * MODEL_BYTES:
        raise ModelFileError(
            f"{path} is damaged or no model file: its header should be of at most "
            f"{HEADER_BYTES:,} bytes and its weights of {MODEL_BYTES:,}, got {size:,} and "
            f"{max(length - size, 0):,}; get the file again"
        )
