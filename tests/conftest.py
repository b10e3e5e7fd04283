"""What all tests share: the tiers, and what only some systems have.

`make test` runs every test but the slow ones; `make test-all` runs those as well. A test is slow if
it, its module or its folder says so, or if it is one of many cases of one function: the first tier
takes `CASES` of them, spread over the whole list, unless it is marked ``every_case``.
"""

import os
import signal
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
CASES = 2
SLOW = (  # folders and files as a whole
    # hostile files, faults and kills
    "attacks/*",
    "faults/*",
    "*hostile*",
    "estimators/test_odd_arguments.py",
    "scene/map/test_odd_scenes.py",
    "scene/read/test_readers_parts.py",
    "scene/read/test_readers_remote.py",
    "scene/read/test_reference_systems.py",
    "scene/read/test_zarr_store.py",
    # clusters
    "distributed/*",
    "journeys/test_cluster_user.py",
    # the paper's other models, what published pages and records say, examples, notebooks, the site
    "benchmarks/*",
    "experiments/test_baselines.py",
    "experiments/test_reproduce.py",
    "journeys/test_notebooks.py",
    "site/*",
    "test_examples.py",
    # other people's data and processes without this one's imports
    "real/*",
    "test_extras.py",
)


# By default an example that takes 0.2 s fails, as does a slow draw of examples
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


def pytest_configure():
    """Let Ctrl+C interrupt what tests start, also where this process was told to ignore it.

    Under nohup, in a shell's background job and on some CI runners SIGINT is ignored, and children
    inherit that. A handler of Python's own is not inherited: they begin with the default one.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep what tests cache, also in commands that they start, out of the user's cache folder."""
    os.environ["POLYAD_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def pytest_collection_modifyitems(items):
    for item in items:
        if os.name != "posix" and (
            item.get_closest_marker("unix") or _place(item).startswith("faults")
        ):
            reason = "needs what only Linux and macOS have"
            item.add_marker(pytest.mark.skip(reason=reason))
        if any(fnmatch(_place(item), pattern) for pattern in SLOW):
            item.add_marker(pytest.mark.slow)
    for cases in _functions(items):
        for item in _spread(cases)[CASES:]:
            item.add_marker(pytest.mark.slow)


def _place(item):
    """Return the path of a test's file below this folder; doctests have another."""
    return os.path.relpath(item.path, TESTS)


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
