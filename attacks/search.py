"""A search for inputs that polyad does not answer as it promises, guided by coverage.

python -m attacks.search                            # ten minutes over all targets
python -m attacks.search --seconds 7200             # two hours
python -m attacks.search --only envi labels-csv     # some targets
python -m attacks.search --again attacks/found/envi-0a1b2c   # what one finding does

Each target runs in a process of its own, under libFuzzer by way of atheris, from the corpus of the
repository and from good files made on the spot. What it must not do: raise anything but polyad's
errors, say more than one sentence, warn in another's name, take more than LIMIT_MB of memory or
PATIENCE seconds, or end the process. An input that did ends the search of its target and is put
into ``attacks/found`` with what libFuzzer said.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attacks.targets import Target

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
WORK, FOUND = HERE / "work", HERE / "found"  # not kept by git
LIMIT_MB = 1200  # of the whole process, torch and the fuzzer's own tables included
GROWTH = 400_000_000  # bytes that one input may take, with a budget of 20 MB; torch comes once
PATIENCE = 60  # seconds for one input, on a busy machine
MOST_BYTES = 1 << 16  # of one input


def main() -> None:
    """Search for as long as was asked; exit code 1 if something was found."""
    parser = argparse.ArgumentParser(
        "python -m attacks.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="for all targets together")
    parser.add_argument("--only", nargs="*", default=[], metavar="TARGET")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try one finding again")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _search_here(options.child, options.seconds)
        return
    from attacks.targets import TARGETS

    if options.again:
        target = TARGETS[options.again.name.rpartition("-")[0]]
        print(fault(target, options.again.read_bytes()) or "held")
    else:
        names = options.only or list(TARGETS)
        sys.exit(sum(_search(name, options.seconds / len(names)) for name in names) > 0)


def _search(name: str, seconds: float) -> bool:
    """Search one target in a process of its own; return whether something was found."""
    FOUND.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "attacks.search", "--child", name, "--seconds", str(seconds)]
    with (FOUND / f"{name}.log").open("w") as log:
        code = subprocess.run(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=HERE.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=seconds + 10 * PATIENCE,
        ).returncode  # fmt: skip
    print(f"{name:16s} {f'a finding, see {log.name}' if code else 'held'}", flush=True)
    return code != 0


def _search_here(name: str, seconds: float) -> None:
    import atheris

    with atheris.instrument_imports(include=["polyad"]):
        from attacks.targets import TARGETS, changed

        target = TARGETS[name]
        seeds = target.seeds()
        for seed in seeds:  # imports what it takes, so that all of it is watched
            fault(target, seed)
    work, corpus = WORK / name, CORPUS / name  # work: what was reached before
    for folder in (work, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(seeds):
        (work / f"seed-{index}").write_bytes(seed)

    def one(data: bytes) -> None:
        if (finding := fault(target, data)) is not None:
            raise AssertionError(finding[1])

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        new = changed(target, data, random.Random(seed))
        return new if new is not None and len(new) <= most else atheris.Mutate(data, most)

    arguments = [
        sys.argv[0], f"-max_total_time={seconds:.0f}", f"-timeout={PATIENCE}",
        f"-rss_limit_mb={LIMIT_MB}", f"-max_len={MOST_BYTES}", f"-artifact_prefix={FOUND}/{name}-",
        "-print_final_stats=1", str(work), str(corpus),
    ]  # fmt: skip
    atheris.Setup(arguments, one, custom_mutator=mutator)
    atheris.Fuzz()


def fault(target: Target, data: bytes) -> tuple[str, str] | None:
    """Return what is wrong with the answer to ``data``: a short key and a text; None if nothing."""
    from attacks.inside import taken
    from attacks.targets import Uninteresting
    from polyad.errors import PolyadError
    from polyad.text import printable_sentence

    before = taken()["peak_bytes"]
    folder_of_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=folder_of_memory) as folder, _quiet():
        try:
            target.attempt(data, Path(folder))
        except Uninteresting:
            return None
        except PolyadError as error:
            sentence = printable_sentence(str(error))  # as the terminal gets it
            if len(sentence) > 1000:
                return f"long {type(error)}", f"not one sentence: {sentence!r}"
        except Exception as error:
            return str(type(error)), "".join(traceback.format_exception(error))
    grown = taken()["peak_bytes"] - before
    return ("memory", f"{grown / 1e6:.0f} MB more") if grown > GROWTH else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let polyad warn, and take any other warning for an error."""
    from rasterio.errors import NotGeoreferencedWarning

    from polyad.errors import PolyadWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Use `@` matmul")
        for kind in (PolyadWarning, NotGeoreferencedWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield


if __name__ == "__main__":
    main()
