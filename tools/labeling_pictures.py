"""Make the pictures of the labeling page in docs/images: ``python tools/labeling_pictures.py``.

Indian Pines with six labels per class, in Chromium: light, dark at a suggested pixel, on a phone.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from polyad.app import prepare
from polyad.scene.read.known_scenes import open_known_labels

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PER_CLASS = 6
FINAL = '#status[data-stage="final"]'
SHOTS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "light": ({"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1.25},
              (1600, 1000)),
    "dark": ({"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}, (1280, 800)),
    "phone": ({"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2,
               "has_touch": True, "is_mobile": True}, (640, 1385)),
}  # fmt: skip


def label_some(session: Any) -> None:
    """Label a few random pixels of each class."""
    truth = open_known_labels("indian-pines").values
    rng = np.random.default_rng(0)
    for value in range(1, 17):
        pixels = rng.permutation(np.argwhere(truth == value))[:PER_CLASS].tolist()
        session.do({"do": "label", "class": value, "pixels": pixels})


def shoot(browser: Browser, url: str, name: str, folder: Path) -> None:
    """Save one picture."""
    context, size = SHOTS[name]
    tab: Page = browser.new_context(**context).new_page()
    tab.goto(url)
    tab.wait_for_selector(FINAL, timeout=120_000)
    if name == "dark":
        tab.keyboard.press("2")
        tab.keyboard.press("n")
    elif name == "light":
        tab.mouse.move(460, 500)
    while tab.evaluate("polyad.viewer.shownVersion !== polyad.store.map.version"):
        tab.wait_for_timeout(50)
    tab.wait_for_timeout(800)  # spectrum and transitions
    picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    picture.resize(size, Image.Resampling.LANCZOS).save(
        folder / f"labeling-{name}.jpg", quality=85, optimize=True
    )
    tab.context.close()


def main(folder: Path) -> None:
    """Make all pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as journal, sync_playwright() as playwright:
        served = prepare("indian-pines", truth="indian-pines", journal=f"{journal}/j").start()
        label_some(served.workspace.session)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"],
                                             ignore_default_args=["--hide-scrollbars"])  # fmt: skip
        served.workspace.trainer.final_model()
        time.sleep(1)
        for name in SHOTS:
            shoot(browser, served.url, name, folder)
        browser.close()
        served.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
