"""A file that redirects the browser to the page, so that no command line shows the token.

Every user of a machine can read all command lines. So the browser is given the name of a file that
only this user can read, and finds the address in it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}"><title>polyad</title></head>
<body><p><a href="{address}">Open the labeling page</a></p></body></html>
"""


@contextmanager
def redirect_file(address: str) -> Iterator[str]:
    """Yield the ``file:`` URL of a private file that redirects to ``address``; then delete it.

    Examples
    --------
    >>> with redirect_file("http://127.0.0.1:80/token/") as url:
    ...     url.startswith("file:///"), "token" in url
    (True, False)
    """
    # Nobody else may enter the folder, so nobody can replace the file.
    with tempfile.TemporaryDirectory(prefix="polyad-", dir=_runtime_folder()) as folder:
        path = Path(folder) / "open.html"
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(_PAGE.format(address=escape(address, quote=True)))
        yield path.absolute().as_uri()


def _runtime_folder() -> str | None:
    """Return the user's runtime folder, or None for the default temporary folder."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return folder if folder and os.access(folder, os.W_OK | os.X_OK) else None
