"""Run a case as a user would, and hold the outcome against what is promised."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from attacks import formats, inside
from attacks.cases import BUDGET, EITHER, SECRET, Case

ROOT = Path(__file__).parents[1]
ALLOWED_ABOVE_BUDGET = 500_000_000  # bytes: Python, its libraries and ours
PATIENCE = 600  # seconds until a command counts as hanging, on however busy a machine
MOST_CPU = 30.0  # seconds of computing; a good file takes 1 to 3, imports included
_WORD = "for no one's eyes 7f3a"


@dataclass(frozen=True)
class Outcome:
    """What a command did with a hostile file.

    Attributes
    ----------
    case : Case
    command : str
        Its arguments.
    code : int or None
        Exit code; None if it hung.
    said : str
        What it wrote to the terminal, both streams.
    peak_bytes, cpu_seconds : float
    changed : list of str
        Files in its folder that it changed, removed or left there.
    outside : list of str
        Files opened elsewhere and sockets made; empty unless traced.
    """

    case: Case
    command: str
    code: int | None
    said: str
    peak_bytes: int
    cpu_seconds: float
    changed: list[str]
    outside: list[str]

    @property
    def faults(self) -> list[str]:
        """What of it is against the promise; empty if nothing."""
        wanted = 0 if self.case.says is None else 2
        wanted = 0 if self.case.says == EITHER and self.code == 0 else wanted
        found = []
        if self.code != wanted:
            found.append(f"exit code {self.code}, expected {wanted}")
        if "Traceback" in self.said:
            found.append("a traceback")
        if self.case.says and not re.search(self.case.says, self.said):
            found.append(f"does not say {self.case.says!r}")
        if wanted == 2 and self.said.count("\n") > 1:
            found.append("more than one sentence")
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", self.said):
            found.append("control characters on the terminal")
        if _WORD in self.said:
            found.append("shows what stands in an outside file")
        if wanted == 2:
            found += [f"changed {name}" for name in self.changed]
        if self.peak_bytes > BUDGET + ALLOWED_ABOVE_BUDGET:
            found.append(f"{self.peak_bytes / 1e6:.0f} MB of memory")
        if self.cpu_seconds > MOST_CPU:
            found.append(f"{self.cpu_seconds:.0f} s of computing")
        return found + self.outside


def attempt(case: Case, folder: Path, known: Set[str] | None = None, warm: bool = False) -> Outcome:
    """Make the case's file in ``folder`` and run its command.

    Parameters
    ----------
    case : Case
    folder : Path
        Empty.
    known : set of str, optional
        What commands open with a good file too (`opened_by_good_files`); traces this one if given.
    warm : bool
        Fork the command from this process, which has imported what it needs, instead of starting
        Python anew.
    """
    work = folder / "work"
    work.mkdir()
    (folder / SECRET).write_text(_WORD + "\n")
    arguments = case.make(work)
    if arguments[0] == "train":  # what is attacked are the readers; best has libraries of its own
        arguments = ["train", "--preset", "fast", *arguments[1:]]
    before = _files(work)
    report, trace = work / ".taken.json", folder / "trace.txt"
    command = [sys.executable, "-m", "attacks.inside", str(report), *arguments]
    if known is not None:
        watched = "trace=%file,socket,connect"
        command = ["strace", "-f", "-qq", "-e", watched, "-o", str(trace), *command]
    code, said = _fork([str(report), *arguments], work) if warm else _run(command, work)
    said = said.replace(f"{work}/", "")  # a folder that nobody will see again
    after = _files(work)
    taken = json.loads(report.read_text()) if report.exists() else {}
    strange = [] if known is None else outside(trace.read_text(errors="replace"), work, known)
    if arguments[0] == "label":  # it reserves its own port first
        strange = [what for what in strange if not what.startswith("socket(AF_INET, SOCK_STREAM")]
    return Outcome(
        case,
        " ".join(arguments),
        code,
        said,
        int(taken.get("peak_bytes") or 0),
        float(taken.get("cpu_seconds") or 0),
        sorted(name for name in before | after if before.get(name) != after.get(name)),
        strange,
    )


def _files(work: Path) -> dict[str, tuple[int, ...]]:
    """Return what tells whether a file is still the same, by name; hidden ones are ours."""
    found = {}
    for path in work.rglob("*"):
        name = str(path.relative_to(work))
        if not name.startswith("."):
            about = path.lstat()
            moment = 0 if path.is_dir() else about.st_mtime_ns
            found[name] = (about.st_mode, about.st_ino, about.st_size, moment)
    return found


def _environment(work: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "HOME": str(work)}


def _run(command: list[str], work: Path) -> tuple[int | None, str]:
    environment = _environment(work)
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, timeout=PATIENCE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def _fork(arguments: list[str], work: Path) -> tuple[int | None, str]:
    said = work / ".said.txt"
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        stream = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.chdir(work)
        os.environ.update(_environment(work))
        os._exit(inside.run(*arguments))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return (None if code == -signal.SIGALRM else code), said.read_text(errors="replace")


def outside(trace: str, work: Path, known: Set[str]) -> list[str]:
    """Return what a traced command opened that lies neither in its folder nor in ``known``."""
    return sorted({what for what in touched(trace, work) if what not in known})


def touched(trace: str, work: Path) -> set[str]:
    """Return the files that were really opened outside ``work`` and the sockets made.

    Python's own modules and the system's libraries do not count.
    """
    inside = tuple(f"{os.path.realpath(p)}/" for p in (work, ROOT, sys.prefix, sys.base_prefix))
    found = set()
    for line in trace.splitlines():
        if (socket := re.search(r"\b(socket|connect)\(.*", line)) is not None:
            found.add(socket[0][:100])
        opened = re.search(r'\bopen(?:at2?)?\((?:[^,"]*, )?"((?:[^"\\]|\\.)*)".*= \d+$', line)
        if opened is None:
            continue
        path = os.path.realpath(work / opened[1])
        if not f"{path}/".startswith(inside):
            found.add(re.sub(r"(?<=/proc/)\d+(?=/)|(?<=/shm/sem\.)\w+", "*", path))
    return found


def opened_by_good_files() -> set[str]:
    """Return the files and sockets that commands touch with good files: others are holes."""
    found: set[str] = set()
    for name in formats.WRITERS:

        def make(folder: Path, name: str = name) -> list[str]:
            return formats.good(folder, name)

        with tempfile.TemporaryDirectory() as folder:
            outcome = attempt(Case("good", name, make, None), Path(folder), known=set())
            if outcome.code != 0:
                raise RuntimeError(f"a good file was refused: {outcome.said}")
            found |= touched((Path(folder) / "trace.txt").read_text(), Path(folder) / "work")
    return found
