import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import xarray as xr
from affine import Affine

from polyad.app import Settings, prepare
from polyad.scene.classes import ClassInfo, with_classes
from polyad.scene.readers import scene_from_array

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
    monkeypatch.setattr("polyad.app.fitter.SETTLE", 0.0)


@pytest.fixture
def scene():
    return make_scene()[0]


@pytest.fixture
def truth():
    return make_scene()[1]


QUICK = Settings(window=3, preset="fast", parameters={"hidden": 8, "epochs": 30})


@pytest.fixture
def page(scene, truth, tmp_path):
    served = prepare(scene, truth=truth, journal=tmp_path / "j.jsonl", settings=QUICK).start()
    yield served
    served.stop()


@pytest.fixture
def client(page):
    with httpx.Client(base_url=page.url, timeout=30) as opened:
        yield opened


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def label_some(session, per_class=5):
    """Label the first pixels of a diagonal in each of the three fields."""
    for value, left in ((1, 2), (2, 16), (3, 30)):
        pixels = [[3 * k + 2, left + k] for k in range(per_class)]
        session.do({"do": "label", "class": value, "pixels": pixels})


def finished(fitter):
    mapped = fitter.mapped
    return mapped.stage == "final" and mapped.revision == fitter.session.snapshot().revision


@pytest.fixture(scope="session")
def kit():
    """What the tests share beside the fixtures; test files cannot import this one."""
    return SimpleNamespace(
        make_scene=make_scene,
        quick=QUICK,
        wait_for=wait_for,
        label_some=label_some,
        finished=finished,
    )
