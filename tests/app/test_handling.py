"""The page by mouse, keys and fingers: what is pressed does what it says, and can be read."""

import io

import numpy as np
import pytest
from PIL import Image

from polyad.app import prepare
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES

FINAL = '#status[data-stage="final"]'
SALINAS = list(KNOWN_SCENES["salinas"].class_names)
PHONE = {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def phone(browser):
    context = browser.new_context(**PHONE)
    yield context.new_page()
    context.close()


@pytest.fixture
def mapped_page(page, kit):
    """The page of a scene with fifteen labels and its final map."""
    kit.label_some(page.workspace.session)
    page.workspace.trainer.final_model()
    return page


@pytest.fixture
def sixteen(scene, tmp_path, kit):
    """A page with the sixteen classes of Salinas, four of which differ in their last letters."""
    served = prepare(scene, journal=tmp_path / "j", settings=kit.quick).start()
    for name in SALINAS:
        served.workspace.session.do({"do": "add", "name": name})
    yield served
    served.stop()


def open_with_map(tab, served, kit):
    kit.open_page(tab, served)
    tab.wait_for_selector(FINAL)
    kit.until(tab, "polyad.viewer.shownVersion === polyad.store.map.version")


def suggested(tab):
    return tab.evaluate("polyad.viewer.suggested")


def label_at(tab, pixel):
    return tab.evaluate("([row, col]) => polyad.store.labels.get(`${row},${col}`)", pixel)


def focused(tab):
    return tab.evaluate("document.activeElement.id")


def row(position):
    return f"#classes li:nth-child({position})"


# -- where to click next --------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["mouse", "key"])
def test_enter_after_a_press_on_next_labels_the_suggested_pixel(tab, mapped_page, kit, way):
    open_with_map(tab, mapped_page, kit)
    tab.click(f"{row(2)} .key")
    if way == "mouse":
        tab.click("#next")
        assert focused(tab) == "view"
    else:
        tab.focus("#next")
        tab.keyboard.press("Enter")
    pixel = suggested(tab)
    if way == "mouse":
        tab.mouse.move(*kit.place(tab, 12, 20))  # on its way the mouse crosses the scene
    tab.keyboard.press("Enter")
    kit.label_count(tab, 16)
    assert label_at(tab, pixel) == 2
    assert tab.is_hidden("#hint")


def test_a_finger_chooses_a_class_and_labels_the_suggested_pixel(phone, mapped_page, kit):
    open_with_map(phone, mapped_page, kit)
    phone.tap("#next")
    pixel = suggested(phone)
    phone.tap(f"{row(3)} .name")
    assert phone.inner_text("#hint-class") == "Woods"
    phone.tap("#hint-label")
    kit.label_count(phone, 16)
    assert label_at(phone, pixel) == 3


def test_a_suggestion_is_skipped_and_closed_by_its_buttons(tab, mapped_page, kit):
    open_with_map(tab, mapped_page, kit)
    tab.click("#next")
    first = suggested(tab)
    tab.click("#hint-skip")
    assert suggested(tab) != first
    tab.keyboard.press("Shift+N")
    assert suggested(tab) == first
    tab.focus("#hint-close")
    tab.keyboard.press("Enter")
    assert tab.is_hidden("#hint")
    assert suggested(tab) is None
    assert focused(tab) == "view"
    kit.label_count(tab, 15)


def test_a_new_map_leaves_the_suggestion_where_it_is(tab, mapped_page, kit):
    open_with_map(tab, mapped_page, kit)
    tab.click("#next")
    pixel = suggested(tab)
    version = tab.evaluate("polyad.store.map.version")
    mapped_page.workspace.session.do({"do": "label", "class": 1, "pixels": [[20, 5]]})
    kit.until(tab, "v => polyad.store.map.version > v + 1", version)
    assert suggested(tab) == pixel
    assert tab.is_visible("#hint-label")


@pytest.mark.parametrize("width", [375, 900, 1200])
def test_a_suggestion_at_the_edge_lies_clear_of_the_banner(tab, mapped_page, kit, width):
    tab.set_viewport_size({"width": width, "height": 720})
    open_with_map(tab, mapped_page, kit)
    tab.evaluate("polyad.store.map.advice = [[0, 39, 0.9]]")
    tab.click("#next")
    hit = "([x, y]) => document.elementFromPoint(x, y).id"
    assert tab.evaluate(hit, kit.place(tab, 0, 39)) == "view"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_no_button_keeps_the_enter_that_follows_a_press(tab, mapped_page, kit):
    open_with_map(tab, mapped_page, kit)
    for button in ("#undo", "#zoom-in", "#tool-erase", "#show-scene", "#theme", "#save-csv"):
        tab.click(button)
        assert focused(tab) == "view", button


# -- classes --------------------------------------------------------------------------------------


def test_a_click_on_a_name_chooses_the_class_and_the_next_key_is_for_the_scene(
    tab, mapped_page, kit
):
    open_with_map(tab, mapped_page, kit)
    tab.click(f"{row(2)} .name")
    assert tab.evaluate("polyad.store.active") == 2
    tab.keyboard.press("n")
    assert tab.is_visible("#hint")
    assert tab.inner_text(f"{row(2)} .name") == "Corn"


@pytest.mark.parametrize("way", ["double click", "pencil", "F2", "keyboard"])
def test_a_class_is_renamed_on_purpose(tab, page, kit, way):
    kit.open_page(tab, page)
    if way == "double click":
        tab.dblclick(f"{row(2)} .name")
    elif way == "pencil":
        tab.click(f"{row(2)} .pencil")
    elif way == "F2":
        tab.keyboard.press("2")
        tab.keyboard.press("F2")
    else:
        tab.focus(f"{row(2)} .pencil")
        tab.keyboard.press("Enter")
    tab.keyboard.type("Maize")
    tab.keyboard.press("Enter")
    kit.until(tab, "polyad.store.classes.get(2).name === 'Maize' && !polyad.store.pending")
    assert tab.inner_text(f"{row(2)} .name") == "Maize"
    here = tab.evaluate("document.activeElement.dataset.part ?? document.activeElement.id")
    assert here == ("rename" if way == "keyboard" else "view")


def test_a_name_that_is_refused_stays_in_its_field_with_the_reason(tab, page, kit):
    kit.open_page(tab, page)
    tab.dblclick(f"{row(2)} .name")
    tab.keyboard.type("Water")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#toast:not([hidden])")
    assert "there is a class 'Water' already" in tab.inner_text("#toast")
    assert tab.input_value("#classes .rename") == "Water"
    tab.wrong.clear()  # the browser itself notes the refusal


def test_a_class_changed_in_another_tab_does_not_end_the_renaming(tab, page, kit):
    kit.open_page(tab, page)
    tab.dblclick(f"{row(2)} .name")
    tab.keyboard.type("Mai")
    page.workspace.session.do({"do": "add", "name": "Oats"})
    kit.until(tab, "polyad.store.classes.size === 4")
    tab.keyboard.type("ze")
    tab.keyboard.press("Enter")
    kit.until(tab, "polyad.store.classes.get(2).name === 'Maize'")


def cut_names(tab):
    """Return the names that do not fit into what is shown of them."""
    return tab.evaluate("""() => [...document.querySelectorAll("#classes .name")]
        .filter(n => n.scrollWidth > n.clientWidth || n.scrollHeight > n.clientHeight + 1
            || n.getBoundingClientRect().bottom > n.parentElement.getBoundingClientRect().bottom)
        .map(n => n.textContent)""")


@pytest.mark.parametrize("device", ["tab", "phone"])
def test_every_name_is_shown_to_its_last_letter(request, sixteen, kit, device):
    tab = request.getfixturevalue(device)
    kit.open_page(tab, sixteen)
    tab.wait_for_selector(row(16))
    assert tab.locator("#classes .name").all_inner_texts() == SALINAS
    assert cut_names(tab) == []
    assert tab.get_attribute(f"{row(11)} .name", "title") == SALINAS[10]
    width = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


# -- colors --------------------------------------------------------------------------------------


def test_the_uncertainty_has_a_legend_with_numbers(tab, mapped_page, kit):
    open_with_map(tab, mapped_page, kit)
    assert tab.is_hidden("#legend")
    tab.click("#show-uncertainty")
    words = tab.inner_text("#legend").split()
    assert words == ["0", "%", "sure", "50", "%", "unsure", "100", "%"]
    box = tab.locator("#legend-ramp").bounding_box()
    kit.painted(tab)
    picture = np.asarray(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"), int)
    y, x, w = (round(box[k]) for k in ("y", "x", "width"))
    sure, unsure = picture[y + 6, x + 3], picture[y + 6, x + w - 4]
    assert np.ptp(sure) < 40  # gray as the scene
    np.testing.assert_allclose(unsure, 0.8 * np.array([255, 225, 80]) + 0.2 * 128, atol=12)
    tab.keyboard.press("m")
    assert tab.is_hidden("#legend")


# -- without a mouse ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["tab", "phone"])
def test_everything_pressed_has_a_name_and_a_mark_when_focused(request, mapped_page, kit, device):
    tab = request.getfixturevalue(device)
    open_with_map(tab, mapped_page, kit)
    tab.keyboard.press("n")
    seen = set()
    for _ in range(80):
        tab.keyboard.press("Tab")
        about = tab.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(
                e.matches("#load") ? e.parentElement : e);
            return { id: e.id || e.dataset.part || e.tagName, name: e.getAttribute("aria-label")
                || e.labels?.[0]?.innerText || e.innerText || "", line: s.outlineStyle }; }""")
        if about["id"] in ("BODY", "HTML"):
            break
        assert about["name"].strip(), about
        assert about["line"] not in ("none", ""), about
        seen.add(about["id"])
    assert {"hint-label", "hint-skip", "hint-close", "choose", "rename", "delete", "view"} <= seen
