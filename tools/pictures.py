"""Make the pictures of docs/images that show polyad: ``python tools/pictures.py [folder]``.

The demonstration's map and report, and both pages with Indian Pines in Chromium, light, dark and on
a phone: with six labels per class, in the dark at a suggested pixel; and a sample of 200 points
being checked, blind but for the dark one.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Page as BrowserPage

from polyad.app import prepare, prepare_check
from polyad.app.checklist import CheckWorkspace
from polyad.app.launch import Page
from polyad.scene import draw_sample
from polyad.scene.demo import run_demo
from polyad.scene.read.scenes import open_known_labels

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PER_CLASS = 6
FINAL = '#status[data-stage="final"]'
SHOTS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "light": ({"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1.25},
              (1600, 1000)),
    "dark": ({"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}, (1280, 800)),
    "phone": ({"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2,
               "has_touch": True, "is_mobile": True}, (640, 1385)),
    "report": ({"viewport": {"width": 1060, "height": 1180}}, (1060, 1180)),
}  # fmt: skip


def label_some(session: Any) -> None:
    """Label a few random pixels of each class."""
    truth = open_known_labels("indian-pines").values
    rng = np.random.default_rng(0)
    for value in range(1, 17):
        pixels = rng.permutation(np.argwhere(truth == value))[:PER_CLASS].tolist()
        session.do({"do": "label", "class": value, "pixels": pixels})


def answer_some(checklist: Any) -> None:
    """Answer the first points and a few later ones by the ground truth; one nobody can tell."""
    truth = open_known_labels("indian-pines").values
    for point in (*range(11), *range(40, 50)):
        row, col = checklist.sample.pixels[point].tolist()
        checklist.do({"point": point, "class": int(truth[row, col])})
    checklist.do({"point": 7, "unsure": True, "note": "mixed pixel"})


def show_files(browser: Browser, place: Path, folder: Path) -> None:
    """Save the demonstration's map, and a picture of the report that docs/report.md names."""
    run_demo(place)
    shutil.copy(place / "map.png", folder / "demo.png")
    page = place / "page.html"
    words = ["train", "indian-pines", "indian-pines", "--samples-per-class", "20", "--report"]
    subprocess.run(["polyad", *words, page, "--out", place / "m.polyad"], check=True)
    context, size = SHOTS["report"]
    tab = browser.new_context(**context).new_page()
    tab.goto(page.as_uri())
    tab.add_style_tag(content="::-webkit-scrollbar { display: none }")
    save(tab, size, folder / "report.jpg")


def save(tab: BrowserPage, size: tuple[int, int], path: Path) -> None:
    """Save what a tab shows, and close it."""
    picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    picture.resize(size, Image.Resampling.LANCZOS).save(path, quality=85, optimize=True)
    tab.context.close()


def shoot(browser: Browser, page: Page, name: str, path: Path) -> None:
    """Save one picture of a page."""
    context, size = SHOTS[name]
    tab: BrowserPage = browser.new_context(**context).new_page()
    tab.goto(page.url)
    if isinstance(page.workspace, CheckWorkspace):
        tab.wait_for_selector("#choices button")
        if name == "dark":
            tab.keyboard.press("m")
    else:
        tab.wait_for_selector(FINAL, timeout=120_000)
        if name == "dark":
            tab.keyboard.press("2")
            tab.keyboard.press("n")
        elif name == "light":
            tab.mouse.move(460, 500)
        while tab.evaluate("polyad.viewer.shownVersion !== polyad.store.map.version"):
            tab.wait_for_timeout(50)
    tab.wait_for_timeout(800)  # spectrum and transitions
    save(tab, size, path)


def main(folder: Path) -> None:
    """Make all pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    truth = open_known_labels("indian-pines")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"],
                                             ignore_default_args=["--hide-scrollbars"])  # fmt: skip
        show_files(browser, Path(place) / "demo", folder)
        served = prepare("indian-pines", truth="indian-pines", journal=f"{place}/j").start()
        label_some(served.workspace.session)
        served.workspace.trainer.final_model()
        for name in ("light", "dark", "phone"):
            shoot(browser, served, name, folder / f"labeling-{name}.jpg")
        served.stop()
        draw_sample(truth, 200, random_state=1).save(f"{place}/sample.csv")
        for name in ("light", "dark", "phone"):  # blind, but for the one with the map
            options: dict[str, Any] = {"blind": name != "dark", "out": f"{place}/{name}.csv"}
            checked = prepare_check("indian-pines", f"{place}/sample.csv", truth, **options).start()
            answer_some(checked.workspace.checklist)
            shoot(browser, checked, name, folder / f"checking-{name}.jpg")
            checked.stop()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
