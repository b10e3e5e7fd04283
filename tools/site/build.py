"""Build the documentation site: lay out the sources, write the reference, run Sphinx.

    python -m tools.site.build [--out build/site/html] [--no-gallery]

The pages under docs/ are taken as they are. Those that stand at the root of the repository
(contributing, changelog, ...) get a place under project/, and links follow them; a link to a file
that the site does not have, such as a test, becomes its plain text.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
# Pages outside of docs/ -> their place on the site
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/reporting.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "examples": "gallery/index.rst",
}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def place(path: str) -> str | None:
    """Return where a file of the repository stands on the site, if it does.

    Examples
    --------
    >>> place("docs/mapping.md"), place("CHANGELOG.md"), place("tests/conftest.py")
    ('mapping.md', 'project/changelog.md', None)
    """
    if path in MOVED:
        return MOVED[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def relinked(text: str, source: str) -> str:
    """Return a page with its links as they are on the site.

    Examples
    --------
    >>> relinked("see [maps](docs/mapping.md#maps) and [a test](tests/conftest.py)", "README.md")
    'see [maps](mapping.md#maps) and a test'
    """
    here = place(source)
    assert here is not None

    def one(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        resolved = os.path.normpath(Path(source).parent / path)
        there = place(resolved)
        if there is None or resolved == "docs" or not (ROOT / resolved).exists():
            return words
        link = os.path.relpath(there, Path(here).parent)
        kept = anchor and resolved not in MOVED
        return f"[{words}]({link}{'#' + anchor if kept else ''})"

    return LINK.sub(one, text)


def lay_out(source: Path) -> None:
    """Copy every page to its place and write the reference."""
    sys.path.insert(0, str(ROOT))
    from tools.site.reference import write_reference

    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("records", "maps"))
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT).as_posix()
        text = relinked(page.read_text(encoding="utf-8"), name)
        (source / page.relative_to(ROOT / "docs")).write_text(text, encoding="utf-8")
    for name, there in MOVED.items():
        if name.endswith(".md") and name != "README.md":
            target = source / there
            target.parent.mkdir(exist_ok=True)
            text = relinked((ROOT / name).read_text(encoding="utf-8"), name)
            target.write_text(text, encoding="utf-8")
    write_reference(source / "reference")


def main() -> None:
    """Build, and say where the first page is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build/site/html")
    parser.add_argument("--no-gallery", action="store_true", help="leave the examples unrun")
    options = parser.parse_args()
    source = ROOT / "build/site/source"
    lay_out(source)
    environment = os.environ | {"POLYAD_GALLERY": "skip" if options.no_gallery else "run"}
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += [
        "-c",
        str(HERE),
        "-d",
        str(ROOT / "build/site/trees"),
        str(source),
        str(options.out),
    ]
    ended = subprocess.run(command, env=environment, check=False).returncode
    if ended:
        sys.exit(ended)
    print(f"site: {options.out / 'index.html'}")


if __name__ == "__main__":
    main()
