"""GeoTIFFs at an address, served by this machine to itself; no test needs the network."""

import re
import shutil
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from polyad import sandbox
from polyad.cli.program import make_app
from polyad.errors import SceneError
from polyad.scene.raster.scene import lazy_scene
from polyad.scene.read.formats import remote
from polyad.scene.read.formats.kinds import ConfinedSource
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

CUBE = np.random.default_rng(7).integers(0, 9999, (512, 512, 4)).astype(np.uint16)
UTM = Affine(30, 0, 500000, 0, -30, 4000000)


def open_remote(address, budget):
    opened = remote.open_remote(address, budget)
    return lazy_scene(opened.source, **opened.description)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("cog") / "cog.tif"
    with rasterio.open(
        path, "w", driver="COG", width=512, height=512, count=4, dtype="uint16", nodata=0,
        crs="EPSG:32633", transform=UTM, blocksize=128, compress="deflate",
    ) as file:  # fmt: skip
        file.write(np.moveaxis(CUBE, -1, 0))
        for band, nm in enumerate((450, 550, 650, 750), 1):
            file.update_tags(band, wavelength=str(nm), wavelength_units="nm")
    return path.read_bytes()


@contextmanager
def serving(content, certificate=None):
    """Serve the file at /cog.tif, and some answers that are no good; give address and requests."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Range")))
            if self.path.startswith("/to="):
                self.send_response(302)
                self.send_header("Location", self.path[4:])
                self.end_headers()
                return
            start, stop = map(int, re.match(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
            part = content[start : stop + 1]
            if self.path == "/whole.tif":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(content)
                return
            if self.path == "/late.tif" and start > 10**5:
                self.send_error(503)
                return
            first = start + 1 if self.path == "/other.tif" else start
            self.send_response(404 if self.path == "/none.tif" else 206)
            self.send_header(
                "Content-Range", f"bytes {first}-{start + len(part) - 1}/{len(content)}"
            )
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part[: len(part) // 2] if self.path == "/short.tif" else part)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def served(content, monkeypatch):
    monkeypatch.setattr(remote, "SCHEMES", ("http",))
    monkeypatch.setattr(remote, "_BLOCK", 16 * 2**10)
    with serving(content) as server:
        yield server
    remote._opened.cache_clear()


@pytest.fixture
def served_with_certificate(content, monkeypatch, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    certificate = tmp_path / "certificate.pem"
    options = (
        "-x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        ["openssl", "req", *options.split(), "-keyout", certificate, "-out", tmp_path / "c.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    certificate.write_text(certificate.read_text() + (tmp_path / "c.pem").read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "c.pem"))
    sandbox.close()  # the next has this environment
    with serving(content, certificate) as server:
        yield server
    sandbox.close()


def test_an_address_is_read_in_a_confined_process(served_with_certificate):
    address, asked = served_with_certificate
    scene = open_scene(f"{address}/cog.tif", remote=True)
    assert isinstance(scene.variable._data.array.source, ConfinedSource)
    assert_array_equal(scene[10:90, 130:200].values, CUBE[10:90, 130:200])
    assert asked
    with pytest.raises(SceneError, match=r"redirects to 'http://.*no https address"):
        open_scene(f"{address}/to=http://127.0.0.1:{urlsplit(address).port}/x.tif", remote=True)


def test_remote_cog_is_the_same_scene_as_the_file(served):
    scene = open_remote(served[0] + "/cog.tif", 2**30)
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.wavelength, [450, 550, 650, 750])
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM
    assert scene.rio.nodata == 0


def test_remote_window_fetches_the_tiles_of_that_window_only(served, content):
    scene = open_remote(served[0] + "/cog.tif", 2**30)
    served[1].clear()
    part = scene.isel(y=slice(10, 90), x=slice(130, 200), band=[2])
    assert_array_equal(part.values, CUBE[10:90, 130:200][..., [2]])
    spans = [tuple(map(int, re.findall(r"\d+", span))) for _, span in served[1]]
    assert sum(stop - start + 1 for start, stop in spans) < len(content) / 4
    assert {path for path, _ in served[1]} == {"/cog.tif"}


@pytest.mark.parametrize(("name", "why"), [
    ("none.tif", "404"), ("whole.tif", "does not send parts of a file"),
    ("other.tif", "another part than was asked for"), ("short.tif", "IncompleteRead|fewer or more"),
    ("to=file:///etc/passwd", "'file:///etc/passwd' is not allowed"),
    ("to=ftp://127.0.0.1/x.tif", "redirects to 'ftp:"),
])  # fmt: skip
def test_remote_answer_that_is_no_part_of_a_file_is_refused(served, name, why):
    with pytest.raises(SceneError, match=why):
        remote.open_remote(f"{served[0]}/{name}", 2**30)


def test_remote_redirect_to_an_address_of_the_same_kind_is_followed(served):
    scene = open_remote(f"{served[0]}/to={served[0]}/cog.tif", 2**30)
    assert_array_equal(scene[:4, :4].values, CUBE[:4, :4])


def test_remote_trouble_after_the_header_is_told_with_its_rows(served):
    scene = open_remote(served[0] + "/late.tif", 2**30)
    with pytest.raises(SceneError, match=r"late\.tif.*503"):
        scene.load()


def test_address_is_read_only_when_asked_for():
    with pytest.raises(SceneError, match=r"add --remote \(in Python, remote=True\)"):
        open_scene("https://127.0.0.1:1/scene.tif")


@pytest.mark.parametrize("address", ["http://127.0.0.1/s.tif", "ftp://h/s.tif", "s3://b/s.tif"])
def test_other_addresses_are_refused_also_when_asked_for(address):
    with pytest.raises(SceneError, match="expected a file or an https:// address"):
        open_scene(address, remote=True)


def test_remote_address_that_does_not_answer_is_one_sentence():
    with pytest.raises(SceneError, match=r"https://127\.0\.0\.1:1/scene.tif: cannot be read"):
        open_scene("https://127.0.0.1:1/scene.tif", remote=True)


@pytest.mark.parametrize("command", [["info"], ["train"], ["map", "m.polyad"], ["evaluate", "m"]])
def test_commands_that_open_scenes_name_the_option(command):
    assert "--remote" in CliRunner().invoke(make_app(), [command[0], "--help"]).output


def test_info_of_an_address_without_the_option_is_refused():
    result = CliRunner().invoke(make_app(), ["info", "https://127.0.0.1:1/scene.tif"])
    assert result.exit_code != 0
    assert "add --remote" in str(result.exception) + result.output
