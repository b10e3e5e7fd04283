"""The labeling page on a scene of 1.6 million pixels and 285 bands."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mirrored import BANDS, mirrored_truth, write_mirrored
from polyad.app import prepare
from polyad.scene.learn.sampling import per_class

SHAPE = (1280, 1250)
CLOSE = 4  # screen pixels for each of the scene, zoomed in
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip

# Runs in the page: click a pixel, resolve when the first map that knows it is drawn in all of view.
CLICK = """([row, col, value]) => new Promise((done) => {
  const { store, viewer } = window.polyad;
  store.choose(value);
  const revision = store.map.revision;
  const [x, y, side] = viewer.rect(row, col);
  const box = viewer.canvas.getBoundingClientRect();
  const at = { clientX: box.left + x + side / 2, clientY: box.top + y + side / 2, button: 0,
    pointerId: 1, pointerType: "mouse", bubbles: true };
  viewer.canvas.setPointerCapture = () => {};
  const started = performance.now();
  let answered = 0, announced = 0, first = Infinity;
  viewer.canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  viewer.canvas.dispatchEvent(new PointerEvent("pointerup", at));
  const look = () => {
    const now = performance.now() - started;
    if (!answered && !store.pending) answered = now;
    if (!announced && store.map.revision > revision) [announced, first] = [now, store.map.version];
    if (viewer.shownVersion >= first) done({ answered, announced, shown: now });
    else requestAnimationFrame(look);
  };
  look();
})"""


def large(clicks: int, pause: float, picture: str | None = None) -> dict[str, Any]:
    """Click in a browser with 160 labels there, at the default view and zoomed in."""
    from playwright.sync_api import sync_playwright

    rng = np.random.default_rng(0)
    figures: dict[str, Any] = {"pixels": SHAPE[0] * SHAPE[1], "bands": BANDS}
    with tempfile.TemporaryDirectory(prefix="polyad-large-") as folder, sync_playwright() as play:
        header = write_mirrored(Path(folder), SHAPE, "bil")
        truth = mirrored_truth(Path(folder))
        split = per_class(truth, 10, 0)
        before, started, used = memory("VmRSS"), time.monotonic(), time.process_time()
        served = prepare(header, truth=truth, journal=f"{folder}/j").start()
        trainer, session = served.workspace.trainer, served.workspace.session
        values = truth.values[tuple(split.train.T)]
        for value in np.unique(values).tolist():
            pixels = split.train[values == value].tolist()
            session.do({"do": "label", "class": value, "pixels": pixels})
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(served.url)
        first_map = None
        while trainer.learned is not None or time.monotonic() < started + 5:
            tab.wait_for_timeout(200)
            if first_map is None and trainer.newest_map.stage != "none":
                first_map = time.monotonic() - started
            if picture and (trainer.learned or 0) > 0.3:
                tab.screenshot(path=f"{picture}-learning.png")
        figures["seconds to the first map, quick"] = (
            None if first_map is None else round(first_map, 1)
        )
        figures["seconds to statistics"] = round(time.monotonic() - started, 1)
        figures["cpu seconds to statistics"] = round(time.process_time() - used, 1)
        while trainer.newest_map.stage != "final":
            tab.wait_for_timeout(200)
        figures["seconds to the final map"] = round(time.monotonic() - started, 1)
        figures["steps"] = trainer.newest_map.about["steps"]
        chosen = iter(rng.permutation(split.test)[: 40 * clicks].tolist())
        for name in ("whole scene in view", "zoomed in"):
            rows = []
            for _ in range(clicks):
                row, col = next(chosen)
                if name == "zoomed in":
                    tab.evaluate("([r, c, s]) => polyad.viewer.center(r, c, s)", [row, col, CLOSE])
                tab.wait_for_timeout(1000 * pause)
                used = time.process_time()
                timed = tab.evaluate(CLICK, [row, col, int(truth.values[row, col])])
                rows.append(timed | {"server cpu": 1000 * (time.process_time() - used)})
                if picture:
                    tab.screenshot(path=f"{picture}-{name.replace(' ', '-')}.png")
            figures[name] = summary(rows) | {"load average": round(os.getloadavg()[0], 1)}
        figures["memory before, MB"], figures["largest, MB"] = before, memory("VmHWM")
        browser.close()
        served.stop()
    return figures


def summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Return median, p95 and largest of each figure, in milliseconds."""
    return {
        what: {q: round(float(np.percentile([row[what] for row in rows], p)), 1)
               for q, p in (("median", 50), ("p95", 95), ("max", 100))}
        for what in rows[0]
    }  # fmt: skip


def memory(what: str) -> int:
    """Return what the system says of this process's memory, in MB."""
    text = Path("/proc/self/status").read_text()
    return int(next(x for x in text.splitlines() if x.startswith(what)).split()[1]) // 1024
