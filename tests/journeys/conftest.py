"""What every journey starts from: polyad as it is installed, a terminal, and a field campaign.

The scene is 40 x 30 pixels of four fields, small enough for every command to take moments, and laid
out as real products are: an ENVI file with a map info and bands that are marked bad, a GeoTIFF with
nodata, a MAT file with its ground truth in a second one.
"""

import csv
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rasterio
import scipy.io
import xarray as xr
from affine import Affine
from filelock import FileLock
from rasterio.warp import transform as reproject

from attacks.vectors import point, write
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]


# --- polyad as it is installed -------------------------------------------------------------------


@pytest.fixture(scope="session")
def once(tmp_path_factory, worker_id):
    """Return ``once(name, make)``: a folder that ``make`` fills once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent

    def call(name, make):
        folder, done = shared / name, shared / f"{name}.done"
        with FileLock(shared / f"{name}.lock"):
            if not done.exists():
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return call


@pytest.fixture(scope="session")
def installed(once):
    """The folder of a polyad that was built as a wheel and installed; its packages are ours."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.fail("hatchling builds the wheel and is not installed; run make test")
    return once("installed", _install)


def _install(folder):
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    wheel = os.environ.get("POLYAD_WHEEL")  # one that was built for a release
    if wheel is None:
        wheels = folder / "wheels"
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT]
        subprocess.run(build, check=True)
        (wheel,) = wheels.glob("*.whl")
    install = [*pip, "install", "--no-deps", "--no-index", "--target", folder, wheel]
    subprocess.run(install, check=True)


@pytest.fixture(scope="session")
def warm(installed):
    """The command that runs a script with its imports done, see warm.py."""
    folder = Path(tempfile.mkdtemp(prefix="polyad-"))  # a socket's name must be short
    python, place = [sys.executable, Path(__file__).with_name("warm.py")], folder / "socket"
    server = subprocess.Popen(
        [*python, "serve", place], env=os.environ | {"PYTHONPATH": str(installed)}
    )

    def ready():
        assert server.poll() is None
        return place.exists()

    wait_until(ready)
    command = [sys.executable, "-ES", str(python[1]), "run", str(place)]
    polyad = folder / "polyad"
    polyad.write_text(f'#!/bin/sh\nexec {shlex.join(command)} {installed}/bin/polyad "$@"\n')
    polyad.chmod(0o755)
    yield SimpleNamespace(bin=folder, command=command)
    server.kill()
    server.wait()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def user_at(installed, files, warm):
    """Return ``user_at(folder)``: somebody at a terminal, with the campaign's files."""

    def arrive(folder):
        shutil.copytree(files, folder / "campaign")
        return User(folder / "campaign", installed, warm)

    return arrive


@pytest.fixture
def user(user_at, tmp_path):
    """Somebody at a terminal, in a folder with the files of the campaign."""
    return user_at(tmp_path)


@pytest.fixture
def newcomer(installed, files, tmp_path):
    """A user whose every command starts cold, as it does outside of the tests."""
    shutil.copytree(files, tmp_path / "campaign")
    return User(tmp_path / "campaign", installed)


@pytest.fixture(scope="session")
def model(once, user_at, tmp_path_factory):
    """A model file that `polyad train` made with everything as it comes."""

    def train(folder):
        user = user_at(tmp_path_factory.mktemp("training"))
        user.types(f"polyad train scene.hdr labels.geojson --out {folder / 'model.polyad'}")

    return once("model", train) / "model.polyad"


class User:
    """Types commands and runs programs in a folder of their own; reads what is printed."""

    def __init__(self, folder, installed, warm=None):
        self.folder = folder
        self.python = warm.command if warm else [sys.executable]
        programs = [warm.bin] if warm else []
        programs += [installed / "bin", Path(sys.executable).parent]
        self.environment = os.environ | {
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "PYTHONPATH": str(installed),  # before the tree that the tests themselves import
            "POLYAD_DATA": str(folder.with_name("data")),
            "BROWSER": "true",  # the program of that name, which opens nothing
        }

    def types(self, commands):
        """Give commands to the shell and return what is on the screen when they are done."""
        return self.starts(commands).read()

    def runs(self, program):
        """Run a Python program and return what it printed."""
        return self.starts(program, "python").read()

    def starts(self, code, language="sh"):
        """Start commands, or a program, and return the terminal they run in."""
        if language == "sh":
            return Terminal(["sh", "-e", "-c", code], self)
        (self.folder / "program.py").write_text(code)
        return Terminal([*self.python, "program.py"], self)

    def __truediv__(self, name):
        return self.folder / name


class Terminal:
    """A running command and its screen."""

    def __init__(self, command, user):
        ours, theirs = os.openpty()  # a command that sees a terminal shows its bars and warnings
        self.process = subprocess.Popen(
            command, cwd=user.folder, env=user.environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        self._pieces = []
        self._reader = threading.Thread(target=self._collect, args=(ours,), daemon=True)
        self._reader.start()

    def _collect(self, ours):
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # Linux: the last program has closed the other end
                piece = b""
            if not piece:
                break
            self._pieces.append(piece)
        os.close(ours)

    @property
    def screen(self):
        return b"".join(self._pieces).decode().replace("\r\n", "\n")

    def wait_for(self, pattern):
        """Wait until a line matches, and return the match."""

        def matched():
            if ended := self.process.poll() is not None:
                self._reader.join()  # all that it printed is on the screen
            found = re.search(pattern, self.screen)
            assert found or not ended, self.screen
            return found

        return wait_until(matched)

    def read(self, warnings=()):
        """Wait for a good end and return what was printed; it warns of nothing else than said."""
        screen = self._end(warnings)
        assert self.process.returncode == 0, screen
        return screen

    def press_ctrl_c(self):
        """Interrupt what is running, wait for its end, and return what was printed."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self._end()

    def _end(self, warnings=()):
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self._reader.join()
        screen = self.screen
        assert "Traceback" not in screen, screen
        for words in warnings:
            assert words in screen
            screen = re.sub(rf".*Warning: .*{re.escape(words)}.*", "", screen)
        assert "Warning" not in screen, screen
        return screen


# --- a field campaign ----------------------------------------------------------------------------

HEIGHT, WIDTH, BANDS = 40, 30, 12
CRS, GRID = "EPSG:32633", Affine(10, 0, 500_000, 0, -10, 4_000_000)
NODATA = -9999
NM = np.linspace(450, 2200, BANDS)
NAMES = ("Corn", "Soil", "Water", "Woods")


@pytest.fixture(scope="session")
def land():
    """What is where: the ground truth, the class names, the grid."""
    return SimpleNamespace(truth=_truth(), names=NAMES, crs=CRS, grid=GRID, seen=_seen())


def _truth():
    """Return four fields that meet at row 22 and column 16."""
    truth = np.ones((HEIGHT, WIDTH), np.uint8)
    truth[:22, 16:], truth[22:, :16], truth[22:, 16:] = 2, 3, 4
    return truth


def _seen():
    """Return where there is data: not in the corner that the flight line missed."""
    seen = np.ones((HEIGHT, WIDTH), bool)
    seen[:4, -5:] = False
    return seen


def _counts():
    """Return every band of every pixel, with noise."""
    rng = np.random.default_rng(0)
    band = np.arange(BANDS) / BANDS
    spectra = 1000 + 400 * np.stack(
        [np.sin(6 * band), band, -band, np.where((band > 0.3) & (band < 0.7), 1, 0)]
    )
    counts = spectra[_truth() - 1] + rng.normal(0, 60, (HEIGHT, WIDTH, BANDS))
    return counts.round().astype(np.int16)


def _pixels():
    """Return the counts with a corner without data."""
    return np.where(_seen()[..., None], _counts(), np.int16(NODATA))


def _labeled():
    """Return (row, col, name) of twelve pixels of each class."""
    rows, cols = range(3, HEIGHT, 6), range(2, WIDTH - 5, 3)
    places = {(row, col): NAMES[_truth()[row, col] - 1] for row in rows for col in cols}
    picked = [[place for place in places if places[place] == name][:12] for name in NAMES]
    return [(*place, places[place]) for group in picked for place in group]


def _metres(row, col):
    return GRID * (col + 0.5, row + 0.5)


@pytest.fixture(scope="session")
def files(once):
    return once("files", _lay_out)


def _lay_out(folder):
    """Write every file that a page or a journey names."""
    for header in ("scene.hdr", "flightline.hdr", "scenes/north.hdr", "scenes/south.hdr"):
        _write_envi(folder / header)
    _write_tiff(folder / "scene.tif", _pixels(), nodata=NODATA, tiled=True, compress="deflate")
    _write_product(folder / "product.tif")
    _write_netcdf(folder / "scene.nc")
    scipy.io.savemat(folder / "cube.mat", {"paviaU": _counts()})
    scipy.io.savemat(folder / "cube_gt.mat", {"paviaU_gt": _truth()})
    scipy.io.savemat(folder / "two_cubes.mat", {"paviaU": _counts(), "paviaC": _counts()[::-1]})
    _write_tiff(folder / "truth.tif", _truth() * _seen(), nodata=0)
    _write_geojson(folder / "labels.geojson")
    shutil.copy(folder / "labels.geojson", folder / "known.geojson")
    _write_layers(folder)
    _write_csv(folder / "labels.csv", ("x", "y"), _metres)
    _write_csv(folder / "points.csv", ("row", "col"), lambda row, col: (row, col))
    _write_plots(folder / "plots.csv", [(row, col) for row, col, _ in _labeled()])
    _write_plots(folder / "other-plots.csv", [(row - 1, col + 1) for row, col, _ in _labeled()])
    _write_grouped(folder / "grouped.csv", folder / "points.csv")


def _write_grouped(path, points):
    """Write the points with the plot they were taken in: three in a row belong to one."""
    head, *lines = points.read_text().splitlines()
    rows = [f"{line},{number // 3}" for number, line in enumerate(lines)]
    path.write_text("\n".join([f"{head},plot", *rows]) + "\n")


def _write_plots(path, places):
    """Write plots with their vegetation cover, from 0 to 1, and biomass in t/ha."""
    rng = np.random.default_rng(1)
    lines = ["x,y,cover,biomass"]
    for row, col in places:
        cover = np.clip((0.6, 0.1, 0.0, 0.9)[_truth()[row, col] - 1] + rng.normal(0, 0.05), 0, 1)
        x, y = _metres(row, col)
        lines.append(f"{x},{y},{cover:.3f},{40 * cover + rng.normal(0, 2):.2f}")
    path.write_text("\n".join(lines) + "\n")


def _write_envi(path):
    """Write band by line; the last band is noise, and the header says that it is bad."""
    path.parent.mkdir(exist_ok=True)
    bad = np.full((HEIGHT, WIDTH, 1), NODATA, np.int16)
    values = np.concatenate([_pixels(), bad], axis=2)  # (y, x, band)
    path.with_suffix(".img").write_bytes(values.transpose(0, 2, 1).astype("<i2").tobytes())
    wavelengths = ", ".join(f"{nm:.1f}" for nm in [*NM, 2300])
    path.write_text(
        f"ENVI\ndescription = {{surface reflectance x 10000}}\n"
        f"samples = {WIDTH}\nlines = {HEIGHT}\nbands = {BANDS + 1}\nheader offset = 0\n"
        f"file type = ENVI Standard\ndata type = 2\ninterleave = bil\nbyte order = 0\n"
        f"data ignore value = {NODATA}\n"
        f"map info = {{UTM, 1, 1, {GRID.c:.0f}, {GRID.f:.0f}, 10, 10, 33, North, WGS-84}}\n"
        f"wavelength units = Nanometers\nwavelength = {{{wavelengths}}}\n"
        f"bbl = {{{', '.join('1' * BANDS)}, 0}}\n"
    )


def _write_tiff(path, values, **options):
    bands = np.moveaxis(np.atleast_3d(values), -1, 0)
    with rasterio.open(
        path, "w", driver="GTiff", width=WIDTH, height=HEIGHT, count=len(bands),
        dtype=values.dtype, crs=CRS, transform=GRID, **options,
    ) as out:  # fmt: skip
        out.write(bands)
        if len(bands) == BANDS:
            out.descriptions = tuple(f"{nm:.1f} nm" for nm in NM)


def _write_product(path):
    """Write a GeoTIFF as EnMAP has them: two bands hold nothing, and tags call one of them bad."""
    empty = np.full((HEIGHT, WIDTH, 2), -32768, np.float32)
    seen = np.where(_seen()[..., None], _counts() / 10_000, -32768).astype(np.float32)
    values = np.concatenate([seen[..., :10], empty, seen[..., 10:]], axis=2)
    centers = [*NM[:10], *np.linspace(NM[9], NM[10], 4)[1:3], *NM[10:]]
    with rasterio.open(
        path, "w", driver="GTiff", width=WIDTH, height=HEIGHT, count=values.shape[2],
        dtype=np.float32, crs=CRS, transform=GRID, nodata=-32768, compress="deflate",
        interleave="band",
    ) as out:  # fmt: skip
        out.write(np.moveaxis(values, -1, 0))
        for band, nm in enumerate(centers, start=1):
            told = {"wavelength": f"{nm:.3f}", "wavelength_units": "nanometers", "fwhm": "9.5"}
            out.update_tags(band, **told, bbl="0" if band == 11 else "1")


def _write_netcdf(path):
    reflectance = xr.DataArray(
        _pixels(),
        dims=("y", "x", "band"),
        coords={"wavelength": ("band", NM, {"units": "nm"})},
        attrs={"_FillValue": np.int16(NODATA)},
    )
    reflectance.to_dataset(name="reflectance").to_netcdf(path, engine="h5netcdf")


def _write_geojson(path):
    """Write points in longitude and latitude, and a polygon of woods, each with its name."""

    def lonlat(*places):
        x, y = zip(*(_metres(*place) for place in places), strict=True)
        return [list(p) for p in zip(*reproject(CRS, "EPSG:4326", x, y), strict=True)]

    def feature(name, kind, coordinates):
        geometry = {"type": kind, "coordinates": coordinates}
        return {"type": "Feature", "properties": {"class": name}, "geometry": geometry}

    points = [feature(name, "Point", *lonlat((row, col))) for row, col, name in _labeled()]
    ring = lonlat((30, 20), (30, 23), (33, 23), (33, 20), (30, 20))
    features = [*points, feature("Woods", "Polygon", [ring])]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def _write_layers(folder):
    """Write the points as QGIS does, with their class and with two levels of classes."""
    if importlib.util.find_spec("pyogrio") is None:
        return
    shapes = [point(*_metres(row, col)) for row, col, _ in _labeled()]
    names = [name for _, _, name in _labeled()]
    groups = ["wet" if name == NAMES[0] else "dry" for name in names]
    only = {"layer": "points", "geometry_type": "Point"}
    write(folder / "points.gpkg", shapes, {"class": names}, crs=CRS, **only)
    write(folder / "landcover.gpkg", shapes, {"level_1": groups, "level_2": names}, crs=CRS)


def _write_csv(path, header, position):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*header, "class"])
        table.writerows([*position(row, col), name] for row, col, name in _labeled())
