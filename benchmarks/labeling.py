"""The labeling page under the stopwatch and under load.

python -m benchmarks.labeling clicks             # from click to map: scene x classes x labels
python -m benchmarks.labeling large --clicks 14  # the same on 1.6 million pixels of 285 bands
python -m benchmarks.labeling load               # fifty clients at once

``clicks`` moves a mouse in Chromium, on two scenes with 5 and 16 classes, from 20 labels to 200. It
writes docs/results/labeling.jsonl, one line for each click, and the table of docs/labeling.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.harness import DOCS, RESULTS, fill, processor, resident, table
from benchmarks.mirrored import BANDS, mirrored_truth, write_mirrored
from polyad.app import Page, prepare
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_known_labels

ROOT = DOCS.parent
RECORDS, PAGE = RESULTS / "labeling.jsonl", RESULTS / "labeling.md"
POTSDAM = ROOT.parent / "shared/data/enmap_potsdam"
SCENES = {"Indian Pines": "indian-pines", "Potsdam tiles": str(POTSDAM / "potsdam_train.tif")}
CLASSES, LABELS = (5, 16), (20, 80, 200)
PART = 32  # side of the parts of Potsdam, to make 16 classes of six
PAUSE = (0.5, 2.0)  # seconds from a map to the next click: a final fit has begun or not
LARGE, CLOSE = (1280, 1250), 4  # pixels; screen pixels for each of the scene, zoomed in
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
KEYS = ("scene", "classes", "labels")
Array = np.ndarray[Any, Any]
Row = dict[str, Any]

PLACE = """([row, col, value]) => {
  const { store, viewer } = window.polyad;
  store.choose(value);
  const [x, y, side] = viewer.rect(row, col);
  const box = viewer.canvas.getBoundingClientRect();
  return [box.left + x + side / 2, box.top + y + side / 2];
}"""
# Starts at the button's own time stamp; ends when the first map that knows the click is painted.
WATCH = """() => {
  const { store, viewer } = window.polyad;
  const revision = store.map.revision;
  window.watched = new Promise((done) => addEventListener("pointerdown", ({ timeStamp }) => {
    let answered = 0, announced = 0, first = Infinity;
    const look = () => {
      const now = performance.now() - timeStamp;
      if (!answered && !store.pending) answered = now;
      const { revision: known, version } = store.map;
      if (!announced && known > revision) [announced, first] = [now, version];
      if (viewer.shownVersion >= first) done({ answered, announced, shown: now });
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, { capture: true, once: true }));
}"""


# -- pages and a mouse ---------------------------------------------------------------------------


def class_raster(name: str, classes: int) -> Array:
    """Return the ids of the most frequent classes from 1 on, 0 elsewhere, ``(y, x)``.

    Potsdam has six: for more, each is divided by the part of the scene that it lies in.
    """
    if name == "Indian Pines":
        truth = np.asarray(open_known_labels("indian-pines").values).astype(np.int64)
    else:
        truth = np.asarray(open_labels(POTSDAM / "potsdam_train_labels.tif").values).astype(int)
    if classes > truth.max():
        rows, cols = (np.arange(n) // PART for n in truth.shape)
        truth = np.where(truth > 0, 1 + truth + 10 * (rows[:, None] * len(cols) + cols), 0)
    ids, counts = np.unique(truth[truth > 0], return_counts=True)
    chosen = ids[np.argsort(-counts, kind="stable")[:classes]]
    return np.asarray((truth[..., None] == chosen) @ np.arange(1, classes + 1))


def in_turn(raster: Array, seed: int = 0) -> list[tuple[list[int], int]]:
    """Return random pixels and their classes: one of each class, then the next of each."""
    rng = np.random.default_rng(seed)
    each = [rng.permutation(np.argwhere(raster == k + 1)).tolist() for k in range(raster.max())]
    turns = range(max(map(len, each)))
    return [(own[n], k) for n in turns for k, own in enumerate(each, start=1) if n < len(own)]


def give(served: Page, labels: Sequence[tuple[list[int], int]]) -> None:
    """Label pixels without a click, and wait for the final map."""
    session = served.workspace.session
    while len(session.label_state.classes) < max(value for _, value in labels):
        session.do({"do": "add", "name": f"Class {len(session.label_state.classes) + 1}"})
    for value in {value for _, value in labels}:
        pixels = [pixel for pixel, own in labels if own == value]
        session.do({"do": "label", "class": value, "pixels": pixels})
    while served.workspace.trainer.learned is not None:
        time.sleep(0.1)
    served.workspace.trainer.final_model()


@contextmanager
def opened_tab(served: Page) -> Iterator[Any]:
    """Show a page in Chromium, and stop serving it at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(served.url)
        yield tab
        browser.close()
    served.stop()


def click(tab: Any, pixel: Sequence[int], value: int) -> Row:
    """Move the mouse to a pixel and click; return milliseconds from the click on."""
    x, y = tab.evaluate(PLACE, [*pixel, value])
    tab.mouse.move(x, y, steps=8)
    tab.wait_for_timeout(100)
    tab.evaluate(WATCH)
    used = time.process_time()
    tab.mouse.click(x, y, delay=60)
    timed: Row = tab.evaluate("window.watched")
    # What the server itself computed meanwhile: the figure that other jobs blur least.
    timed["server cpu"] = 1000 * (time.process_time() - used)
    return {what: round(ms, 1) for what, ms in timed.items()}


# -- what is measured ----------------------------------------------------------------------------


def clicks(count: int, scenes: Sequence[str]) -> list[Row]:
    """Click with a mouse on both scenes; return a row for each click."""
    rows, rng = [], np.random.default_rng(0)
    for name in scenes:
        for classes in CLASSES:
            left = in_turn(class_raster(name, classes))
            folder = tempfile.mkdtemp()
            served = prepare(SCENES[name], journal=f"{folder}/j").start()
            with opened_tab(served) as tab:
                for labels in LABELS:
                    there = len(served.workspace.session.label_state.labels)
                    give(served, [left.pop(0) for _ in range(labels - there)])
                    tab.wait_for_selector('#status[data-stage="final"]')
                    for _ in range(count):
                        tab.wait_for_timeout(1000 * rng.uniform(*PAUSE))
                        timed = click(tab, *left.pop(0))
                        rows.append({"scene": name, "classes": classes, "labels": labels} | timed)
                    print(rows[-1] | summary(rows[-count:], "shown"), flush=True)
    return rows


def large(count: int) -> Row:
    """Click on a large scene with 160 labels there, at the default view and zoomed in."""
    figures: Row = {"pixels": LARGE[0] * LARGE[1], "bands": BANDS}
    with tempfile.TemporaryDirectory(prefix="polyad-large-") as folder:
        header = write_mirrored(Path(folder), LARGE, "bil")
        left = in_turn(np.asarray(mirrored_truth(Path(folder)).values).astype(int))
        before, started = memory("VmRSS"), time.monotonic()
        served = prepare(header, journal=f"{folder}/j").start()
        with opened_tab(served) as tab:
            give(served, [left.pop(0) for _ in range(160)])
            figures["seconds to the final map"] = round(time.monotonic() - started, 1)
            tab.wait_for_selector('#status[data-stage="final"]')
            for name in ("whole scene in view", "zoomed in"):
                rows = []
                for _ in range(count):
                    pixel, value = left.pop(0)
                    if name == "zoomed in":
                        script = "([r, c, s]) => polyad.viewer.center(r, c, s)"
                        tab.evaluate(script, [*pixel, CLOSE])
                    tab.wait_for_timeout(2500)
                    rows.append(click(tab, pixel, value))
                figures[name] = {what: summary(rows, what) for what in rows[0]}
        figures["memory before, MB"], figures["largest, MB"] = before, memory("VmHWM")
    return figures


def load(clients: int, seconds: float) -> Row:
    """Let many clients label and look; return what was lost and how memory grew."""
    raster = class_raster("Indian Pines", 16)
    served = prepare("indian-pines", journal=f"{tempfile.mkdtemp()}/j").start()
    give(served, in_turn(raster)[:48])
    start = dict(served.workspace.session.label_state.labels)
    free = np.random.default_rng(1).permutation(np.argwhere(raster >= 0)).tolist()
    free = [pixel for pixel in free if tuple(pixel) not in start]
    mine: list[list[tuple[int, int]]] = [[] for _ in range(clients)]
    errors: list[str] = []
    waits: list[Row] = []
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
                waits.append({"answered": 1000 * (time.perf_counter() - started)})
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
    journal = served.workspace.session.journal.path.read_text()
    served.stop()
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": sum(requests),
        "errors": len(errors),
        "labels": len(taken),
        "lost": len(taken - labels.keys()),
        "in the journal": all(f"[[{row},{col}]]" in journal for row, col in taken),
        "label answered, ms": summary(waits, "answered"),
        "memory, MB": resident,
    }


# -- what is written -----------------------------------------------------------------------------


def summary(rows: Sequence[Row], what: str) -> dict[str, float]:
    """Return median, p95 and largest of a figure."""
    values = [row[what] for row in rows]
    quantiles = {"median": 50, "p95": 95, "largest": 100}
    return {name: round(float(np.percentile(values, q)), 1) for name, q in quantiles.items()}


def memory(what: str) -> int:
    """Return what the system says of this process's memory, in MB."""
    return resident(what) // 2**20


def parts(rows: Sequence[Row]) -> dict[str, str]:
    """Return the table of the page, seconds of each scene, and what it was measured on."""
    keys = list(dict.fromkeys(tuple(r[n] for n in KEYS) for r in rows))
    names = dict.fromkeys(scene for scene, _, _ in keys)
    lines = []
    for key in [*keys, *((scene, "all", "all") for scene in names)]:
        some = [r for r in rows if all(k in ("all", r[n]) for n, k in zip(KEYS, key, strict=True))]
        shown = [f"{ms / 1000:.2f} s" for ms in summary(some, "shown").values()]
        used = summary(some, "server cpu")["median"] / 1000
        lines.append([*map(str, [*key, len(some)]), *shown, f"{used:.2f} s"])
    head = ["classes", "labels", "clicks", "median", "p95", "largest", "server's processor time"]
    return {"clicks": table(["scene", *(f"{name}:" for name in head)], lines)}


def conditions(rows: Sequence[Row]) -> str:
    """Return what the table was measured on."""
    answered = summary(rows, "answered")
    return (
        f"{processor()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end; "
        f"the label was on the disk {answered['median'] / 1000:.2f} s after the click (median; "
        f"p95 {answered['p95'] / 1000:.2f} s)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["clicks", "large", "load"])
    parser.add_argument("--clicks", type=int, default=10, help="in each row of the table")
    parser.add_argument("--scenes", nargs="*", choices=SCENES, default=list(SCENES))
    parser.add_argument("--print", action="store_true", help="print the table, write nothing")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    if given.what == "large":
        print(json.dumps(large(given.clicks), indent=1))
    elif given.what == "load":
        print(json.dumps(load(given.clients, given.seconds), indent=1))
    else:
        rows = clicks(given.clicks, given.scenes)
        measured = parts(rows) | {"conditions": conditions(rows)}
        print(*measured.values(), sep="\n\n")
        if not given.print:
            RECORDS.write_text("".join(json.dumps(row) + "\n" for row in rows))
            fill(PAGE, measured)


if __name__ == "__main__":
    main()
