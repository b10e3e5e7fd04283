"""A newcomer clones the repository and types what README shows: `make demo`, then `make test`.

The environment is the one that runs this test, so nothing is installed, and of `make test` the
checks are run that read files of the tree: the demonstration's outputs and other files that lie
there must not disturb them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("git", "make")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)) or not (ROOT / ".git").exists(),
    reason="needs git, make and a clone",
)


@pytest.fixture
def clone(tmp_path):
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    return tmp_path / "clone"


def make(target, clone):
    environment = Path(sys.executable).parents[1]
    ready = [word for name in (".scene", ".ready") for word in ("-o", environment / name)]
    words = ["make", *ready, f"VENV={environment}", target]
    done = subprocess.run(words, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_checks_pass_after_the_demonstration_and_beside_a_users_own_files(clone):
    assert "overall accuracy" in make("demo", clone)
    assert (clone / "polyad-demo/report.html").exists()
    for name in ("notes.md", "mine.py", "map.tif", "second-environment/lib/module.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(f"import  os;{'t'}eh=1\n")  # misspelled
    make("ruff", clone)
    make("spelling", clone)
