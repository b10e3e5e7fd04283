"""MATLAB 5 files: streams that inflate, elements without end, sizes that lie."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attacks.cases import BUDGET, case
from attacks.cases.hdf5 import deflated_zeros

_HEAD = b"MATLAB 5.0 MAT-file".ljust(116) + bytes(8) + struct.pack("<H", 0x0100) + b"IM"
_LIMIT = ["--max-bytes", str(BUDGET)]
_COMMANDS = {"scene": ["info", "s.mat"], "labels": ["train", "scene.npy", "s.mat"]}


def element(kind: int, content: bytes) -> bytes:
    """Return an element: type, size and content, which is padded to eight bytes."""
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def variable(
    name: bytes, shape: tuple[int, ...], values: bytes, *, code: int = 9, stored: int = 2
) -> bytes:
    """Return the content of a variable of class ``code`` and of values of type ``stored``."""
    return (
        element(6, struct.pack("<II", code, 0))
        + element(5, struct.pack(f"<{len(shape)}i", *shape))
        + element(1, name)
        + element(stored, values)
    )


def _write(folder: Path, content: bytes, of: str) -> list[str]:
    (folder / "s.mat").write_bytes(_HEAD + content)
    if of == "labels":
        np.save(folder / "scene.npy", np.random.default_rng(0).random((24, 24, 3)))
    return [*_COMMANDS[of], *_LIMIT]


def _both(says: str) -> Callable[[Callable[[str], bytes]], None]:
    """Try what a function makes as a scene and as labels; it gets to know which."""

    def add(content: Callable[[str], bytes]) -> None:
        for of in _COMMANDS:

            def make(folder: Path, of: str = of) -> list[str]:
                return _write(folder, content(of), of)

            make.__name__ = f"mat_{of}_{content.__name__}"
            make.__doc__ = content.__doc__
            case(8 if "elements" in content.__name__ else 5, says=says)(make)

    return add


def _shape(of: str) -> tuple[int, ...]:
    return (24, 24, 8) if of == "scene" else (24, 24)


@_both(says="cannot be listed|none among|no kind|takes more")
def endless_name(of: str) -> bytes:
    """Before the real one, a variable whose deflated name takes 2 GiB."""
    size = 2**31 - 2**20
    inner = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack("<IIii", 5, 8, 1, 1)
    packer = zlib.compressobj(9)
    head = packer.compress(struct.pack("<II", 14, size + 40) + inner + struct.pack("<II", 1, size))
    stream = head + packer.flush(zlib.Z_FULL_FLUSH) + deflated_zeros(size)[2:]
    real = element(14, variable(b"real", _shape(of), bytes(int(np.prod(_shape(of))))))
    return struct.pack("<II", 15, len(stream)) + stream + real


@_both(says="more than 200:1|must be read at once")
def inflating_array(of: str) -> bytes:
    """Values that declare 2 GiB, deflated to 2 MB."""
    shape = (2**11, 2**10, 2**10) if of == "scene" else (2**16, 2**15)
    size = 2**31
    inner = struct.pack("<IIII", 6, 8, 9, 0)
    inner += element(5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, b"real")
    packer = zlib.compressobj(9)
    head = struct.pack("<II", 14, size) + inner + struct.pack("<II", 2, size)
    stream = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH) + deflated_zeros(size)[2:]
    return struct.pack("<II", 15, len(stream)) + stream


@case(5, says="must be read at once")
def mat_labels_as_large_as_the_budget(folder: Path) -> list[str]:
    """Labels in doubles that fill the budget, the last of them no class."""
    side = 4900
    head = element(6, struct.pack("<II", 6, 0)) + element(5, struct.pack("<2i", side, side))
    head += element(1, b"real") + struct.pack("<II", 9, 8 * side**2)
    with (folder / "s.mat").open("wb") as file:  # sparse: zeros take no room on the disk
        file.write(_HEAD + struct.pack("<II", 14, len(head) + 8 * side**2) + head)
        file.seek(8 * side**2 - 8, 1)
        file.write(struct.pack("<d", 0.5))
    with (folder / "scene.npy").open("wb") as file:
        about = {"descr": "|u1", "fortran_order": False, "shape": (side, side, 1)}
        np.lib.format.write_array_header_1_0(file, about)
        file.truncate(file.tell() + side**2)
    return [*_COMMANDS["labels"], *_LIMIT]
