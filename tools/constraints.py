"""Print every package that polyad[dev] brings along, with its version, as pip constraints.

Run by `make constraints` in an environment of the newest versions that pass the tests.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

HEAD = """\
# Every package of the environment that polyad is developed and tested in. `make constraints` writes
# this file, tests/test_constraints.py keeps it true, `make audit` looks for known vulnerabilities.
# torch is pinned without the name of a build, so that pip takes the CPU wheel where there is one.
# Python {0}.{1}"""


def normal(name: str) -> str:
    """Return a package's name as every tool spells it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def brought_by(name: str, extras: frozenset[str]) -> dict[str, str]:
    """Return name and version of all installed packages that a package brings along."""
    versions: dict[str, str] = {}
    waiting, seen = [(normal(name), extras)], set()
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for needed in _needs(*package):
            try:
                versions[normal(needed.name)] = distribution(needed.name).version.partition("+")[0]
            except PackageNotFoundError:  # of another platform, or an extra nobody asked for
                continue
            waiting.append((normal(needed.name), frozenset(needed.extras)))
    versions.pop(normal(name), None)
    return versions


def _needs(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in distribution(name).requires or []:
        needed = Requirement(line)
        if needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in (extras or {""})
        ):
            yield needed


if __name__ == "__main__":
    print(HEAD.format(*sys.version_info[:2]))
    for pair in sorted(brought_by("polyad", frozenset({"dev"})).items()):
        print("==".join(pair))
