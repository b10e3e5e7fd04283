"""What all tests share."""

import os

import pytest


def pytest_collection_modifyitems(items):
    """Skip tests of named pipes, users, permissions, limits and forks where there are none."""
    if os.name != "posix":
        skip = pytest.mark.skip(reason="needs what only Linux and macOS have")
        for item in items:
            if item.get_closest_marker("unix") or "faults" in item.path.parts:
                item.add_marker(skip)
