"""The page in a real Chromium: what a person does in the first five minutes."""

import shutil
import time

import httpx
import numpy as np
import pytest

from polyad.app import prepare
from polyad.scene.labels import open_labels
from polyad.scene.sources import open_known, open_known_labels

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine; apt-get install chromium"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
FINAL = '#status[data-stage="final"]'


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """A new page that fails the test on any error, warning or request that leaves this machine."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    wrong = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("request", lambda r: wrong.append(r.url) if not local(r.url) else None)
    opened.wrong = wrong
    yield opened
    context.close()
    assert wrong == []


def local(url):
    return url.startswith("blob:") or httpx.URL(url).host == "127.0.0.1"


@pytest.fixture
def indian_pines(tmp_path):
    served = prepare("indian-pines", journal=tmp_path / "j").start()
    yield served
    served.stop()


def until(tab, script, argument=None, seconds=30):
    """Wait until a script is true; the page's policy forbids Playwright's own way of waiting."""
    end = time.monotonic() + seconds
    while not tab.evaluate(script, argument):
        assert time.monotonic() < end, f"waited in vain for {script}"
        tab.wait_for_timeout(20)


def open_page(tab, served):
    tab.goto(served.url)
    until(tab, "window.polyad?.store.scene && window.polyad.viewer.tiles.size")


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


def label_count(tab, n):
    until(tab, "n => polyad.store.labels.size === n && !polyad.store.pending", n)


def spread(truth, value, n, seed=0):
    where = np.argwhere(truth == value)
    return np.random.default_rng(seed).permutation(where)[:n].tolist()


def test_ten_clicks_in_each_of_two_classes_give_a_map_that_is_right(tab, indian_pines, tmp_path):
    truth = open_known_labels("indian-pines").values
    open_page(tab, indian_pines)
    for name, value in (("Woods", 14), ("Soybean-mintill", 11)):
        add_class(tab, name)
        for row, col in spread(truth, value, 10):
            tab.mouse.click(*place(tab, row, col))
    label_count(tab, 20)
    tab.wait_for_selector(f'{FINAL}[data-revision="20"]', timeout=60_000)
    until(tab, "polyad.viewer.shownVersion === polyad.store.map.version")

    ids = indian_pines.desk.fitter.mapped.ids
    right = [(ids[truth == value] == mine).mean() for mine, value in ((1, 14), (2, 11))]
    assert min(right) > 0.9
    assert tab.inner_text("#label-count") == "20 labels"

    tab.click("#undo")
    label_count(tab, 19)
    tab.click("#redo")
    label_count(tab, 20)

    with tab.expect_download() as saved:
        tab.click("#save-csv")
    saved.value.save_as(tmp_path / "labels.csv")
    labels = open_labels(tmp_path / "labels.csv", open_known("indian-pines"))
    assert labels.attrs["class_names"] == ["Woods", "Soybean-mintill"]
    assert int((labels > 0).sum()) == 20

    tab.reload()
    label_count(tab, 20)
    assert tab.input_value("#classes li:first-child .name") == "Woods"

    for position in (0, 0):  # delete both classes, then load what was saved
        tab.locator("#classes .quiet").nth(position).click()
        until(tab, "!polyad.store.pending")
    label_count(tab, 0)
    tab.set_input_files("#load", tmp_path / "labels.csv")
    label_count(tab, 20)


def test_drag_labels_shift_erases_and_one_undo_takes_a_stroke(tab, page):
    open_page(tab, page)
    tab.mouse.move(*place(tab, 5, 3))
    tab.mouse.down()
    tab.mouse.move(*place(tab, 5, 9), steps=4)
    tab.mouse.up()
    label_count(tab, 7)
    tab.keyboard.down("Shift")
    tab.mouse.click(*place(tab, 5, 4))
    tab.keyboard.up("Shift")
    label_count(tab, 6)
    tab.keyboard.press("z")
    label_count(tab, 7)
    tab.keyboard.press("z")
    label_count(tab, 0)


def test_the_keyboard_alone_is_enough(tab, page, kit):
    open_page(tab, page)
    tab.keyboard.press("a")
    tab.keyboard.type("By key")
    tab.keyboard.press("Enter")
    until(tab, "polyad.store.classes.size === 4")
    tab.keyboard.press("Escape")
    tab.keyboard.press("ArrowDown")  # the cursor appears in the middle
    for key in ("1", "2"):
        tab.keyboard.press(key)
        for _ in range(3):
            tab.keyboard.press("Enter")
            tab.keyboard.press("ArrowRight")
        tab.keyboard.press("Shift+ArrowUp")
    label_count(tab, 6)
    tab.wait_for_selector(f'{FINAL}[data-revision="6"]', timeout=60_000)
    tab.keyboard.press("n")
    tab.wait_for_selector("#hint:not([hidden])")
    row, col, _ = page.desk.fitter.mapped.about["advice"][0]
    assert tab.evaluate("[polyad.viewer.cursor.row, polyad.viewer.cursor.col]") == [row, col]
    tab.keyboard.press("Enter")
    label_count(tab, 7)
    tab.keyboard.press("Backspace")
    label_count(tab, 6)
    tab.keyboard.down("h")
    assert tab.evaluate("polyad.viewer.hidden")
    tab.keyboard.up("h")
    assert not tab.evaluate("polyad.viewer.hidden")
    tab.keyboard.press("u")
    assert tab.evaluate("polyad.viewer.overlay") == "uncertainty"
    tab.keyboard.press("?")
    assert "where to click next" in tab.inner_text("#keys")
    tab.keyboard.press("Escape")
    until(tab, "!document.querySelector('#keys').open")


def test_two_tabs_see_each_others_labels_and_maps(browser, tab, page, kit):
    open_page(tab, page)
    context = browser.new_context()
    other = context.new_page()
    open_page(other, page)
    tab.mouse.click(*place(tab, 4, 4))
    until(other, "polyad.store.labels.get('4,4') === 1")
    other.mouse.click(*place(other, 4, 4))  # the same again changes nothing
    kit.label_some(page.desk.session)
    for each in (tab, other):
        each.wait_for_selector(f'{FINAL}[data-revision="4"]', timeout=60_000)
        assert each.evaluate("polyad.store.labels.size") == 16
    assert tab.inner_text("#score-overall").endswith("%")
    context.close()


def test_a_class_named_script_is_a_name(tab, page):
    open_page(tab, page)
    name = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    add_class(tab, name)
    assert tab.input_value("#classes li:last-child .name") == name
    tab.mouse.click(*place(tab, 4, 4))
    label_count(tab, 1)
    tab.mouse.move(*place(tab, 9, 9))
    tab.mouse.move(*place(tab, 4, 4))
    until(tab, "document.querySelector('#under').textContent.includes('<script>')")
    assert tab.evaluate("window.hacked") is None


def test_classes_are_renamed_recoloured_and_deleted_on_the_page(tab, page):
    open_page(tab, page)
    tab.fill("#classes li:first-child .name", "Sea")
    tab.press("#classes li:first-child .name", "Enter")
    until(tab, "polyad.store.classes.get(1).name === 'Sea'")
    tab.fill("#classes li:first-child input[type=color]", "#00ff00")
    tab.dispatch_event("#classes li:first-child input[type=color]", "change")
    until(tab, "polyad.store.classes.get(1).color === '#00ff00'")
    tab.click("#classes li:first-child .quiet")
    until(tab, "!polyad.store.classes.has(1)")
    tab.click("#undo")
    until(tab, "polyad.store.classes.get(1)?.name === 'Sea'")


def test_wheel_zooms_to_the_pixel_and_bands_can_be_picked(tab, page):
    open_page(tab, page)
    before = tab.evaluate("polyad.viewer.scale")
    tab.mouse.move(*place(tab, 10, 10))
    tab.mouse.wheel(0, -600)
    until(tab, "before => polyad.viewer.scale > 2 * before", before)
    x, y = place(tab, 10, 10)
    under = """([x, y]) => { const box = polyad.viewer.canvas.getBoundingClientRect();
        return polyad.viewer.pixel(x - box.left, y - box.top); }"""
    assert tab.evaluate(under, [x, y]) == [10, 10]
    tab.click("#colour-panel summary")
    tab.locator("#bands input").first.fill("7")
    assert tab.evaluate("polyad.viewer.bands[0]") == 7
    tab.fill("#low", "10")
    tab.press("#low", "Tab")
    until(tab, "[...polyad.viewer.tiles.keys()].some(u => u.includes('low=10'))")


def test_a_phone_labels_by_a_tap_and_nothing_is_wider_than_the_screen(browser, page):
    context = browser.new_context(viewport={"width": 375, "height": 720}, has_touch=True)
    phone = context.new_page()
    open_page(phone, page)
    phone.touchscreen.tap(*place(phone, 6, 6))
    label_count(phone, 1)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 375
    context.close()


def test_the_page_says_when_the_server_is_gone(browser, page):
    context = browser.new_context()
    lonely = context.new_page()
    open_page(lonely, page)
    page.stop()
    lonely.wait_for_selector('#status[data-kind="problem"]')
    assert "labels are safe" in lonely.inner_text("#status")
    context.close()
