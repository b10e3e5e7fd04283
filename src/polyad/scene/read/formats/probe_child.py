"""Reads everything in the header of HDF5 files, each in a fork of its own, within limits.

A script of its own that imports h5py and nothing of polyad, so that it starts at once. It takes
paths on its input, one JSON string a line, and answers each with a line: null, or what went wrong.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

import h5py

MEMORY = 256 * 2**20  # bytes; Python and HDF5 take a third, headers of products a few megabytes
SECONDS = 5  # of the processor
OBJECTS = 20_000  # the reader has a lower limit, with its own message


def main() -> None:
    """Answer until there is nothing more to read."""
    for line in sys.stdin:
        print(json.dumps(trouble(json.loads(line))), flush=True)


def trouble(path: str) -> str | None:
    """Return what went wrong with reading the header of a file, in words that follow "it"."""
    if not hasattr(os, "fork"):  # pragma: no cover - Windows; the parent's timeout is the limit
        return _read(path)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        limit()
        os.write(writing, (_read(path) or "").encode("utf-8", "replace")[:500])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return said or None
    ends = {-24: f"took more than {SECONDS} s", -9: f"took more than {SECONDS} s"}
    return ends.get(code, f"crashed the HDF5 library (signal {-code})")


def _read(path: str) -> str | None:
    try:
        read_header(path)
    except MemoryError:
        return "took too much memory"
    except Exception as error:
        return f"failed ({(str(error).splitlines() or [type(error).__name__])[0][:200]})"
    return None


def limit() -> None:
    """Bound memory and time of this process, and let it write no file."""
    import resource

    for kind, most in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # macOS does not take every limit
            resource.setrlimit(kind, (most, most))


def read_header(path: str) -> None:
    """Read every attribute and look up the chunks of every object that plain links lead to."""
    with h5py.File(path, "r") as file:
        waiting: list[Any] = [file["/"]]
        known, seen = {h5py.h5o.get_info(file.id).addr}, 0
        while waiting:
            item = waiting.pop()
            # A kind that h5py has no form for is no error here: its reader will report it
            for name in item.attrs:
                try:
                    item.attrs[name]
                except (TypeError, OSError, KeyError, ValueError, RuntimeError) as error:
                    if "alloc" in str(error):
                        raise MemoryError from error
            if isinstance(item, h5py.Dataset):
                if item.chunks:
                    item.id.get_num_chunks()
                continue
            for name in item if isinstance(item, h5py.Group) else ():
                seen += 1
                if seen > OBJECTS:
                    return
                if isinstance(item.get(name, getlink=True), h5py.HardLink):
                    child = item[name]
                    address = h5py.h5o.get_info(child.id).addr
                    if address not in known:
                        known.add(address)
                        waiting.append(child)


if __name__ == "__main__":
    main()
