"""A page in Chromium: where it is, how to wait for its scripts, how to click its pixels."""

import shutil
import time

from tests.waiting import PATIENCE

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


def until(tab, script, argument=None):
    """Wait until a script is true; the page's policy forbids Playwright's own way of waiting."""
    end = time.monotonic() + PATIENCE
    while not tab.evaluate(script, argument):
        assert time.monotonic() < end, f"waited in vain for {script}"
        tab.wait_for_timeout(20)


def add_class(tab, name):
    tab.fill("#new-class", name)
    tab.press("#new-class", "Enter")
    until(tab, "name => [...polyad.store.classes.values()].some(c => c.name === name)", name)


def place(tab, row, col):
    """Return where on the screen the middle of a pixel is."""
    script = """([row, col]) => { const [x, y, side] = polyad.viewer.rect(row, col);
        const box = polyad.viewer.canvas.getBoundingClientRect();
        return [box.left + x + side / 2, box.top + y + side / 2]; }"""
    return tab.evaluate(script, [row, col])
