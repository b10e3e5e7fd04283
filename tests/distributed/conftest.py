"""One real cluster of two processes for all tests, a scene on disk and a model fitted on it."""

import numpy as np
import pytest

pytest.importorskip("distributed")

from polyad.distributed import open_cluster
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import map_file
from polyad.scene.read.scenes import open_scene
from tests.models import for_pixels, train_best
from tests.waiting import PATIENCE

HEIGHT, WIDTH, BANDS = 150, 110, 12
TILE = 8  # 266 tiles, the last ones cut
NODATA = -9


@pytest.fixture(scope="session")
def tile():
    return TILE


@pytest.fixture(scope="session")
def values():
    """Smooth fields of three classes with noise and a corner without data."""
    rng = np.random.default_rng(0)
    truth = truth_map()
    spectra = rng.normal(0, 300, (4, BANDS))
    cube = spectra[truth] + rng.normal(1000, 150, (HEIGHT, WIDTH, BANDS))
    cube[:9, -23:] = NODATA
    return cube.astype("<i2")


def truth_map():
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return ((y // 20 + x // 25) % 3 + 1).astype(np.uint8)


@pytest.fixture(scope="session")
def scene_path(values, envi, tmp_path_factory):
    return envi(tmp_path_factory.mktemp("scene") / "scene.hdr", values)


@pytest.fixture(scope="session")
def envi():
    """Write an ENVI scene."""
    return _write_envi


def _write_envi(path, values):
    rows, cols, bands = values.shape
    path.with_suffix(".img").write_bytes(values.tobytes())
    path.write_text(
        f"ENVI\nsamples = {cols}\nlines = {rows}\nbands = {bands}\nheader offset = 0\n"
        "data type = 2\ninterleave = bip\nbyte order = 0\n"
        f"data ignore value = {NODATA}\n"
        "map info = {UTM, 1, 1, 500000, 4000000, 30, 30, 16, North, WGS-84}\n"
    )
    return path


@pytest.fixture(scope="session")
def model(scene_path):
    scene = open_scene(scene_path)
    labels = scene.isel(band=0, drop=True).copy(data=truth_map().astype("int64"))
    pixels = np.argwhere(np.ones((HEIGHT, WIDTH - 30), bool))[::97]
    return train_on(scene, labels, pixels, preset="fast", hidden=6, rank=2, epochs=15)


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.polyad"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def wanted(model_path, scene_path, tmp_path_factory):
    """The map and its probabilities as one machine makes them, as bytes."""
    folder = tmp_path_factory.mktemp("expected")
    out, proba = folder / "map.tif", folder / "proba.tif"
    map_file(
        SceneModel.load(model_path), open_scene(scene_path), out, probabilities=proba, tile=TILE
    )
    return out.read_bytes(), proba.read_bytes()


@pytest.fixture(scope="session")
def best(scene_path, tmp_path_factory):
    """Model files of the best preset, by what its graphs join."""
    scene, folder = open_scene(scene_path), tmp_path_factory.mktemp("best")
    labels = scene.isel(band=0, drop=True).copy(data=truth_map().astype("int64"))
    pixels = np.argwhere(np.ones((HEIGHT, WIDTH - 30), bool))[::397]
    # Without folds, which could find that these labels are better not propagated
    model = train_best(scene, labels, pixels, window=3, hidden=6, folds=0, starts=1)
    paths = {}
    for nodes, count in (("pixels", 1), ("superpixels", 10**6)):
        paths[nodes] = folder / f"{nodes}.polyad"
        for_pixels(model, count).save(paths[nodes])
    return paths


@pytest.fixture(scope="session")
def alone(best, scene_path, tmp_path_factory):
    """Maps and their probabilities as one machine makes them, as bytes."""
    folder, found = tmp_path_factory.mktemp("alone"), {}
    for nodes, path in best.items():
        out, proba = folder / f"{nodes}.tif", folder / f"{nodes}-p.tif"
        map_file(SceneModel.load(path), open_scene(scene_path), out, probabilities=proba, tile=TILE)
        found[nodes] = out.read_bytes(), proba.read_bytes()
    assert found["pixels"] != found["superpixels"]
    return found


@pytest.fixture(scope="session")
def client():
    with open_cluster("local:2") as client:
        yield client


@pytest.fixture
def two_workers(client):
    """The client, when both workers are there: an earlier test may have killed one."""
    client.wait_for_workers(2, timeout=PATIENCE)
    return client


@pytest.fixture(scope="session")
def certificates(client, tmp_path_factory):
    """Dask's settings for a process that may use the cluster, as environment variables."""
    folder = tmp_path_factory.mktemp("certificates")
    files = {"cert": folder / "cert.pem", "key": folder / "key.pem"}
    files["cert"].write_text(client.security.tls_client_cert)
    files["key"].write_text(client.security.tls_client_key)
    tls = {"ca_file": files["cert"], "client__cert": files["cert"], "client__key": files["key"]}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{k.upper()}": str(v) for k, v in tls.items()}
