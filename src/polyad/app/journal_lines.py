"""What a journal holds: lines of JSON, each with a checksum of its own.

A line is answered only when it is on the disk with its end. So an unfinished last line was never
answered and may go; any other line that is not as it was written is damage, and is reported.

Format 1 had no checksums. Its files are read on: they may begin with lines without one, and from
the first line that carries a checksum every line must.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyad.errors import SceneError, SceneMismatch

FORMAT = 2
BEGINNING = b'{"polyad journal":'  # of every journal; anything else is somebody else's file

_SEALED = re.compile(rb'(\{.+),"crc":"([0-9a-f]{8})"\}', re.DOTALL)

Entry = dict[str, Any]


def seal(command: Mapping[str, Any]) -> bytes:
    r"""Return a command as a line: JSON, its checksum as the last member, and a line end.

    Examples
    --------
    >>> seal({"do": "undo"})
    b'{"do":"undo","crc":"c41fbe09"}\n'
    """
    text = json.dumps(command, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate becomes its JSON escape; the closing brace comes after the checksum
    body = text.encode(errors="backslashreplace")[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def read_entries(content: bytes, path: Path) -> tuple[list[Entry], int]:
    r"""Return the entries of a journal and the length of its good part.

    Examples
    --------
    >>> read_entries(seal({"do": "undo"}) + b'{"do":"re', Path("x"))
    ([{'do': 'undo'}], 31)
    """
    entries: list[Entry] = []
    good, sealed = 0, False
    while good < len(content):
        end = content.find(b"\n", good)
        line = content[good:] if end < 0 else content[good:end]
        match = _SEALED.fullmatch(line)
        if end < 0 and match is None:
            break  # unfinished: never answered, so nobody relies on it
        sealed = sealed or match is not None
        try:
            entries.append(_entry(line, match, sealed))
        except (ValueError, RecursionError) as error:
            raise SceneError(
                f"{path}, line {len(entries) + 1}: the journal is damaged ({error}) and was left "
                "as it is; take this line out with an editor to go on without its label, or move "
                "the file away to start anew"
            ) from error
        good += len(line) + 1
    return entries, min(good, len(content))


def _entry(line: bytes, match: re.Match[bytes] | None, sealed: bool) -> Entry:
    if match is not None and zlib.crc32(match[1]) != int(match[2], 16):
        raise ValueError("its checksum is that of another line")
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    if match is None and (sealed or entry.get("polyad journal") == FORMAT):
        raise ValueError("it has no checksum")
    if match is not None:
        del entry["crc"]
    return entry


def check_is_journal(content: bytes, path: Path) -> None:
    r"""Refuse a file that is no journal before anything of it is changed.

    A crash at the very first write leaves the beginning of a journal's first line, or nothing.

    Examples
    --------
    >>> check_is_journal(b'{"polyad jou', Path("x"))
    >>> check_is_journal(b"row,col,class\n", Path("labels.csv"))
    Traceback (most recent call last):
    polyad.errors.SceneError: labels.csv is no journal of polyad; it was left as it is, ...
    """
    if not (content.startswith(BEGINNING) or BEGINNING.startswith(content)):
        raise SceneError(
            f"{path} is no journal of polyad; it was left as it is, name another file with "
            "--journal"
        )


def check_header(header: Mapping[str, Any], about: Mapping[str, Any], path: Path) -> None:
    """Raise an error unless the journal is of a known format and was written for this scene."""
    if header.get("polyad journal") not in range(1, FORMAT + 1):
        raise SceneError(
            f"{path} is a journal of format {str(header.get('polyad journal'))[:20]}, wanted one "
            f"up to {FORMAT}; use the polyad that wrote it, or move it away to start anew"
        )
    if any(header.get(key) != value for key, value in about.items()):
        raise SceneMismatch(
            f"{path} belongs to another scene of {str(header.get('shape'))[:40]} pixels, this one "
            f"has {about.get('shape')}; move the journal away to start anew"
        )
