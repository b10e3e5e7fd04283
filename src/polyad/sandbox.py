"""Functions that read untrusted files run in a confined process.

`run` calls a function by name in a process with limits on memory, processor time and written
bytes, without network, and, where Linux has Landlock, with access to no file but those it is given.
If that process dies, the caller gets one clear error. A template process imports the libraries once
and is forked for every file; a fork serves all further requests for the same files, one at a time.
Requests and answers are a line of JSON followed by the raw bytes of its arrays.

On macOS there is no Landlock and no block on sockets, on Windows there are no limits on memory and
processor time either: what remains is a process that is ended when it takes too long.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import functools
import importlib
import json
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from polyad import errors
from polyad.errors import BudgetExceeded, PolyadError, PolyadWarning, SceneError

SLACK = 256 * 2**20  # bytes of address space beside the budget: what libraries take for themselves
PATIENCE = 10.0  # seconds on the clock for each of the processor: a file may block
_IDLE = 4  # processes kept for further requests
_LONGEST_LINE = 64 * 2**20  # bytes of JSON
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "GDAL_NUM_THREADS": "1", "GDAL_CACHEMAX": "64", "PROJ_NETWORK": "OFF",
    "GDAL_DRIVER_PATH": "disable", "HDF5_PLUGIN_PRELOAD": "::", "MALLOC_ARENA_MAX": "1",
}  # fmt: skip
_FOREIGN = ("GDAL", "OGR", "CPL", "SHAPE", "LIBKML", "SQLITE", "VSI", "AWS", "PYTHON", "HDF5")
_NO_MEMORY = re.compile(r"\b(?:m|c|re)?alloc(?:at|\b)|(?:out of|not enough) memory", re.I)
_SCRIPT = "import sys; sys.path[:] = {!r}; from polyad.sandbox import _serve; _serve()"


class Limits(NamedTuple):
    """What a call may take.

    Attributes
    ----------
    memory : int
        Bytes beside those of Python and its libraries.
    seconds : int
        Of the processor.
    written : int
        Bytes of each file that it writes into its scratch folder.
    """

    memory: int
    seconds: int = 15
    written: int = 0


def run(
    function: str,
    *arguments: Any,
    name: Path | str,
    limits: Limits,
    files: Sequence[Path] = (),
    scratch: Path | None = None,
    network: bool = False,
) -> Any:
    """Call a function in a confined process and return what it returns.

    Parameters
    ----------
    function : str
        ``"module:name"``.
    *arguments
        Numbers, text, paths, slices, arrays, and lists, tuples, dictionaries and dataclasses of
        these. The same holds for what the function returns.
    name : Path or str
        Of the file, for messages.
    limits : Limits
    files : sequence of Path
        The files and folders that it may read.
    scratch : Path, optional
        The only folder in which it may write.
    network : bool, default=False
        Whether it may use the network.

    Raises
    ------
    PolyadError
        As the function raised it.
    BudgetExceeded
        It took more memory than `limits` allow.
    SceneError
        The process died.
    RuntimeError
        The function raised anything else.
    """
    if _state.inside or not sys.executable:  # confined already, or Python is built into a program
        return _resolve(function)(*arguments)
    key = (tuple(map(_identity, files)), scratch and str(scratch.absolute()), network)
    process = _state.take(key, function)
    request = {"function": function, "limits": limits, "cwd": str(Path.cwd())}
    try:
        answer = process.ask(request | {"arguments": list(arguments)}, limits)
    except (OSError, EOFError, ValueError):
        process.end()
        raise SceneError(
            f"{name}: reading it took more than {limits.seconds} s of the processor, or crashed "
            "the library that reads it; the file is truncated, damaged or hostile, get it again "
            "from its source"
        ) from None
    except BaseException:  # interrupted: what it would answer is of no use to the next request
        process.end()
        raise
    _state.give_back(key, process)
    for text in answer["warnings"]:
        warnings.warn(text, PolyadWarning, stacklevel=3)
    if "error" not in answer:
        return answer["value"]
    kind, text = answer["error"]
    if kind == "MemoryError":
        raise BudgetExceeded(
            f"{name}: reading it takes more memory than the budget of {limits.memory / 1e6:,.0f} "
            "MB; raise --max-bytes (in Python, max_bytes), or convert the file to GeoTIFF or ENVI"
        )
    raise getattr(errors, kind)(text) if kind in errors.__all__ else RuntimeError(text)


def load(module: str) -> Any:
    """Import a large library where it is needed; what it maps does not count as memory taken."""
    if not _state.inside or module in sys.modules:
        return importlib.import_module(module)
    before = _address_space()
    _limit(sys.maxsize // 2, _state.limits)
    found = importlib.import_module(module)
    _state.base += _address_space() - before
    _limit(_state.base, _state.limits)
    return found


# The process that asks


def _identity(file: Path) -> tuple[str, int]:
    """Return a file's name and number: a file that replaces it needs a process of its own."""
    try:
        return str(file.absolute()), file.stat().st_ino
    except OSError:
        return str(file.absolute()), 0


class _Process:
    """A confined process, seen from outside."""

    def __init__(
        self, reading: IO[bytes], writing: IO[bytes], own: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.reading, self.writing, self.own = reading, writing, own
        self.pid = int(reading.readline()) if own is None else own.pid

    def ask(self, request: dict[str, Any], limits: Limits) -> Any:
        """Return the answer to a request; end the process if it takes far too long."""
        timer = threading.Timer(PATIENCE * limits.seconds, self.kill)
        timer.start()
        try:
            _send(self.writing, request)
            return _receive(self.reading, 4 * limits.memory + SLACK)
        finally:
            timer.cancel()

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    def end(self) -> None:
        self.kill()
        for file in (self.writing, self.reading):
            with suppress(OSError, ValueError):
                file.close()
        if self.own is not None:
            self.own.wait()


class _State:
    """The template process and its idle forks; each process of ours has its own."""

    def __init__(self) -> None:
        self.inside = False  # and, if so, the mapped bytes to begin with and the current limits
        self.base, self.limits, self.files = 0, Limits(0), list[Path]()
        self.lock = threading.Lock()
        self.template: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.idle: list[tuple[Any, _Process]] = []

    def take(self, key: Any, function: str) -> _Process:
        """Return an idle process that may read these files, or a new one."""
        with self.lock:
            for place, (other, process) in enumerate(self.idle):
                if other == key:
                    del self.idle[place]
                    return process
            return self._started(key, function)

    def give_back(self, key: Any, process: _Process) -> None:
        with self.lock:
            self.idle.append((key, process))
            surplus, self.idle = self.idle[:-_IDLE], self.idle[-_IDLE:]
        for _, old in surplus:
            old.end()

    def _started(self, key: Any, function: str) -> _Process:
        files = [name for name, _ in key[0]]
        about = {"files": files, "scratch": key[1], "network": key[2]}
        about["module"] = function.partition(":")[0]
        if not hasattr(os, "fork"):  # pragma: no cover - Windows: a process of its own
            own = _popen(subprocess.PIPE, subprocess.PIPE)
            process = _Process(own.stdout, own.stdin, own)  # type: ignore[arg-type]
            _send(process.writing, about)
            return process
        for _ in range(2):  # once more if the template has ended
            if self.control is None or self.template is None or self.template.poll() is not None:
                self.control, theirs = socket.socketpair()
                self.template = _popen(theirs.fileno(), subprocess.DEVNULL)
                theirs.close()
            ours, given = socket.socketpair()
            with suppress(BrokenPipeError), ours, given:
                socket.send_fds(self.control, [b"f"], [given.fileno()])
                reading, writing = ours.makefile("rb"), ours.makefile("wb")
                _send(writing, about)
                given.close()
                with suppress(ValueError, OSError):
                    return _Process(reading, writing)
            self.control.close()
            self.control = None
        raise SceneError("the process that reads files cannot be started; is memory left?")

    def close(self) -> None:
        """End all processes."""
        with self.lock:
            for _, process in self.idle:
                process.end()
            self.idle.clear()
            if self.control is not None and self.template is not None:
                self.control.close()
                try:
                    self.template.wait(2)
                except subprocess.TimeoutExpired:
                    self.template.kill()
                    self.template.wait()
            self.control = self.template = None


def _popen(stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    clean = {k: v for k, v in os.environ.items() if not k.upper().startswith(_FOREIGN)}
    return subprocess.Popen(
        # The same modules as here, but never the current folder
        [sys.executable, "-I", "-c", _SCRIPT.format([*filter(None, sys.path)])],
        env=clean | _ENVIRONMENT,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl+C is for us alone
    )


def _forget() -> None:
    """Leave the processes to the parent that started them, after a fork of ours."""
    global _state
    _state = _State()


_state = _State()


@atexit.register
def close() -> None:
    """End all processes; the next call starts new ones."""
    _state.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# The confined process


def _serve() -> None:
    """Fork for every socket that comes in; in the fork, answer requests until there are none."""
    warnings.simplefilter("ignore")
    if not hasattr(os, "fork"):  # pragma: no cover - Windows
        _session(sys.stdin.buffer, sys.stdout.buffer, _receive(sys.stdin.buffer, SLACK))
        return
    control = socket.socket(fileno=os.dup(0))
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            break
        with socket.socket(fileno=descriptors[0]) as peer:
            reading, writing = peer.makefile("rb"), peer.makefile("wb")
            about = _receive(reading, SLACK)
            with suppress(ImportError):  # told again, with its message, in the fork
                importlib.import_module(about["module"])
            if os.fork() == 0:
                control.close()
                writing.write(b"%d\n" % os.getpid())
                writing.flush()
                _session(reading, writing, about)
                os._exit(0)
            reading.close()
            writing.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _session(reading: IO[bytes], writing: IO[bytes], about: dict[str, Any]) -> None:
    _state.inside, _state.base = True, _address_space()
    _state.files = [*map(Path, about["files"])]
    _confine(_state.files, about["scratch"] and Path(about["scratch"]), about["network"])
    with suppress(EOFError, OSError):
        while True:
            request = _receive(reading, sys.maxsize)
            with suppress(OSError):
                os.chdir(request["cwd"])
            _state.limits = request["limits"]
            _limit(_state.base, _state.limits)
            _send(writing, _answer(request))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PolyadWarning)
        answer: dict[str, Any] = {}
        try:
            answer["value"] = _resolve(request["function"])(*request["arguments"])
        except PolyadError as error:
            kinds = [k.__name__ for k in type(error).__mro__ if k.__name__ in errors.__all__]
            answer["error"] = [kinds[0], str(error)]
        except Exception as error:
            text = str(error).strip() or type(error).__name__
            about = functools.reduce(lambda t, file: t.replace(file.name, ""), _state.files, text)
            failed = isinstance(error, MemoryError) or _NO_MEMORY.search(about)
            answer["error"] = ["MemoryError" if failed else "", text[:2000]]
    shown = [str(w.message) for w in caught if issubclass(w.category, PolyadWarning)]
    return answer | {"warnings": shown}


def _resolve(function: str) -> Any:
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


def _limit(base: int, limits: Limits) -> None:
    """Bound what is taken from here on; the hard limits stay, so that the next call has its own."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return
    for kind, most in (
        (resource.RLIMIT_AS, base + limits.memory + SLACK),
        (resource.RLIMIT_CPU, int(time.process_time()) + limits.seconds + 1),
        (resource.RLIMIT_FSIZE, limits.written),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # macOS does not take every limit
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def _address_space() -> int:
    """Return the bytes this process has mapped so far, mostly libraries."""
    try:
        words = Path("/proc/self/statm").read_text().split()
        return int(words[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 2 * 2**30  # not Linux


_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # CLONE_NEWUSER and CLONE_NEWNET
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
# By machine: what the kernel calls it, and the number of the system call `socket`
_SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}


# What finding an address and checking a certificate reads
_FOR_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf",
                "/etc/gai.conf", "/etc/ssl", "/etc/pki", "/run/systemd/resolve")  # fmt: skip


def _confine(files: Sequence[Path], scratch: Path | None, network: bool) -> None:
    """Give up all files but those given, and the network, as far as this system can."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, which both of these need
    if network:
        certificates = [os.environ[n] for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if n in os.environ]
        files = [*files, *map(Path, (*_FOR_NETWORK, *certificates))]
    elif not _deny_sockets(libc):
        libc.unshare(_NEW_USER | _NEW_NETWORK)  # not allowed everywhere
    _deny_files(libc, files, scratch, network)


def _deny_sockets(libc: ctypes.CDLL) -> bool:
    """Let the kernel refuse the system call that makes a socket; return whether it does."""
    if platform.machine() not in _SOCKET:
        return False
    machine, number = _SOCKET[platform.machine()]
    load, equal, end, allow, deny = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000 | 13  # EACCES
    program = [(load, 0, 0, 4), (equal, 0, 3, machine), (load, 0, 0, 0), (equal, 0, 1, number),
               (end, 0, 0, deny), (end, 0, 0, allow)]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    length = struct.pack("=H6xQ", len(program), ctypes.addressof(code))
    return bool(libc.prctl(22, 2, length, 0, 0) == 0)  # PR_SET_SECCOMP, a filter


def _deny_files(
    libc: ctypes.CDLL, files: Sequence[Path], scratch: Path | None, network: bool
) -> None:
    """Let Landlock refuse every file but ours, the libraries and the scratch folder."""
    version = libc.syscall(444, None, 0, 1)
    if version < 1:  # an old kernel, or switched off
        return
    every = (1 << min(13 + version - 1, 15)) - 1
    ports = 0 if network else 3  # to bind and to connect
    about = struct.pack("=QQ", every, ports)[: 16 if version > 3 else 8]
    ruleset = libc.syscall(444, about, len(about), 0)
    read = _READ_FILE | _READ_DIR
    rules = [(path, read) for path in _libraries()] + [(path, read) for path in files]
    rules += [(path.parent, _READ_DIR) for path in files if not path.is_dir()]
    rules += [] if scratch is None else [(scratch, every & ~1)]  # all but to execute
    for path, rights in rules:
        with suppress(OSError):
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = rights if path.is_dir() else rights & (_READ_FILE | _WRITE_FILE)
            libc.syscall(445, ruleset, 1, struct.pack("=Qi", rights, file), 0)
            os.close(file)
    libc.syscall(446, ruleset, 0)
    os.close(ruleset)


def _libraries() -> list[Path]:
    data = [os.environ[n] for n in ("PROJ_DATA", "PROJ_LIB", "GDAL_DATA") if n in os.environ]
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom",
              "/proc/self"]  # fmt: skip
    installed = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    here = Path(__file__).parent
    return [here, *map(Path, (sys.prefix, sys.base_prefix, *installed, *data, *system))]


# The protocol


def _send(file: IO[bytes], message: Any) -> None:
    pieces: list[memoryview] = []
    text = json.dumps(_plain(message, pieces)).encode()
    head = json.dumps([len(text), [piece.nbytes for piece in pieces]]).encode()
    file.write(head + b"\n" + text)
    for piece in pieces:
        file.write(piece)
    file.flush()


def _receive(file: IO[bytes], most: int) -> Any:
    """Return a message whose arrays take at most so many bytes in all."""
    head = file.readline(_LONGEST_LINE)
    if not head:
        raise EOFError
    length, sizes = json.loads(head)
    if not (0 <= length <= _LONGEST_LINE and min(sizes, default=0) >= 0 and sum(sizes) <= most):
        raise ValueError("an answer that is too long")
    text = _exactly(file, length)
    pieces = [_exactly(file, size) for size in sizes]
    return _rich(json.loads(bytes(text)), pieces)


def _exactly(file: IO[bytes], size: int) -> Any:
    buffer = np.empty(size, np.uint8)
    if file.readinto(buffer) < size:  # type: ignore[attr-defined]
        raise EOFError
    return buffer


def _plain(value: Any, pieces: list[memoryview]) -> Any:
    """Return a value as JSON has it: what is not plain becomes ``[kind, *content]``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        pieces.append(memoryview(value))
        return ["bytes", len(pieces) - 1]
    if isinstance(value, np.ndarray):
        # The axes stay in the order in which they lie in memory: sums depend on it
        order = [int(axis) for axis in np.argsort([-abs(s) for s in value.strides], kind="stable")]
        lying = np.asarray(value.transpose(order), order="C")
        pieces.append(lying.reshape(-1).view(np.uint8).data)
        content: list[Any] = [len(pieces) - 1, lying.dtype.str, [*lying.shape], order]
        return ["array", *(_plain(item, pieces) for item in content)]
    kind, content = _taken_apart(value)
    return [kind, *(_plain(item, pieces) for item in content)]


def _taken_apart(value: Any) -> tuple[str, list[Any]]:
    """Return the kind of a value, one of `_MAKERS`, and what to make it of again."""
    if isinstance(value, list):
        return "list", value
    if isinstance(value, dict):
        return "dict", [[*value], [*value.values()]]
    if isinstance(value, slice):
        return "slice", [value.start, value.stop]
    if isinstance(value, Path):
        return "path", [str(value)]
    if isinstance(value, np.dtype):
        return "dtype", [value.str]
    if hasattr(value, "to_wkt"):
        return "crs", [value.to_wkt()]
    if type(value).__name__ == "Affine":
        return "affine", [*value][:6]
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        names = getattr(value, "_fields", None) or [f.name for f in dataclasses.fields(value)]
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        return "record", [kind, {name: getattr(value, name) for name in names}]
    return "tuple", [*value]


def _rich(value: Any, pieces: list[Any]) -> Any:
    """Undo `_plain`."""
    if not isinstance(value, list):
        return value
    kind, *content = (_rich(item, pieces) for item in value)
    if kind == "bytes":
        return pieces[content[0]].tobytes()
    if kind == "array":
        place, dtype, shape, order = content
        return pieces[place].view(np.dtype(dtype)).reshape(shape).transpose(np.argsort(order))
    return _MAKERS[kind](*content)


def _record(kind: str, fields: dict[str, Any]) -> Any:
    module, _, name = kind.partition(":")
    if not module.startswith("polyad."):
        raise ValueError(f"a record of {module}")
    own = getattr(importlib.import_module(module), name)
    if not (isinstance(own, type) and (dataclasses.is_dataclass(own) or issubclass(own, tuple))):
        raise ValueError(f"{name}, which is no record")  # a function could do anything
    return own(**fields)


_MAKERS: dict[str, Callable[..., Any]] = {
    "list": lambda *items: [*items], "tuple": lambda *items: items, "slice": slice, "path": Path,
    "dict": lambda keys, values: dict(zip(keys, values, strict=True)), "dtype": np.dtype,
    "crs": lambda wkt: importlib.import_module("rasterio.crs").CRS.from_wkt(wkt),
    "affine": lambda *numbers: importlib.import_module("affine").Affine(*numbers),
    "record": _record,
}  # fmt: skip
