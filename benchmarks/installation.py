"""How much an installation of polyad weighs: packages and megabytes in fresh environments.

python -m benchmarks.installation   # prints a table

For each set of extras a new environment is made, and the packages that it brings along are
installed, in the versions that are installed here. torch is left out, since what it weighs is
decided by the build that is chosen; what torch brings along has a line of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
INSTALLATIONS = {
    "polyad": "",
    "polyad[scene]": "scene",
    "polyad[all]": "all",
}


def main() -> None:
    of_torch = closure(needs_of("torch")) | {"torch"}
    print("| installation, without torch | packages | MB | MB without bytecode |")
    print("|---|---:|---:|---:|")
    for name, extra in INSTALLATIONS.items():
        packages = closure(own_needs(extra), without={"torch"})
        print(f"| `{name}` | {len(packages) + 1} | {weigh(packages)} |", flush=True)
    more = of_torch - closure(own_needs(""), without={"torch"}) - {"torch"}
    print(f"| what torch brings along beside these | {len(more)} | {weigh(more, False)} |")


def own_needs(extra: str) -> list[Requirement]:
    """Return what polyad asks for with an extra, other extras of ours resolved."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines, waiting = list(project["dependencies"]), [extra] if extra else []
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            if line.startswith("polyad["):
                waiting += re.findall(r"[\w-]+", line)[1:]
            else:
                lines.append(line)
    return [Requirement(line) for line in lines]


def needs_of(name: str, extras: Iterable[str] = ()) -> list[Requirement]:
    needs = [Requirement(line) for line in distribution(name).requires or []]
    asked = [{"extra": e} for e in (*extras, "")]
    return [n for n in needs if n.marker is None or any(n.marker.evaluate(e) for e in asked)]


def closure(needs: Iterable[Requirement], without: Iterable[str] = ()) -> set[str]:
    """Return the names of all packages that come along, without those of ``without``."""
    found: set[str] = set()
    waiting = list(needs)
    while waiting:
        need = waiting.pop()
        name = re.sub(r"[-_.]+", "-", need.name).lower()
        if name in found or name in without:
            continue
        try:
            more = needs_of(name, need.extras)
        except PackageNotFoundError:  # of another platform
            continue
        found.add(name)
        waiting += more
    return found


def weigh(packages: set[str], with_polyad: bool = True) -> str:
    """Install packages into a new environment; return its megabytes with and without bytecode."""
    pins = [f"{p}=={distribution(p).version.partition('+')[0]}" for p in sorted(packages)]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        python = Path(folder) / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "install"]
        subprocess.run([*pip, "--no-deps", *pins], check=True)
        if with_polyad:
            subprocess.run([*pip, "--no-deps", str(ROOT)], check=True)
        (packages_folder,) = Path(folder).glob("lib/python*/site-packages")
        sizes = {p: p.stat().st_size for p in packages_folder.rglob("*") if p.is_file()}
    source = sum(size for p, size in sizes.items() if p.suffix != ".pyc")
    return f"{sum(sizes.values()) / 1e6:.0f} | {source / 1e6:.0f}"


if __name__ == "__main__":
    main()
