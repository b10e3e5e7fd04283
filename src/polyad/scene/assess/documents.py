"""A report as one document: plain values, which are written as JSON or shown as a page."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyad.atomic import replacing
from polyad.scene.files.paths import check_output

Reports = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Document:
    """The content of a report, and what draws its page.

    Attributes
    ----------
    kind : str
        What the report is about: training, evaluation, map or areas.
    content : mapping
        Numbers, strings, lists and mappings: all that the page tells.
    page : callable
        Returns the page as HTML; pictures are drawn only if it is asked for.
    """

    kind: str
    content: Mapping[str, Any]
    page: Callable[[], str]

    @property
    def json(self) -> str:
        """The content as JSON, marked as a report of polyad; NaN becomes null."""
        marked = {"polyad_report": self.kind, **self.content}
        return json.dumps(plain(marked), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def check_reports(path: Reports) -> None:
    """Raise `OutputError` now if a report could not be written later."""
    for one in _several(path):
        check_output(one, "report")


def write_document(path: Reports, document: Document) -> None:
    """Write a report to one or several files: JSON where the name ends in .json, else a page."""
    for one in _several(path):
        text = document.json if Path(one).suffix.lower() == ".json" else document.page()
        with replacing(one) as temporary:  # names of files may be odd
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def plain(value: Any) -> Any:
    """Return ``value`` in types that JSON knows; numbers that are not finite become None.

    Examples
    --------
    >>> plain({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # of NumPy
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _several(path: Reports) -> list[str | os.PathLike[str]]:
    return [path] if isinstance(path, str | os.PathLike) else list(path)
