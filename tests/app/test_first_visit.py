"""Both pages as a new user meets them: what they say, show and refuse, and that all can read it."""

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from polyad.app import prepare, prepare_check
from polyad.scene import draw_sample
from polyad.scene.raster.scene import describe
from tests.waiting import PATIENCE

AXE = Path(__file__).parents[2] / "tools" / "page" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental"]
BROKEN = """async (tags) => {
    const { violations } = await axe.run({ runOnly: { type: "tag", values: tags } });
    return violations.flatMap((rule) => rule.nodes.map((node) => [rule.id, node.html]));
}"""


@pytest.fixture(scope="module")
def labeling(kit, tmp_path_factory):
    """The page of a scene whose first five columns have no data, mapped from fifteen labels."""
    scene, truth = kit.make_scene()
    values = scene.values.copy()
    values[:, :5] = np.nan
    folder = tmp_path_factory.mktemp("labeling")
    served = prepare(
        scene.copy(data=values), truth=truth, journal=folder / "j", settings=kit.quick
    ).start()
    for value, left in ((1, 6), (2, 16), (3, 30)):
        pixels = [[3 * k + 2, left + k] for k in range(5)]
        served.workspace.session.do({"do": "label", "class": value, "pixels": pixels})
    served.workspace.trainer.final_model()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def checking(kit, tmp_path_factory):
    """The page of a sample, as `polyad label --check` starts it."""
    scene, truth = kit.make_scene()
    placed = describe(truth, crs="EPSG:32632", transform=scene.rio.transform())
    folder = tmp_path_factory.mktemp("checking")
    draw_sample(placed, 12, random_state=1).save(folder / "s.csv")
    served = prepare_check(scene, folder / "s.csv", placed).start()
    served.workspace.do({"point": 10, "class": 1, "note": "a road"})
    served.workspace.do({"point": 11, "unsure": True})
    yield served
    served.stop()


@pytest.fixture(scope="module")
def restarted(kit, tmp_path_factory):
    """A page started again with 96 labels, before its first fit; ``gate`` lets a download go on."""
    scene, truth = kit.make_scene()
    labels = truth.copy(data=np.where(np.indices(truth.shape)[0] % 30 < 3, truth.values, 0))
    labels[:, ::5] = 0
    folder = tmp_path_factory.mktemp("restarted")
    served = prepare(scene, labels=labels, journal=folder / "j", settings=kit.quick)
    gate = threading.Event()
    served.workspace.trainer.start = lambda: None
    served.workspace.trainer.final_model = lambda: gate.wait(PATIENCE) and None
    yield SimpleNamespace(page=served.start(), gate=gate)
    served.stop()


# -- the labeling page -----------------------------------------------------------------------------


def test_a_click_where_there_is_no_data_is_refused_with_a_message(tab, labeling, kit):
    kit.open_page(tab, labeling)
    tab.mouse.move(*kit.place(tab, 9, 3))
    kit.until(tab, "document.querySelector('#spectrum-note').textContent.endsWith('no data')")
    tab.mouse.click(*kit.place(tab, 9, 3))
    tab.wait_for_selector("#toast:not([hidden])")
    assert "not labeled: pixel [9, 3] has no data" in tab.inner_text("#toast")
    kit.label_count(tab, 15)
    tab.wrong.clear()  # the browser itself notes the refusal


def test_a_stroke_over_the_edge_of_the_data_keeps_what_has_data(tab, labeling, kit):
    kit.open_page(tab, labeling)
    tab.mouse.move(*kit.place(tab, 25, 6))
    tab.mouse.down()
    tab.mouse.move(*kit.place(tab, 25, 3), steps=3)
    tab.mouse.up()
    tab.wait_for_selector("#toast:not([hidden])")
    assert "no data" in tab.inner_text("#toast")
    kit.label_count(tab, 17)
    tab.keyboard.press("z")
    kit.label_count(tab, 15)
    tab.wrong.clear()  # a part of the stroke with no data at all is refused


def test_the_pointer_has_map_coordinates_with_unit_and_reference_system(tab, labeling, kit):
    kit.open_page(tab, labeling)
    tab.mouse.move(*kit.place(tab, 6, 17))
    kit.until(tab, "document.querySelector('#place').textContent === 'row 6, column 17'")
    assert tab.inner_text("#coordinates") == "x 500525 m, y 5199805 m"  # the pixel's center
    assert tab.inner_text("#crs") == "WGS 84 / UTM zone 32N (EPSG:32632)"
    degrees = {"transform": [0.0003, 0, 9, 0, -0.0003, 47], "crs": "WGS 84", "unit": "°"}
    script = """async (scene) => (await import(new URL("static/frame.js", location.href)))
        .showPlace(scene, 10, 20)"""
    tab.evaluate(script, degrees)
    assert tab.inner_text("#coordinates") == "longitude 9.00615°, latitude 46.99685°"


def test_a_shapefile_is_loaded_from_its_files_chosen_together(tab, labeling, kit, tmp_path):
    pyogrio = pytest.importorskip("pyogrio")
    import struct

    shapes = [struct.pack("<BIdd", 1, 1, x, 5199415.0) for x in (500615.0, 500645.0, 500945.0)]
    kinds = np.array(["Corn", "Corn", "Soil"], object)
    pyogrio.raw.write(
        tmp_path / "plots.shp", np.array(shapes, object), [kinds], ["kind"],
        geometry_type="Point", crs="EPSG:32632",
    )  # fmt: skip
    (tmp_path / "plots.shp.xml").write_text("<metadata/>")  # which ArcGIS writes
    kit.open_page(tab, labeling)
    tab.set_input_files("#load", sorted(tmp_path.iterdir()))
    kit.until(tab, "[...polyad.store.classes.values()].some((c) => c.name === 'Soil')")
    kit.label_count(tab, 18)
    colors = tab.evaluate("[...polyad.store.classes.values()].map((c) => c.color.toLowerCase())")
    assert len(set(colors)) == 4
    tab.set_input_files("#load", [tmp_path / "plots.shp"])
    kit.until(tab, "document.querySelector('#toast').textContent.includes('missing')")
    assert "choose all of them together" in tab.inner_text("#toast")
    tab.wrong.clear()  # the browser itself notes the refusal
    tab.click("#undo")
    kit.label_count(tab, 15)


def test_a_page_started_again_says_that_its_map_is_being_computed(tab, restarted, kit):
    kit.open_page(tab, restarted.page)
    count = tab.evaluate("polyad.store.labels.size")
    assert count > 90
    assert tab.inner_text("#status") == f"computing the map of {count} labels"
    assert tab.inner_text("#map-note") == "being computed"
    restarted.page.workspace.events.publish("problem", {"message": "no map could be made"})
    kit.until(tab, "document.querySelector('#status').textContent === 'no map'")


def test_a_download_says_what_it_waits_for(tab, restarted, kit):
    kit.open_page(tab, restarted.page)
    publish = restarted.page.workspace.events.publish
    link = "document.querySelector('#save-map').textContent"
    tab.click("#save-map")
    assert tab.inner_text("#save-map") == "fitting…"
    assert tab.get_attribute("#save-map", "aria-busy") == "true"
    publish("progress", {"stage": "final", "share": 0.4, "labels": 96})
    kit.until(tab, f"{link} === 'mapping 40 %'")
    publish("map", {"version": 1, "stage": "final", "share": 1.0})
    kit.until(tab, f"{link} === 'writing…'")
    restarted.gate.set()
    kit.until(tab, f"{link} === 'GeoTIFF'")
    assert tab.get_attribute("#save-map", "aria-busy") is None
    tab.wrong.clear()  # there is no model here, which the browser notes


# -- the page on which a sample is checked ---------------------------------------------------------


def test_the_class_given_to_a_point_is_not_outlined_at_the_next(tab, checking, kit):
    kit.open_page(tab, checking)
    tab.keyboard.press("2")
    kit.until(tab, "polyad.store.current === 1 && !polyad.store.pending")
    assert tab.locator("#choices .on, #choices [aria-pressed=true]").count() == 0
    tab.keyboard.press("ArrowLeft")  # back at the first, its answer is marked
    assert tab.locator("#choices .on[aria-pressed=true]").inner_text().split() == ["Corn", "2"]
    tab.keyboard.press("z")
    kit.until(tab, "polyad.store.done === 2 && !polyad.store.pending")


def test_a_sample_is_checked_blind_unless_asked_otherwise(tab, checking, kit):
    kit.open_page(tab, checking)
    assert tab.inner_text("#scene-name").endswith("blind")
    assert tab.is_hidden("#map-panel")
    assert "the map says" not in tab.inner_text("#answer-note")
    assert checking.workspace.map_ids is None


# -- accessibility ---------------------------------------------------------------------------------


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed; run make page")
@pytest.mark.parametrize("page_name", ["labeling", "checking"])
def test_axe_finds_nothing_to_object_to(request, browser, kit, page_name):
    served = request.getfixturevalue(page_name)
    context = browser.new_context(bypass_csp=True)  # the page allows no script but its own
    opened = context.new_page()
    kit.open_page(opened, served)
    if page_name == "labeling":
        opened.wait_for_selector('#status[data-stage="final"]')
        opened.keyboard.press("n")  # a suggestion
        opened.keyboard.press("u")  # the legend
    opened.evaluate("document.querySelector('#color-panel').open = true")
    opened.add_script_tag(path=AXE)
    found = []
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
        opened.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        opened.set_viewport_size({"width": width, "height": 2000})
        found += [(scheme, width, *broken) for broken in opened.evaluate(BROKEN, RULES)]
    opened.evaluate("document.querySelector('#keys').showModal()")
    found += [("help", *broken) for broken in opened.evaluate(BROKEN, RULES)]
    context.close()
    assert found == []
