"""Run `polyad` beside QGIS: its lines as they come, its progress, its errors, and its early end.

Nothing of QGIS is imported here.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

GRACE = 10.0  # seconds for polyad to remove what it has half written
INTERRUPTED = (130, -signal.SIGINT, -9)  # exit codes: by polyad itself, before it began, by force
_AGAIN = 3.0  # seconds until the wish is repeated; an import may have swallowed the first one
_POLL = 0.1  # seconds between two looks at whether the user wants to cancel
_SILENT = 20  # polls without a line after which a command that has ended has said everything
_BAR = re.compile(r"(?P<what>[\w -]+):\s+(?P<percent>\d{1,3})%\|")


class Ended(NamedTuple):
    """How a command ended: its exit code, its lines on stderr, and whether it was interrupted."""

    code: int
    errors: list[str]
    interrupted: bool


class Line(NamedTuple):
    """One line of a command; ``stream`` is "out" or "err"."""

    stream: str
    text: str


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    on_line: Callable[[Line], None],
    canceled: Callable[[], bool],
    *,
    grace: float = GRACE,
) -> Ended:
    """Run a command to its end, or until ``canceled`` says so.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; no shell sees them.
    environment : mapping
    on_line : callable
        Gets each line as it is printed, in this thread; a bar counts as a line at each redraw.
    canceled : callable
        Asked ten times a second.
    grace : float
        Seconds between the wish to end and the end by force.
    """
    process = _start(command, environment)
    lines: queue.Queue[Line | None] = queue.Queue()
    for stream, pipe in (("out", process.stdout), ("err", process.stderr)):
        threading.Thread(target=_read, args=(pipe, stream, lines), daemon=True).start()
    errors: list[str] = []
    stopped, unfinished, silent = False, 2, 0
    try:
        # A browser that the labeling page has opened may keep the pipes: silence ends it too
        while unfinished and silent < _SILENT:
            if not stopped and canceled() and process.poll() is None:
                stopped = True
                _stop(process, grace)
            try:
                line = lines.get(timeout=_POLL)
            except queue.Empty:
                silent += process.poll() is not None
                continue
            if line is None:
                unfinished -= 1
                continue
            if line.stream == "err" and progress(line.text) is None:
                errors.append(line.text)
            on_line(line)
        return Ended(process.wait(), errors, stopped)
    finally:
        if process.poll() is None:
            _stop(process, grace)


def progress(line: str) -> tuple[str, int] | None:
    """Return what a bar counts and its percent; None for a line that is no bar.

    Examples
    --------
    >>> progress("mapping:  40%|####      | 2/5 [00:01<00:02,  1.9tile/s]")
    ('mapping', 40)
    >>> progress("polyad: scene.hdr: no such file")
    """
    bar = _BAR.match(line)
    return None if bar is None else (bar["what"], min(100, int(bar["percent"])))


def warning(line: str) -> str | None:
    """Return the sentence of a warning; None for another line.

    Examples
    --------
    >>> warning("polyad: warning: 3 labels lie outside of the scene")
    '3 labels lie outside of the scene'
    """
    start = "polyad: warning: "
    return line[len(start) :] if line.startswith(start) else None


def error_sentence(ended: Ended) -> str:
    """Return why a command failed, as one message.

    That is Cancel, polyad's own sentence, what was wrong with the arguments, or the end of a
    traceback.

    Examples
    --------
    >>> lines = ["polyad: warning: few labels", "polyad: scene.hdr: no such file"]
    >>> error_sentence(Ended(2, lines, False))
    'scene.hdr: no such file'
    >>> error_sentence(Ended(2, ["Usage: polyad train", "Error: No such option: --layer"], False))
    'No such option: --layer; the polyad command may be older than this plugin, upgrade it'
    >>> error_sentence(Ended(-9, [], False))
    'polyad was ended from outside (signal 9)'
    >>> error_sentence(Ended(130, ["polyad: stopped"], True))
    'canceled; no partial files were left'
    >>> error_sentence(Ended(2, ["polyad: scene.hdr: no such file"], True))
    'scene.hdr: no such file'
    >>> error_sentence(Ended(1, ["Traceback", "RuntimeError: disk on fire"], False))
    'RuntimeError: disk on fire'
    """
    code, errors, interrupted = ended
    if interrupted and (code in INTERRUPTED or os.name == "nt"):
        force = "; polyad had to be ended by force" if code == -9 else ""
        return f"canceled; no partial files were left{force}"
    lines = [line.strip() for line in errors if line.strip() and warning(line) is None]
    for line in reversed(lines):
        if line.startswith("polyad: "):
            return line[len("polyad: ") :]
        if line.startswith("Error: "):
            old = "; the polyad command may be older than this plugin, upgrade it"
            return line[len("Error: ") :].rstrip(".") + (old if "No such" in line else "")
    if lines:
        return lines[-1]
    if code < 0:
        return f"polyad was ended from outside (signal {-code})"
    return f"polyad ended with exit code {code}"


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # In QGIS's own process group, so that Ctrl+C at its terminal ends both
    return subprocess.Popen(
        list(command), env=dict(environment), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows would show one
    )  # fmt: skip


def _read(pipe: BinaryIO, stream: str, lines: queue.Queue[Line | None]) -> None:
    """Put each line into the queue, also those that a carriage return ends; None at the end."""
    rest = b""
    with pipe:
        while piece := os.read(pipe.fileno(), 1 << 16):
            *whole, rest = re.split(rb"\r\n|\r|\n", rest + piece)
            for text in filter(None, whole):
                lines.put(Line(stream, text.decode(errors="replace")))
    if rest:
        lines.put(Line(stream, rest.decode(errors="replace")))
    lines.put(None)


def _stop(process: subprocess.Popen[bytes], grace: float) -> None:
    """Ask a command to end, as Ctrl+C does, and end it by force if it does not."""
    for patience in (min(_AGAIN, grace), grace):
        with suppress(ProcessLookupError):
            if os.name == "nt":  # knows no such wish; polyad removes half outputs at its next run
                process.terminate()
            else:
                process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return
    process.kill()
    process.wait()
