"""The page in a real Chromium: what a person does in the first five minutes."""

import numpy as np
import pytest

from polyad.app import prepare
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_known, open_known_labels

FINAL = '#status[data-stage="final"]'


@pytest.fixture
def indian_pines(tmp_path):
    served = prepare("indian-pines", journal=tmp_path / "j").start()
    yield served
    served.stop()


def spread(truth, value, n, seed=0):
    where = np.argwhere(truth == value)
    return np.random.default_rng(seed).permutation(where)[:n].tolist()


def test_ten_clicks_in_each_of_two_classes_give_a_map_that_is_right(
    tab, indian_pines, tmp_path, kit
):
    truth = open_known_labels("indian-pines").values
    kit.open_page(tab, indian_pines)
    for name, value in (("Woods", 14), ("Soybean-mintill", 11)):
        kit.add_class(tab, name)
        for row, col in spread(truth, value, 10):
            tab.mouse.click(*kit.place(tab, row, col))
    kit.label_count(tab, 20)
    tab.wait_for_selector(f'{FINAL}[data-revision="20"]')
    kit.until(tab, "polyad.viewer.shownVersion === polyad.store.map.version")

    ids = indian_pines.workspace.trainer.newest_map.ids
    right = [(ids[truth == value] == mine).mean() for mine, value in ((1, 14), (2, 11))]
    assert min(right) > 0.9
    assert tab.inner_text("#label-count") == "20 labels"

    tab.click("#undo")
    kit.label_count(tab, 19)
    tab.click("#redo")
    kit.label_count(tab, 20)

    with tab.expect_download() as saved:
        tab.click("#save-csv")
    saved.value.save_as(tmp_path / "labels.csv")
    labels = open_labels(tmp_path / "labels.csv", open_known("indian-pines"))
    assert labels.attrs["class_names"] == ["Woods", "Soybean-mintill"]
    assert int((labels > 0).sum()) == 20

    tab.reload()
    kit.label_count(tab, 20)
    assert tab.inner_text("#classes li:first-child .name") == "Woods"

    for position in (0, 0):  # delete both classes, then load what was saved
        tab.locator("#classes .remove").nth(position).click()
        kit.until(tab, "!polyad.store.pending")
    kit.label_count(tab, 0)
    tab.set_input_files("#load", tmp_path / "labels.csv")
    kit.label_count(tab, 20)


def test_drag_labels_shift_erases_and_one_undo_takes_a_stroke(tab, page, kit):
    kit.open_page(tab, page)
    tab.mouse.move(*kit.place(tab, 5, 3))
    tab.mouse.down()
    tab.mouse.move(*kit.place(tab, 5, 9), steps=4)
    tab.mouse.up()
    kit.label_count(tab, 7)
    tab.keyboard.down("Shift")
    tab.mouse.click(*kit.place(tab, 5, 4))
    tab.keyboard.up("Shift")
    kit.label_count(tab, 6)
    tab.keyboard.press("z")
    kit.label_count(tab, 7)
    tab.keyboard.press("z")
    kit.label_count(tab, 0)


def test_the_keyboard_alone_is_enough(tab, page, kit):
    kit.open_page(tab, page)
    tab.keyboard.press("a")
    tab.keyboard.type("By key")
    tab.keyboard.press("Enter")
    kit.until(tab, "polyad.store.classes.size === 4")
    tab.keyboard.press("Escape")
    tab.keyboard.press("ArrowDown")  # the cursor appears in the middle
    for key in ("1", "2"):
        tab.keyboard.press(key)
        for _ in range(3):
            tab.keyboard.press("Enter")
            tab.keyboard.press("ArrowRight")
        tab.keyboard.press("Shift+ArrowUp")
    kit.label_count(tab, 6)
    tab.wait_for_selector(f'{FINAL}[data-revision="6"]')
    tab.keyboard.press("n")
    tab.wait_for_selector("#hint:not([hidden])")
    row, col, _ = page.workspace.trainer.newest_map.about["advice"][0]
    assert tab.evaluate("[polyad.viewer.cursor.row, polyad.viewer.cursor.col]") == [row, col]
    tab.keyboard.press("Enter")
    kit.label_count(tab, 7)
    tab.keyboard.press("Backspace")
    kit.label_count(tab, 6)
    tab.keyboard.down("h")
    assert tab.evaluate("polyad.viewer.hidden")
    tab.keyboard.up("h")
    assert not tab.evaluate("polyad.viewer.hidden")
    tab.keyboard.press("u")
    assert tab.evaluate("polyad.viewer.overlay") == "uncertainty"
    tab.keyboard.press("?")
    assert "where to click next" in tab.inner_text("#keys")
    tab.keyboard.press("Escape")
    kit.until(tab, "!document.querySelector('#keys').open")


def test_two_tabs_see_each_others_labels_and_maps(browser, tab, page, kit):
    kit.open_page(tab, page)
    context = browser.new_context()
    other = context.new_page()
    kit.open_page(other, page)
    tab.mouse.click(*kit.place(tab, 4, 4))
    kit.until(other, "polyad.store.labels.get('4,4') === 1")
    other.mouse.click(*kit.place(other, 4, 4))  # the same again changes nothing
    kit.label_some(page.workspace.session)
    for each in (tab, other):
        each.wait_for_selector(f'{FINAL}[data-revision="4"]')
        assert each.evaluate("polyad.store.labels.size") == 16
    assert tab.inner_text("#score-overall").endswith("%")
    context.close()


def test_a_class_named_script_is_a_name(tab, page, kit):
    kit.open_page(tab, page)
    name = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    kit.add_class(tab, name)
    assert tab.inner_text("#classes li:last-child .name") == name
    tab.mouse.click(*kit.place(tab, 4, 4))
    kit.label_count(tab, 1)
    tab.mouse.move(*kit.place(tab, 9, 9))
    tab.mouse.move(*kit.place(tab, 4, 4))
    kit.until(tab, "document.querySelector('#under').textContent.includes('<script>')")
    assert tab.evaluate("window.hacked") is None


def test_classes_are_recolored_and_deleted_on_the_page(tab, page, kit):
    kit.open_page(tab, page)
    tab.fill("#classes li:first-child input[type=color]", "#00ff00")
    tab.dispatch_event("#classes li:first-child input[type=color]", "change")
    kit.until(tab, "polyad.store.classes.get(1).color === '#00ff00'")
    tab.click("#classes li:first-child .remove")
    kit.until(tab, "!polyad.store.classes.has(1)")
    tab.click("#undo")
    kit.until(tab, "polyad.store.classes.get(1)?.color === '#00ff00'")


def test_wheel_zooms_to_the_pixel_and_bands_can_be_picked(tab, page, kit):
    kit.open_page(tab, page)
    before = tab.evaluate("polyad.viewer.scale")
    tab.mouse.move(*kit.place(tab, 10, 10))
    tab.mouse.wheel(0, -600)
    kit.until(tab, "before => polyad.viewer.scale > 2 * before", before)
    x, y = kit.place(tab, 10, 10)
    under = """([x, y]) => { const box = polyad.viewer.canvas.getBoundingClientRect();
        return polyad.viewer.pixel(x - box.left, y - box.top); }"""
    assert tab.evaluate(under, [x, y]) == [10, 10]
    tab.click("#color-panel summary")
    tab.locator("#bands input").first.fill("7")
    assert tab.evaluate("polyad.viewer.bands[0]") == 7
    tab.fill("#low", "10")
    tab.press("#low", "Tab")
    kit.until(tab, "[...polyad.viewer.tiles.keys()].some(u => u.includes('low=10'))")


def test_a_phone_labels_by_a_tap_and_nothing_is_wider_than_the_screen(browser, page, kit):
    context = browser.new_context(viewport={"width": 375, "height": 720}, has_touch=True)
    phone = context.new_page()
    kit.open_page(phone, page)
    phone.touchscreen.tap(*kit.place(phone, 6, 6))
    kit.label_count(phone, 1)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 375
    context.close()


def test_the_page_and_a_download_say_when_the_server_is_gone(browser, page, kit):
    context = browser.new_context()
    lonely = context.new_page()
    kit.open_page(lonely, page)
    page.stop()
    lonely.wait_for_selector('#status[data-kind="problem"]')
    assert "labels are safe" in lonely.inner_text("#status")
    lonely.click("#save-csv")
    lonely.wait_for_selector("#toast:not([hidden])")
    assert "polyad does not answer; labels already given are safe" in lonely.inner_text("#toast")
    context.close()
