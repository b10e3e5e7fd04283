"""What all tests share: the tiers, and what only some systems have.

`make test` runs every test but the slow ones; `make test-all` runs those as well. A test is slow if
it, its module or its folder says so, or if it is one of many cases of one function: the first tier
takes `CASES` of them, spread over the whole list, unless it is marked ``every_case``.
"""

import os
import signal
from collections import defaultdict
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).parent
CASES = 5
# Hostile files, faults, long ways and what the published pages say: folders and files as a whole.
SLOW = ("attacks", "benchmarks", "faults", "real", "site")


def pytest_configure():
    """Let Ctrl+C interrupt what tests start, also where this process was told to ignore it.

    Under nohup, in a shell's background job and on some CI runners SIGINT is ignored, and children
    inherit that. A handler of Python's own is not inherited: they begin with the default one.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    for item in items:
        if os.name != "posix" and (item.get_closest_marker("unix") or _below(item, "faults")):
            reason = "needs what only Linux and macOS have"
            item.add_marker(pytest.mark.skip(reason=reason))
        if any(_below(item, place) for place in SLOW):
            item.add_marker(pytest.mark.slow)
    for cases in _functions(items):
        for item in _spread(cases)[CASES:]:
            item.add_marker(pytest.mark.slow)


def _below(item, place):
    return item.path.is_relative_to(TESTS / place)


def _functions(items):
    """Return the quick cases of each function that may be thinned."""
    functions = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow") and not item.get_closest_marker("every_case"):
            functions[item.nodeid.partition("[")[0]].append(item)
    return functions.values()


def _spread(cases):
    """Return the cases in an order that has nothing to do with that of their parameters."""
    return sorted(cases, key=lambda item: crc32(item.name.encode()))
