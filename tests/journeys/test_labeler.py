"""A labeler has a scene and no labels: click some pixels of each class, take the map home.

    polyad label scene.hdr

The page is used in a real Chromium with everything as it comes, and what it exports is what the
command line makes of the exported model.
"""

import json
from contextlib import contextmanager

import pytest
import rasterio

from tests.browser import CHROMIUM, FLAGS, add_class, place, until
from tests.waiting import PATIENCE

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; apt-get install chromium"
)

CLICKS = {
    "Corn": [(6, 3), (12, 8), (17, 12), (9, 13)],
    "Soil": [(8, 19), (12, 25), (18, 22), (15, 27)],
    "Water": [(26, 3), (31, 8), (36, 12), (28, 13)],
    "Woods": [(26, 19), (31, 25), (36, 22), (33, 27)],
}


@contextmanager
def opened(address):
    """Show a page in Chromium; fail at the end if its scripts did."""
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page()
        tab.set_default_timeout(1000 * PATIENCE)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto(address)
        yield tab
        browser.close()
    assert wrong == []


@needs_chromium
def test_sixteen_clicks_give_a_map_and_a_model_that_makes_the_same_map(user, land):
    running = user.starts("polyad label scene.hdr --no-browser")
    with opened(running.wait_for(r"http://\S+/(?=\s)")[0]) as tab:
        until(tab, "window.polyad?.store.scene && window.polyad.viewer.tiles.size")
        for name, pixels in CLICKS.items():
            add_class(tab, name)
            for row, col in pixels:
                tab.mouse.click(*place(tab, row, col))
        tab.wait_for_selector('#status[data-stage="final"][data-revision="16"]')
        for button, file in (("csv", "labels.csv"), ("map", "map.tif"), ("model", "model.polyad")):
            with tab.expect_download() as saved:
                tab.click(f"#save-{button}")
            saved.value.save_as(user / file)
    running.press_ctrl_c()

    assert len((user / "labels.csv").read_text().splitlines()) == 1 + 16
    with rasterio.open(user / "map.tif") as exported:
        class_ids = exported.read(1)
        assert exported.crs == land.crs
        assert exported.transform == land.grid
    assert (class_ids == land.truth)[land.seen].mean() > 0.9

    assert json.loads(user.types("polyad info model.polyad --json"))["classes"] == list(land.names)
    user.types("polyad map model.polyad scene.hdr --out again.tif")
    with rasterio.open(user / "again.tif") as made:
        assert (made.read(1) == class_ids).all()


@pytest.mark.slow
@needs_chromium
def test_a_sample_is_walked_through_and_gives_areas(user, land, model):
    """polyad map, sample, label --check, area: by keys and clicks, blind to the map."""
    user.types(f"polyad map {model} scene.hdr --out map.tif")
    user.types("polyad sample map.tif --size 12 --minimum 2 --blind --out sample.csv")
    check = "polyad label scene.hdr --check sample.csv --map map.tif --out checked.csv"
    running = user.starts(f"{check} --no-browser")
    with opened(running.wait_for(r"http://\S+/(?=\s)")[0]) as tab:
        until(tab, "window.polyad?.store.sample && window.polyad.viewer.tiles.size")
        assert tab.is_hidden("#map-panel")
        assert "Point 1 of 12: what is there?" in tab.inner_text("#asking")
        tab.focus("#view")
        for k in range(12):
            point = tab.evaluate("polyad.store.current")
            assert point == k
            row, col = tab.evaluate("polyad.store.pixel(polyad.store.current)")
            x, y = place(tab, row, col)  # the point is in view, and large enough to be seen
            box = tab.locator("#view").bounding_box()
            assert box["x"] < x < box["x"] + box["width"]
            assert box["y"] < y < box["y"] + box["height"]
            assert tab.evaluate("polyad.viewer.scale") >= 14
            seen = int(land.truth[row, col])
            if k == 3:
                tab.keyboard.press("t")
                tab.keyboard.type("in the shade")
                tab.keyboard.press("Enter")
                tab.keyboard.press("x")
            elif k == 5:
                tab.click(f"#choices button >> nth={seen - 1}")
            else:
                tab.keyboard.press(str(seen))
            until(tab, "n => polyad.store.done === n && !polyad.store.pending", k + 1)
        assert "12 of 12 checked, 1 unsure" in tab.inner_text("#points-note")
        tab.click("#list-unsure")
        assert tab.locator("#points button").count() == 1
        assert "the map says" not in tab.inner_text("body")
    assert "12 of 12 points are checked, of which 1 unsure" in running.press_ctrl_c()

    refused = user.starts("polyad area map.tif checked.csv || true").read()
    assert "1 of 12 points have no 'reference' yet, the first in line 5" in " ".join(
        refused.split()
    )
    told = json.loads(user.types("polyad area map.tif checked.csv --skip-empty --json"))
    assert (told["n_points"], told["n_left_out"]) == (11, 1)
    assert [row["name"] for row in told["classes"]] == list(land.names)

    again = user.starts(f"{check} --no-browser")  # resumed: the shade was walked into
    assert "12 of 12 points are checked" in again.wait_for(r"\d+ of \d+ points are checked")[0]
    again.press_ctrl_c()
