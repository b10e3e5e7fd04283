"""Write locks/: every package that polyad is tested with, its version and its wheels' checksums.

Run by `make lock`, which brings uv along. Without ``--upgrade`` a version that is locked stays.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
TORCH = ROOT / "locks" / "torch.txt"
# A lock, and the minor versions of Python 3 that it serves
PYTHONS = {"py311": (11,), "py312": (12, 13, 14)}
# A file, the one that it adds to, and what uv is asked for
FILES: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "scene": (None, ("--extra=scene",)),
    "all": ("scene", ("--extra=all",)),
    "dev": ("all", ("--extra=all", "--group=dev")),
    "bench": ("dev", ("--extra=all", "--group=dev", "--group=bench")),
    "docs": ("dev", ("--extra=all", "--group=dev", "--group=docs")),
    "fuzz": ("dev", ("--extra=all", "--group=dev", "--group=fuzz")),
    "release": ("dev", ("--extra=all", "--group=dev", "--group=release")),
}
HEAD = """\
# Written by `make lock` for Python {pythons}; torch is in locks/torch.txt
# pip install --no-deps --require-hashes -r locks/{lock}/{file}.txt
"""


def is_of_torch(name: str) -> bool:
    """Whether a package is torch, or comes with its GPU builds alone."""
    return name in {"torch", "triton"} or name.startswith(("nvidia-", "cuda-"))


def serves(tag: Tag, minors: tuple[int, ...]) -> bool:
    """Whether a wheel runs on one of the Pythons, on Linux (glibc), macOS or Windows (64 bits)."""
    exact = {f"cp3{minor}" for minor in minors}
    stable = {f"cp3{minor}" for minor in range(2, max(minors) + 1)}
    python = (
        tag.interpreter.startswith("py3")
        or (tag.interpreter in exact and tag.abi in {*exact, "none"})
        or (tag.interpreter in stable and tag.abi == "abi3")
    )
    return python and bool(
        re.fullmatch(
            r"any|manylinux.*_(x86_64|aarch64)|macosx_.*_(x86_64|arm64|universal2)|win_(amd64|arm64)",
            tag.platform,
        )
    )


def checksums(package: dict[str, Any], minors: tuple[int, ...]) -> list[str]:
    """Return the checksums of a package's wheels, or of its source archive if it has none."""
    wheels = [
        file["hashes"]["sha256"]
        for file in package.get("wheels", [])
        if any(serves(tag, minors) for tag in parse_wheel_filename(Path(file["url"]).name)[3])
    ]
    if not wheels and "sdist" not in package:
        raise SystemExit(f"{pin(package)} has no wheel for Python 3.{minors[0]}; bound its version")
    return sorted(wheels or [package["sdist"]["hashes"]["sha256"]])


def fit_marker(package: dict[str, Any], minors: tuple[int, ...]) -> bool:
    """Whether a lock has a use for a package; a marker that always holds there is left out."""
    marker = Marker(package.get("marker", "python_version > '3'"))
    holds = [
        marker.evaluate(
            {
                "python_version": f"3.{minor}",
                "python_full_version": f"3.{minor}.{patch}",
                "sys_platform": platform,
                "platform_system": system,
                "os_name": "nt" if platform == "win32" else "posix",
                "platform_machine": machine,
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }
        )
        for minor in minors
        for patch in (0, 99)
        for platform, system in (("linux", "Linux"), ("darwin", "Darwin"), ("win32", "Windows"))
        for machine in ("x86_64", "arm64")
    ]
    if all(holds):
        package.pop("marker", None)
    return any(holds)


def pin(package: dict[str, Any]) -> str:
    """Return a package's name, version and marker as pip reads them."""
    marker = f" ; {package['marker']}" if "marker" in package else ""
    return f"{package['name']}=={package['version']}{marker}"


def pins(folder: Path) -> Iterator[str]:
    """Return what a lock names, without checksums."""
    for file in folder.glob("*.txt"):
        yield from re.findall(r"^(\w.*?)(?: \\)?$", file.read_text(encoding="utf-8"), re.M)


def resolve(
    minors: tuple[int, ...], options: Iterable[str], constraints: Iterable[str]
) -> list[dict[str, Any]]:
    """Return all packages that uv finds to be needed, those of torch's builds left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build.in").write_text("\n".join(project["build-system"]["requires"]))
        (folder / "constraints.txt").write_text(TORCH.read_text() + "\n".join(constraints))
        words = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--universal",
            "--generate-hashes",
            "--no-header",
        ]
        words += [
            f"--python-version=3.{minors[0]}",
            "-c",
            str(folder / "constraints.txt"),
            *options,
        ]
        words += ["-o", str(folder / "pylock.toml"), "pyproject.toml", str(folder / "build.in")]
        subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
        found = tomllib.loads((folder / "pylock.toml").read_text())["packages"]
    return [p for p in found if not is_of_torch(p["name"]) and fit_marker(p, minors)]


def write(lock: str, minors: tuple[int, ...], upgrade: bool) -> None:
    """Write the files of one lock; all of them agree on one version of each package."""
    folder = ROOT / "locks" / lock
    folder.mkdir(parents=True, exist_ok=True)
    everything = [option for _, options in FILES.values() for option in options]
    kept = [] if upgrade else sorted(set(pins(folder)))
    agreed = [pin(package) for package in resolve(minors, dict.fromkeys(everything), kept)]
    packages = {
        file: {(p["name"], p["version"]): p for p in resolve(minors, options, agreed)}
        for file, (_, options) in FILES.items()
    }
    for file, (base, _) in FILES.items():
        new = [p for key, p in packages[file].items() if not base or key not in packages[base]]
        text = HEAD.format(
            pythons=", ".join(f"3.{minor}" for minor in minors), lock=lock, file=file
        )
        text += f"-r {base}.txt\n" if base else ""
        for package in sorted(new, key=pin):
            hashes = [f"--hash=sha256:{digest}" for digest in checksums(package, minors)]
            text += " \\\n    ".join([pin(package), *hashes]) + "\n"
        (folder / f"{file}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for lock, minors in PYTHONS.items():
        write(lock, minors, upgrade="--upgrade" in sys.argv)
