"""XML from files: without entities, in one encoding, and bounded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.parsers import expat

from polyad.errors import SceneError, reason
from polyad.safe_open import open_regular
from polyad.scene.raster.guards import human_bytes

MAX_ELEMENTS = 1_000_000  # elements and attributes, each of which takes about 100 bytes


def read_xml(
    path: Path, what: str, max_bytes: int, doctype: re.Pattern[str] | None = None
) -> ET.Element:
    """Return the root element of a small XML file.

    The text is decoded here, as UTF-8 whatever it declares, so that what is searched for a DOCTYPE
    is what the parser gets: without one there are no entities, which can grow without bound.
    Names stay as they are written, prefix and all: put in full, each would repeat its namespace.

    Parameters
    ----------
    path : Path
    what : str
        What it should be, for messages.
    max_bytes : int
        Of the file.
    doctype : pattern, optional
        Of a DOCTYPE that declares nothing and is cut out, once; any other is refused.
    """
    text = read_text(path, what, max_bytes)
    return parse_xml(path, text if doctype is None else doctype.sub("", text, count=1), what)


def read_text(path: Path, what: str, max_bytes: int) -> str:
    """Return the text of a small XML file, not yet looked at."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # reading asks for the memory of all it may get
        content = file.read(min(size, max_bytes) + 1)
    if len(content) > max_bytes:
        raise SceneError(
            f"{path}: wanted {what} of at most {human_bytes(max_bytes)}, got more; this is another "
            "file"
        )
    return content.decode("utf-8-sig", errors="replace")


def parse_xml(path: Path, text: str, what: str) -> ET.Element:
    """Return the root element of XML that stands in a file; see `read_xml`."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise SceneError(f"{path}: wanted {what} in plain XML, got a DOCTYPE; remove it")
    if (elements := text.count("<") + text.count("=")) > MAX_ELEMENTS:
        raise SceneError(f"{path}: wanted {what}, got {elements:,} elements; this is another file")
    try:
        return _tree(text)
    except (expat.ExpatError, ValueError) as error:
        raise SceneError(
            f"{path}: wanted {what}, it is not well-formed XML ({reason(error)}); remove it or "
            "copy it again"
        ) from error


def _tree(text: str) -> ET.Element:
    parser, builder = expat.ParserCreate(), ET.TreeBuilder()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse  # expat knows UTF-16 by its zeros, whatever it is told
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(text, True)
    return builder.close()


def _refuse(*_: object) -> None:
    raise ValueError("it has a DOCTYPE")
