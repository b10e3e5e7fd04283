"""Hostile files get their answer: one sentence, in bounded memory and time, and nothing else read.

`python -m attacks --trace` tries the same cases under strace.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attacks.cases import kinds

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize("kind", kinds())
def test_hostile_files(kind):
    command = [sys.executable, "-m", "attacks", "--warm", "--only", f"{kind}/"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 passed" not in done.stdout
