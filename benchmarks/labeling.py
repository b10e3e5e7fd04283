"""The labeling page under the stopwatch and under load.

python -m benchmarks.labeling latency             # from click to map on the screen, in Chromium
python -m benchmarks.labeling large --pause 2     # the same on 1.6 million pixels of 285 bands
python -m benchmarks.labeling load --seconds 60   # fifty clients at once
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from typing import Any

import httpx
import numpy as np

from benchmarks.labeling_large import CLICK, FLAGS, large, memory, summary
from polyad.app import Page, prepare
from polyad.scene.learn.sampling import per_class
from polyad.scene.read.known_scenes import open_known_labels


def page_with_labels(per: int = 10) -> tuple[Page, Any, np.ndarray[Any, Any]]:
    """Serve Indian Pines with ``per`` labels of each class."""
    truth = open_known_labels("indian-pines")
    split = per_class(truth, per, 0)
    folder = tempfile.mkdtemp()
    served = prepare("indian-pines", truth="indian-pines", journal=f"{folder}/j").start()
    for row, col in split.train.tolist():
        value = int(truth.values[row, col])
        served.workspace.session.do({"do": "label", "class": value, "pixels": [[row, col]]})
    served.workspace.trainer.final_model()
    return served, truth, split.test


def latency(clicks: int, pause: float) -> dict[str, Any]:
    """Click one pixel after the other in a browser, 160 labels there; return milliseconds."""
    from playwright.sync_api import sync_playwright

    served, truth, test = page_with_labels()
    chosen = np.random.default_rng(0).permutation(test)[:clicks].tolist()
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(served.url)
        tab.wait_for_selector('#status[data-stage="final"]')
        for row, col in chosen:
            used = time.process_time()
            timed = tab.evaluate(CLICK, [row, col, int(truth.values[row, col])])
            # What the server itself computed meanwhile: the figure that other jobs blur least.
            rows.append(timed | {"server cpu": 1000 * (time.process_time() - used)})
            tab.wait_for_timeout(1000 * pause)
        browser.close()
    served.stop()
    figures: dict[str, Any] = {"clicks": len(rows), "load average": os.getloadavg()[0]}
    return figures | summary(rows)


def load(clients: int, seconds: float) -> dict[str, Any]:
    """Let many clients label, look and undo nothing; return what was lost and how memory grew."""
    served, truth, _ = page_with_labels(3)
    start = dict(served.workspace.session.label_state.labels)
    mine = [[] for _ in range(clients)]  # type: list[list[tuple[int, int]]]
    free = [p for p in np.random.default_rng(1).permutation(
        np.argwhere(truth.values >= 0)).tolist() if tuple(p) not in start
    ]  # fmt: skip
    errors: list[str] = []
    waits: list[float] = []
    requests = [0] * clients
    end = time.monotonic() + seconds

    def work(k: int) -> None:
        pixels = iter(free[k::clients])
        with httpx.Client(base_url=served.url, timeout=60) as client:
            while time.monotonic() < end:
                pixel = next(pixels, None)
                if pixel is None:
                    break
                started = time.perf_counter()
                sent = {"do": "label", "class": 1 + k % 16, "pixels": [pixel]}
                answers = [client.post("api/do", json=sent)]
                waits.append(time.perf_counter() - started)
                answers.append(client.get("api/map/0/0/0"))
                answers.append(client.get(f"api/spectrum?row={pixel[0]}&col={pixel[1]}"))
                requests[k] += 3
                errors.extend(a.text for a in answers if a.status_code != 200)
                mine[k].append((pixel[0], pixel[1]))
                time.sleep(0.5)

    resident = [memory("VmRSS")]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(max(seconds / 6, 0.5))
        resident.append(memory("VmRSS"))
    for thread in threads:
        thread.join()
    labels = served.workspace.session.label_state.labels
    taken = {pixel for pixels in mine for pixel in pixels}
    journal = served.workspace.session.journal.path.read_text().count('"do":"label"')
    served.stop()
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": sum(requests),
        "errors": len(errors),
        "labels": len(taken),
        "lost": len(taken - labels.keys()),
        "in the journal": journal == len(taken) + len(start),
        "label answered, ms": {q: round(1000 * float(np.percentile(waits, p)), 1)
                               for q, p in (("median", 50), ("p95", 95))},
        "memory, MB": resident,
        "load average": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["latency", "large", "load"])
    parser.add_argument("--clicks", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.5)
    parser.add_argument("--picture", help="of a large scene: where pictures of the page go")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    if given.what == "latency":
        print(json.dumps(latency(given.clicks, given.pause), indent=1))
    elif given.what == "large":
        print(json.dumps(large(given.clicks, given.pause, given.picture), indent=1))
    else:
        print(json.dumps(load(given.clients, given.seconds), indent=1))


if __name__ == "__main__":
    main()
