"""Runs the command line and leaves behind what it took: ``python -m attacks.inside REPORT ...``."""

from __future__ import annotations

import json
import re
import resource
import sys
import traceback
from pathlib import Path


def run(report: str, *arguments: str) -> int:
    """Run ``polyad`` with ``arguments``, write memory and time to ``report``, return the code."""
    place = Path(report).absolute()
    try:
        from polyad.cli import main

        main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    place.write_text(json.dumps(taken()))
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def taken() -> dict[str, float]:
    """Return the most memory that this process or one of its own has held, and processor time."""
    from polyad import sandbox

    sandbox.close()
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)  # of this program alone, unlike ru_maxrss
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "peak_bytes": 1024 * max(int(peak[1]) if peak else 0, used[1].ru_maxrss),
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in used),
    }


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
