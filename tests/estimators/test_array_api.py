"""scikit-learn's array API checks, in a process where SCIPY_ARRAY_API is set before scipy loads."""

import os
import subprocess
import sys

import pytest

CHECKS = """
from unittest import SkipTest
from sklearn.utils.estimator_checks import estimator_checks_generator
from polyad import RankRClassifier, RankRRegressor

for estimator in (RankRClassifier(hidden=10), RankRRegressor(hidden=10)):
    for own, check in estimator_checks_generator(estimator):
        if "array_api" not in check.func.__name__:
            continue
        result = "passed"
        try:
            check(own)
        except SkipTest:  # a library or a device that is not there
            continue
        except Exception as error:
            result = str(error)
        print(type(own).__name__, check.keywords.get("array_namespace"), result, sep="|")
"""


@pytest.fixture(scope="module")
def results():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("|") for line in done.stdout.splitlines()]


def test_all_checks_pass(results):
    assert [row for row in results if row[2] != "passed"] == []


@pytest.mark.parametrize("name", ["RankRClassifier", "RankRRegressor"])
def test_dispatch_changes_nothing_for_numpy_arrays(results, name):
    assert [name, "numpy", "passed"] in results
