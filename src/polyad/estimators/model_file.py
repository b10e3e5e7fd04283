"""The first bytes of a model file, looked at before torch is imported."""

from __future__ import annotations

import os
from pathlib import Path

from polyad.errors import ModelFileError


def check_model_file(path: str | os.PathLike[str]) -> None:
    """Raise `ModelFileError` if the file is missing, empty, a pickle or an archive."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    if not start:
        raise ModelFileError(f"{path} is empty (0 bytes); a model file holds a header and weights")
    # A safetensors header opens after eight bytes of length, which may look like anything
    if start[8:] != b"{" and (start[:1] == b"\x80" or start[:2] == b"PK"):
        raise ModelFileError(
            f"{path} is a pickle or an archive, which polyad never opens since it could run code; "
            "save the model with polyad.save"
        )
