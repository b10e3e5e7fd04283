from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import xarray as xr
from affine import Affine

from polyad.app import TrainSettings, prepare
from polyad.app.labels import Session
from polyad.app.trainer import Trainer
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.scenes import scene_from_array
from tests.browser import CHROMIUM, FLAGS, add_class, place, until
from tests.waiting import PATIENCE, wait_until

CLASSES = [
    ClassInfo(1, "Water", "#4477AA"),
    ClassInfo(2, "Corn", "#EE7733"),
    ClassInfo(3, "Woods", "#117733"),
]
HEIGHT, WIDTH, BANDS = 30, 40, 8


def make_scene(seed=0, height=HEIGHT, width=WIDTH):
    """Three fields side by side, each with its spectrum and some noise; and their truth."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((height, width), np.uint16)
    truth[:, : width // 3], truth[:, width // 3 : 2 * width // 3] = 1, 2
    truth[:, 2 * width // 3 :] = 3
    spectra = np.array([np.linspace(100, 50, BANDS), np.linspace(50, 150, BANDS),
                        100 + 50 * np.sin(np.arange(BANDS))])  # fmt: skip
    values = spectra[truth - 1] + rng.normal(scale=6, size=(height, width, BANDS))
    scene = scene_from_array(
        values.astype(np.float32),
        wavelength=np.linspace(450, 900, BANDS),
        crs="EPSG:32632",
        transform=Affine(30.0, 0.0, 500000.0, 0.0, -30.0, 5200000.0),
    )
    labels = with_classes(xr.DataArray(truth, dims=("y", "x")), CLASSES)
    return scene, labels


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Fit the final model at once: tests label faster than people."""
    monkeypatch.setattr("polyad.app.trainer.FINAL_DELAY", 0.0)


@pytest.fixture
def scene():
    return make_scene()[0]


@pytest.fixture
def truth():
    return make_scene()[1]


QUICK = TrainSettings(window=3, preset="fast", parameters={"hidden": 8, "epochs": 30})


@pytest.fixture
def page(scene, truth, tmp_path):
    served = prepare(scene, truth=truth, journal=tmp_path / "j.jsonl", settings=QUICK).start()
    yield served
    served.stop()


@pytest.fixture
def client(page):
    with httpx.Client(base_url=page.url, timeout=PATIENCE) as opened:
        yield opened


@pytest.fixture
def make_work(scene, tmp_path):
    """Make a session with three classes, a trainer that runs, and what it published."""
    begun = []

    def make(settings, truth=None):
        session = Session(scene, journal=tmp_path / "work.jsonl")
        for name in ("Water", "Corn", "Woods"):
            session.do({"do": "add", "name": name})
        news = []
        trainer = Trainer(scene, session, lambda *what: news.append(what), truth, settings)
        begun.append((session, trainer))
        trainer.start()
        return session, trainer, news

    yield make
    for session, trainer in begun:
        trainer.stop()
        trainer.join(PATIENCE)
        session.close()


def label_some(session, per_class=5):
    """Label the first pixels of a diagonal in each of the three fields."""
    for value, left in ((1, 2), (2, 16), (3, 30)):
        pixels = [[3 * k + 2, left + k] for k in range(per_class)]
        session.do({"do": "label", "class": value, "pixels": pixels})


def finished(trainer):
    newest = trainer.newest_map
    return newest.stage == "final" and newest.revision == trainer.session.snapshot().revision


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; apt-get install chromium")
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
    # A test stops its server at its end, and the page may ask once more before it is closed
    assert [text for text in wrong if "ERR_CONNECTION_REFUSED" not in text] == []


def local(url):
    return url.startswith("blob:") or httpx.URL(url).host == "127.0.0.1"


def painted(tab):
    """Wait until every tile has come and is on the screen."""
    until(tab, "[...polyad.viewer.tiles.values()].every(image => image.complete)")
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def open_page(tab, served):
    tab.set_default_timeout(1000 * PATIENCE)
    tab.goto(served.url)
    until(tab, "window.polyad?.store.scene && window.polyad.viewer.tiles.size")


def label_count(tab, n):
    until(tab, "n => polyad.store.labels.size === n && !polyad.store.pending", n)


@pytest.fixture(scope="session")
def kit():
    """What the tests share beside the fixtures; test files cannot import this one."""
    return SimpleNamespace(
        make_scene=make_scene,
        quick=QUICK,
        wait_for=wait_until,
        label_some=label_some,
        finished=finished,
        until=until,
        painted=painted,
        open_page=open_page,
        add_class=add_class,
        place=place,
        label_count=label_count,
    )
