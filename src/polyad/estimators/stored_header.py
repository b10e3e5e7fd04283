"""The header of a model file, checked and read without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from polyad.errors import ModelFileError, reason
from polyad.estimators.header import parse_header
from polyad.estimators.model_file import check_model_file
from polyad.estimators.schema import Fault

Arrays = Mapping[str, npt.NDArray[Any]]
_STORED = ("F32", "F64")


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of an undamaged file; its weights are read for their checksum alone.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, too new, or no model file at all.
    """
    with opened_model(path, "numpy") as (content, header, check):
        names = list(content.keys())
        odd = [name for name in names if content.get_slice(name).get_dtype() not in _STORED]
        if odd:
            raise Fault(f"tensor {odd[0][:80]!r} should hold floats")
        check({name: content.get_tensor(name) for name in names})
    return header


@contextmanager
def opened_model(
    path: Path, framework: str
) -> Iterator[tuple[Any, dict[str, Any], Callable[[Arrays], None]]]:
    """Open a model file: its content, its header, and what checks its weights' checksum.

    Whatever is wrong, here or where the content is used, is told as a `ModelFileError`.
    """
    check_model_file(path)
    try:
        with safe_open(path, framework=framework) as content:
            metadata = content.metadata() or {}
            if "polyad" not in metadata:
                raise ModelFileError(f"{path} is a safetensors file, but not one that polyad wrote")

            def check(arrays: Arrays) -> None:
                if metadata.get("sha256") != digest_of(metadata["polyad"], arrays):
                    raise ModelFileError(
                        f"{path} is damaged: header and weights do not match their checksum; get "
                        "it again"
                    )

            yield content, parse_header(metadata["polyad"]), check
    except Fault as fault:
        raise ModelFileError(f"{path} describes no valid model: {fault}; {fault.remedy}") from fault
    except (SafetensorError, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is truncated, damaged or no model file ({reason(error)}); get the file again"
        ) from error


def digest_of(header: str, arrays: Arrays) -> str:
    """Return the SHA-256 of a header and of the weights beside it."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} torch.{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
