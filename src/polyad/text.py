"""Characters that no name may hold and no terminal may get.

Control characters move a terminal's cursor, set its title or end a C string; XML knows no way to
write them; overrides of the reading direction show another text than the one that is there; half a
surrogate pair cannot be encoded. A spreadsheet runs a cell of a CSV that begins like a formula.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
)
_IN_LINE = re.compile(f"[{_UNSAFE}\t\n]")
_IN_NAME = re.compile(f"[{_UNSAFE}\t\n]+")
# The line end of a list in an error is followed by two blanks; any other would forge a line.
_IN_SENTENCE = re.compile(f"[{_UNSAFE}\t]|\n(?!  )")
_IN_TEXT = re.compile(f"[{_UNSAFE}]")
_FORMULA = re.compile(r"'*(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")


def is_visible(text: str) -> bool:
    r"""Whether a terminal, an XML file and a browser show one line of text as what it is.

    Examples
    --------
    >>> is_visible("Ölweide, 2\N{NO-BREAK SPACE}m"), is_visible("\x1b[2J"), is_visible("a\u202eb")
    (True, False, False)
    """
    return _IN_LINE.search(text) is None


def clean_name(name: str, longest: int = 200) -> str:
    r"""Return a name that every format can hold, with a blank for each unsafe stretch.

    Examples
    --------
    >>> clean_name("Corn\x00\x1b[31m"), clean_name("Corn, no till")
    ('Corn [31m', 'Corn, no till')
    """
    name = composed(name)
    if _IN_NAME.search(name):
        name = _IN_NAME.sub(" ", name).strip()
    return name if len(name) <= longest else name[: longest - 3] + "..."


def composed(text: str) -> str:
    r"""Return a text with each accent in one character with its letter (Unicode's form NFC).

    A Mac and a Linux machine may spell one name in two ways that look the same.

    Examples
    --------
    >>> len("O\N{COMBINING DIAERESIS}l"), len(composed("O\N{COMBINING DIAERESIS}l"))
    (3, 2)
    """
    return unicodedata.normalize("NFC", text)


def printable_line(text: str) -> str:
    r"""Return ``text`` as one line, unsafe characters as Python writes them.

    Examples
    --------
    >>> print(printable_line("scene\x1b[2J\n.tif"))
    scene\x1b[2J\n.tif
    """
    return _IN_LINE.sub(_escaped, text)


def printable_sentence(text: str) -> str:
    """Return the text of an error as one line, or as one and an indented list."""
    return _IN_SENTENCE.sub(_escaped, text)


def printable(text: str) -> str:
    """Return ``text`` of several lines, unsafe characters as Python writes them."""
    return _IN_TEXT.sub(_escaped, text)


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    r"""Return rows as CSV; an apostrophe stands before text that a spreadsheet would run.

    Examples
    --------
    >>> csv_text([["class", "share"], ["=cmd|' /C calc'!A0", -0.5]])
    "class,share\n'=cmd|' /C calc'!A0,-0.5\n"
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)  # quotes both signs of its own line end, which becomes one here
    for row in rows:
        writer.writerow([csv_cell(v) if isinstance(v, str) else v for v in row])
        out.seek(out.tell() - 2)
        out.write("\n")
        out.truncate()
    return out.getvalue()


def csv_cell(text: str) -> str:
    """Return a text as `csv_text` writes it; `from_csv_cell` undoes that."""
    return f"'{text}" if _FORMULA.match(text) and not _is_number(text) else text


def from_csv_cell(text: str) -> str:
    """Return the text of a cell without the apostrophe that `csv_cell` puts before it.

    Examples
    --------
    >>> from_csv_cell("'=1+1"), from_csv_cell("'s-Hertogenbosch"), from_csv_cell("-5")
    ('=1+1', "'s-Hertogenbosch", '-5')
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _escaped(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
