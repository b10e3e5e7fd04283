"""A search for inputs that polyad does not answer as it promises, guided by coverage.

python -m attacks.search                            # ten minutes over all targets
python -m attacks.search --seconds 7200             # two hours
python -m attacks.search --only zarr-tree hdf5      # some targets
python -m attacks.search --again attacks/found/zarr-tree-0a1b2c.bin   # what one finding does

Each target runs in a process of its own, under libFuzzer by way of atheris, from the corpus of the
repository and from good files made on the spot. What it must not do: raise anything but polyad's
errors, say more than one sentence, warn in another's name, take more than LIMIT_MB of memory or
PATIENCE seconds, or end the process. What did is put into ``attacks/found`` with its traceback; the
search goes on. Time, tries and findings are added up in ``attacks/search.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CORPUS, RECORD = HERE / "corpus", HERE / "search.json"
WORK, FOUND = HERE / "work", HERE / "found"  # not kept by git
LIMIT_MB = 1200  # of the whole process, torch and the fuzzer's own tables included
GROWTH = (
    400_000_000  # bytes that one input may take, with a budget of 20 MB; torch is imported once
)
PATIENCE = 60  # seconds for one input, on a busy machine
MOST_BYTES = 1 << 16  # of one input


def main() -> None:
    """Search for as long as was asked; exit code 1 if something was found."""
    options = _parser().parse_args()
    if options.child:
        _search_here(options.child, options.seconds)
    elif options.again:
        _again(options.again)
    else:
        sys.exit(_search(options.only, options.seconds))


def _search(only: list[str], seconds: float) -> int:
    from attacks.targets import TARGETS

    names = only or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        sys.exit(f"no such target: {', '.join(sorted(unknown))}; known are {', '.join(TARGETS)}")
    begun, before = time.monotonic(), set(_findings())
    for index, name in enumerate(names):
        left = seconds - (time.monotonic() - begun)
        _search_target(name, max(10.0, left / (len(names) - index)))
    found = sorted(set(_findings()) - before)
    print(f"{len(found)} findings{':' if found else ''} {' '.join(p.name for p in found)}")
    return 1 if found else 0


def _search_target(name: str, seconds: float) -> None:
    """Run one target in processes of its own until its time is over."""
    FOUND.mkdir(exist_ok=True)
    end, tries, reached, failures = time.monotonic() + seconds, 0, 0, 0
    spent = 0.0
    while (left := end - time.monotonic()) > 5 and failures < 20:
        begun = time.monotonic()
        code, log = _child(name, left)
        spent += time.monotonic() - begun
        tries += max((int(n) for n in re.findall(r"^#(\d+)", log, re.M)), default=0)
        reached = max((int(n) for n in re.findall(r"cov: (\d+)", log)), default=reached)
        if code:
            failures += 1
            _keep_crash(name, log)
    findings = [p.name for p in _findings() if p.name.startswith(f"{name}-")]
    _add_up(name, spent, tries)
    print(f"{name:16s} {spent:6.0f} s {tries:9,d} tries  {reached:6,d} reached  {findings or ''}")
    sys.stdout.flush()


def _child(name: str, seconds: float) -> tuple[int, str]:
    command = [sys.executable, "-m", "attacks.search", "--child", name, "--seconds", str(seconds)]
    with tempfile.TemporaryFile("w+") as log:
        try:
            done = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=HERE.parent,
                env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=seconds + 3 * PATIENCE,
            )  # fmt: skip
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -1
        log.seek(0)
        return code, log.read()


def _keep_crash(name: str, log: str) -> None:
    """Name what libFuzzer kept of an input that took the process, the time or the memory."""
    kept = re.findall(r"Test unit written to (\S+)", log)
    for path in map(Path, kept):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        path.rename(FOUND / f"{name}-{digest}.bin")
        (FOUND / f"{name}-{digest}.txt").write_text(log[-8000:])
    if not kept and "INITED" in log:  # else it never began, on too busy a machine
        digest = hashlib.sha256(log[-500:].encode()).hexdigest()[:8]
        (FOUND / f"{name}-{digest}.txt").write_text(log[-8000:])


def _search_here(name: str, seconds: float) -> None:
    import atheris

    with atheris.instrument_imports(include=["polyad"]):
        from attacks import targets

        target = targets.TARGETS[name]
        seeds = target.seeds()
        for seed in seeds:  # imports what it takes, so that all of it is watched
            fault(target, seed)

    work = WORK / name  # what was reached before: the next search goes on from there
    work.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(seeds):
        (work / f"seed-{index}").write_bytes(seed)
    known: set[str] = set()

    def one(data: bytes) -> None:
        finding = fault(target, data)
        if finding is not None:
            key, text = finding
            if key not in known:
                known.add(key)
                digest = hashlib.sha256(key.encode()).hexdigest()[:8]
                (FOUND / f"{name}-{digest}.bin").write_bytes(data)
                (FOUND / f"{name}-{digest}.txt").write_text(text)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        new = targets.changed(target, data, random.Random(seed))
        new = atheris.Mutate(data, most) if new is None else new
        return new if len(new) <= most else atheris.Mutate(data, most)

    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0], f"-max_total_time={seconds:.0f}", f"-timeout={PATIENCE}",
        f"-rss_limit_mb={LIMIT_MB}", f"-max_len={MOST_BYTES}", f"-artifact_prefix={FOUND}/",
        "-print_final_stats=1", "-verbosity=1", str(work), str(CORPUS / name),
    ]  # fmt: skip
    atheris.Setup(arguments, one, custom_mutator=mutator)
    atheris.Fuzz()


def fault(target: Any, data: bytes) -> tuple[str, str] | None:
    """Return what is wrong with the answer to ``data``: a short key and a text; None if nothing."""
    from attacks.inside import taken
    from attacks.targets import Uninteresting
    from polyad.errors import PolyadError, PolyadWarning
    from polyad.text import printable_sentence

    before = taken()["peak_bytes"]
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder, _quiet(PolyadWarning):
        try:
            target.attempt(data, Path(folder))
        except Uninteresting:
            return None
        except PolyadError as error:
            sentence = printable_sentence(str(error))  # as the terminal gets it
            if len(sentence) > 1000:
                return f"long {type(error)} {_place(error)}", f"not one sentence: {sentence!r}"
        except Exception as error:
            return f"{type(error)} {_place(error)}", "".join(traceback.format_exception(error))
    grown = taken()["peak_bytes"] - before
    return ("memory", f"{grown / 1e6:.0f} MB more") if grown > GROWTH else None


@contextlib.contextmanager
def _quiet(ours: type[Warning]) -> Any:
    """Let polyad warn, and take any other warning for an error."""
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Use `@` matmul")
        for kind in (ours, NotGeoreferencedWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _place(error: BaseException) -> str:
    """Return the innermost line of polyad that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/polyad/" in f.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _again(path: Path) -> None:
    from attacks.targets import TARGETS

    name = path.stem.rpartition("-")[0]
    finding = fault(TARGETS[name], path.read_bytes())
    print("held" if finding is None else finding[1])


def _findings() -> list[Path]:
    return sorted(FOUND.glob("*.txt"))


def _add_up(name: str, seconds: float, tries: int) -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    row = record.setdefault(name, {"seconds": 0, "tries": 0})
    row["seconds"] += round(seconds)
    row["tries"] += tries
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attacks.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="for all targets together")
    parser.add_argument("--only", nargs="*", default=[], metavar="TARGET")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try one finding again")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
