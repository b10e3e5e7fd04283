"""Commands and programs that begin with their imports done, so that a journey takes moments.

Four of the five seconds that a command takes on a small scene go into importing torch and its
company. So one process imports them from the installed wheel and waits:

    python warm.py serve SOCKET

and what the user starts is forked from it, in the user's folder, at the user's terminal:

    python -ES warm.py run SOCKET SCRIPT ARGUMENTS...

README's page and test_installed.py do without, and start everything cold.
"""

import gc
import json
import os
import signal
import socket
import sys

# What the commands import when they run; `polyad.cli` alone imports next to nothing.
IMPORTS = (
    "matplotlib.figure", "skimage.segmentation", "sklearn.model_selection", "sklearn.pipeline",
    "torch.optim", "torch._dynamo", "polyad.cli", "polyad.core", "polyad.estimators",
    "polyad.scene.demo", "polyad.scene.info", "polyad.scene.assess.report",
    "polyad.scene.read.scenes", "polyad.distributed.maps", "polyad.experiments",
    "polyad.app",
)  # fmt: skip


def serve(place):
    """Wait for requests; return in a fork for each, with the script that it is to run."""
    import importlib

    for name in IMPORTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every fork copies the memory of all modules when it ends
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.bind(place)
        waiting.listen()
        waiting.settimeout(10)
        parent = os.getppid()
        while True:
            try:
                asking, _ = waiting.accept()
            except TimeoutError:
                if os.getppid() != parent:  # the tests were killed
                    sys.exit()
                continue
            with asking:
                head, files, _, _ = socket.recv_fds(asking, 8, 3)
                with asking.makefile("rb") as rest:
                    request = json.loads(rest.read(int.from_bytes(head)))
                if not (child := os.fork()):
                    return become(request, files)
                for file in files:
                    os.close(file)
                asking.sendall(child.to_bytes(8))
                _, status = os.waitpid(child, 0)
                asking.sendall((os.waitstatus_to_exitcode(status) % 256).to_bytes(8))


def become(request, files):
    """Take over the caller's terminal, folder, environment and arguments."""
    arguments, folder, environment = request
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - for good
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    return os.path.abspath(arguments[0])  # noqa: PTH100 - as Python does; spawned workers need it


def run(place, *arguments):
    """Ask for a script, pass Ctrl+C on, and end as it ends."""
    request = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(place)
        socket.send_fds(asking, [len(request).to_bytes(8)], [0, 1, 2])
        asking.sendall(request)
        child = int.from_bytes(asking.recv(8))
        signal.signal(signal.SIGINT, lambda *_: os.kill(child, signal.SIGINT))
        sys.exit(int.from_bytes(asking.recv(8)))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:])
    script = serve(sys.argv[2])

    import runpy

    sys.path[0] = os.path.dirname(script)  # noqa: PTH120
    runpy.run_path(script, run_name="__main__")
