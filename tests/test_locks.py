"""locks/ names all that is tested, with checksums: it can be installed again, and audited."""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted(p.name for p in (ROOT / "locks").iterdir() if p.is_dir())
TORCH = Requirement((ROOT / "locks/torch.txt").read_text(encoding="utf-8").splitlines()[-1])
HERE = "py311" if sys.version_info < (3, 12) else "py312"


def locked(lock, file):
    """Return what a file and those that it names hold: requirements, and checksums of each."""
    text = (ROOT / "locks" / lock / f"{file}.txt").read_text(encoding="utf-8")
    found = {}
    for base in re.findall(r"^-r (\w+)\.txt$", text, re.M):
        found |= locked(lock, base)
    for line in re.findall(r"^\w.*$", text.replace(" \\\n", ""), re.M):
        pin, *hashes = re.split(r" +--hash=sha256:", line)
        found[Requirement(pin)] = hashes
    return found


def asked(extra=None, group=None):
    """Return the project's requirements of an extra and of a group, our own extras resolved."""
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    lines += PROJECT["dependency-groups"].get(group, [])
    waiting = [extra] if extra else []
    while waiting:
        for line in extras[waiting.pop()]:
            if line.startswith("polyad["):
                waiting += re.findall(r"[\w-]+", line)[1:]
            else:
                lines.append(line)
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("file", ["scene", "all", *PROJECT["dependency-groups"]])
def test_a_lock_has_a_version_that_is_allowed_of_all_that_the_project_asks_for(lock, file):
    versions = {(p.name, str(p.specifier)[2:]) for p in [*locked(lock, file), TORCH]}
    pythons = {"python_version": lock[2] + "." + lock[3:]}
    needs = asked("scene" if file == "scene" else "all", file)
    needs = [n for n in needs if n.marker is None or n.marker.evaluate(pythons)]
    missing = [
        str(need)
        for need in needs
        if not any(
            canonicalize_name(need.name) == name and found in need.specifier
            for name, found in versions
        )
    ]
    assert missing == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_one_version_and_checksums_and_no_address(lock):
    for file in (ROOT / "locks" / lock).glob("*.txt"):
        assert "//" not in file.read_text(encoding="utf-8")
        for pin, hashes in locked(lock, file.stem).items():
            assert re.fullmatch(r"==\d[\w.]*", str(pin.specifier)), pin
            assert hashes, f"{pin} has no checksum"
            assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in hashes), pin


def test_packages_that_are_installed_are_those_of_the_lock():
    if version("torch").partition("+")[0] not in TORCH.specifier:
        pytest.skip("not the tested environment: it was not installed from locks/")
    pins = [p for p in locked(HERE, "dev") if p.marker is None or p.marker.evaluate()]
    others = {}
    for pin in pins:
        try:
            if version(pin.name) not in pin.specifier:
                others[pin.name] = version(pin.name)
        except PackageNotFoundError:
            others[pin.name] = None
    assert others == {}


def test_torch_is_locked_without_a_build_so_that_any_build_of_it_fits():
    assert re.fullmatch(r"torch==[\d.]+", str(TORCH))
    named = {p.name for lock in LOCKS for p in locked(lock, "dev")}
    assert not any(re.match(r"torch$|triton$|nvidia-|cuda-", name) for name in named)
