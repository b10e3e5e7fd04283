"""Reads everything in the header of an HDF5 file, within limits: ``python probe_child.py FILE``.

Run as a script of its own, with h5py and nothing of polyad imported, so that it starts at once.
"""

from __future__ import annotations

import sys
from contextlib import suppress

MEMORY = 512 * 2**20  # bytes; headers of products take a few megabytes
SECONDS = 10  # of the processor
OBJECTS = 20_000


def limit() -> None:
    """Bound memory and time of this process, and let it write nothing."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows; the caller's patience is the limit there
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_header(path: str) -> None:
    """Open the file and read every attribute of every object that plain links lead to."""
    import h5py

    with h5py.File(path, "r") as file:
        waiting, seen = [file["/"]], 0
        known = {h5py.h5o.get_info(file.id).addr}
        while waiting:
            item = waiting.pop()
            for name in item.attrs:
                _attribute(item, name)
            if not isinstance(item, h5py.Group):
                continue
            for name in item:
                seen += 1
                if seen > OBJECTS:  # the reader has its own bound and its own words
                    return
                if isinstance(item.get(name, getlink=True), h5py.HardLink):
                    child = item[name]
                    address = h5py.h5o.get_info(child.id).addr
                    if address not in known:
                        known.add(address)
                        waiting.append(child)


def _attribute(item: object, name: str) -> None:
    # A kind that h5py has no form for is no fault here: whoever needs it will say so
    with suppress(TypeError, OSError, KeyError, ValueError):
        item.attrs[name]  # type: ignore[attr-defined]


if __name__ == "__main__":
    limit()
    try:
        read_header(sys.argv[1])
    except (Exception, MemoryError) as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0][:200], file=sys.stderr)
        sys.exit(1)
