"""Lying, truncated and hostile files: one clear sentence, and nothing large is read."""

import io
import re
import struct
import sys
import tracemalloc
import warnings
import zlib
from contextlib import suppress

import h5py
import numpy as np
import pytest
import rasterio
import scipy.io
from numpy.testing import assert_array_equal

from polyad.errors import BudgetExceeded, SceneError
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

CUBE = np.arange(5 * 4 * 3, dtype=np.int16).reshape(5, 4, 3)
resource = pytest.importorskip("resource")  # memory high-water mark, not on Windows
TERA = 2**40
SPEND = 8 * 2**20  # what refusing may cost: a thousandth of what the smallest of them declares


@pytest.fixture(autouse=True)
def _frugal():
    """Every test here stays within SPEND bytes of Python memory, and 200 MB of the process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert peak < SPEND
    assert grown * (1 if sys.platform == "darwin" else 1024) < 200 * 2**20


def refusal(source, **options):
    """Return the sentence with which ``source`` is refused."""
    with pytest.raises(SceneError, match=re.escape(str(source).split(":")[0])) as error:
        open_scene(source, **options).load()
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


# Headers that lie


def test_envi_header_that_claims_8_terabytes(tmp_path):
    (tmp_path / "s.img").write_bytes(bytes(1024))
    (tmp_path / "s.hdr").write_text(
        "ENVI\nsamples = 2000000\nlines = 2000000\nbands = 1\ndata type = 12\ninterleave = bsq\n"
    )
    with pytest.raises(SceneError, match=r"declares 7\.3 TiB of pixels, the file holds 1\.0 KiB"):
        open_scene(tmp_path / "s.hdr")


def npy_header(shape, descr="<f8"):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return header.getvalue()


def test_npy_of_128_bytes_that_claims_8_tebibytes(tmp_path):
    path = tmp_path / "s.npy"
    path.write_bytes(npy_header((1024, 1024, TERA // 2**20)))
    assert path.stat().st_size == 128
    assert "declares 8.0 TiB of pixels, the file holds 128 B" in refusal(path)


@pytest.mark.parametrize(
    "shape", ["(4611686018427387904, 2)", "(1" + "0" * 30 + ", 1)", "(-1, 4)", "-" * 9000 + "1"]
)
def test_npy_of_a_shape_beyond_numbers_is_refused_without_a_warning(tmp_path, shape):
    path = tmp_path / "s.npy"
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + bytes(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for opener in (open_scene, open_labels):
            with pytest.raises(SceneError, match=r"s\.npy: "):
                opener(path)


@pytest.mark.parametrize("options", [{"SPARSE_OK": True}, {"SPARSE_OK": True, "compress": "lzw"}])
def test_sparse_geotiff_that_claims_a_terabyte(tmp_path, options):
    path = tmp_path / "s.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=2**18, height=2**18, count=16, dtype="uint8",
        crs="EPSG:4326", transform=rasterio.Affine(30, 0, 0, 0, -30, 0), tiled=True,
        blockxsize=8192, blockysize=8192, BIGTIFF="YES", **options,
    ):  # fmt: skip
        pass
    assert path.stat().st_size < 2**20
    assert "declares 1.0 TiB" in refusal(path)


@pytest.mark.parametrize("suffix", ["h5", "nc", "mat"])
def test_tiny_hdf5_that_claims_160_gigabytes(tmp_path, suffix):
    path = tmp_path / f"s.{suffix}"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "cube", (20000, 10000, 100), "f8", chunks=(64, 64, 100), compression="gzip"
        )
    assert path.stat().st_size < 10_000
    assert "declares 149.0 GiB, the file stores 0 B" in refusal(path)


def test_hdf5_that_was_never_written(tmp_path):
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("cube", (20000, 10000, 100), "f8")
    assert "declares 149.0 GiB of pixels, the file holds 0 B" in refusal(path)


def write_zeros_mat(path, shape):
    """Write a deflated uint8 array of zeros without holding it: the stream is packed in pieces."""
    payload = int(np.prod(shape))
    inner = struct.pack("<IIII", 6, 8, 9, 0)  # flags: class uint8
    inner += struct.pack("<IIiiiI", 5, 12, *shape, 0)
    inner += struct.pack("<II4s4x", 1, 4, b"cube")
    inner += struct.pack("<II", 2, payload)
    packer = zlib.compressobj(9)
    pieces = [packer.compress(struct.pack("<II", 14, len(inner) + payload) + inner)]
    pieces += [packer.compress(bytes(min(10**6, payload - k))) for k in range(0, payload, 10**6)]
    stream = b"".join([*pieces, packer.flush()])
    head = b"MATLAB 5.0 MAT-file".ljust(116) + bytes(8) + struct.pack("<H", 0x0100) + b"IM"
    path.write_bytes(head + struct.pack("<II", 15, len(stream)) + stream)
    return path


def test_mat_of_250_kilobytes_that_inflates_to_250_megabytes(tmp_path):
    bomb = write_zeros_mat(tmp_path / "bomb.mat", (500, 500, 1000))
    assert bomb.stat().st_size < 300_000
    assert "declares 238.4 MiB, the file stores 2" in refusal(bomb)


def test_an_honest_mat_above_the_budget(tmp_path):
    path = tmp_path / "s.mat"
    scipy.io.savemat(path, {"cube": CUBE})
    with pytest.raises(BudgetExceeded, match=r"takes 120 B, the budget is 100 B; raise --max"):
        open_scene(path, max_bytes=100)


def test_zarr_without_chunks_that_claims_terabytes(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "s.zarr"
    zarr.open(str(path), mode="w", shape=(2**17, 2**17, 100), chunks=(64, 64, 100), dtype="f4")
    assert "declares 6.2 TiB" in refusal(path)


# Files that reach for other files, or for code


def test_npy_with_pickled_objects(tmp_path):
    path = tmp_path / "s.npy"
    np.save(path, np.array([[[{"a": 1}]]], dtype=object), allow_pickle=True)
    assert "pickled Python objects, which can run code when loaded" in refusal(path)


def test_hdf5_with_external_storage(tmp_path):
    (tmp_path / "secret").write_bytes(CUBE.tobytes())
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "cube", CUBE.shape, CUBE.dtype, external=[(str(tmp_path / "secret"), 0, CUBE.nbytes)]
        )
    assert "'cube' has external storage, its values lie in other files" in refusal(path)


@pytest.mark.parametrize("suffix", ["h5", "mat", "nc"])
def test_hdf5_with_a_virtual_dataset(tmp_path, suffix):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["cube"] = CUBE
    path = tmp_path / f"s.{suffix}"
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout(CUBE.shape, CUBE.dtype)
        layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "cube", CUBE.shape)
        file.create_virtual_dataset("cube", layout)
    assert "'cube' has virtual storage" in refusal(path)


@pytest.mark.parametrize("suffix", ["h5", "mat", "he5"])
@pytest.mark.parametrize("name", ["cube", "location/glt_x", "HDFEOS/SWATHS"])
def test_hdf5_with_an_external_link(tmp_path, suffix, name):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["cube"] = CUBE
    path = tmp_path / f"s.{suffix}"
    with h5py.File(path, "w") as file:
        file[name] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/cube")
        file["through"] = h5py.SoftLink(f"/{name}")
    assert f"'{name}' is an external link to another file" in refusal(path)
    assert "is an external link" in refusal(f"{path}:through")


def test_a_soft_link_inside_the_file_is_followed(tmp_path):
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file["real"] = CUBE
        file["alias"] = h5py.SoftLink("/real")
    assert_array_equal(open_scene(f"{path}:alias").values, CUBE)
    assert_array_equal(open_scene(path).values, CUBE)


def test_zarr_with_a_codec_that_unpickles(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "s.zarr"
    path.mkdir()
    (path / ".zarray").write_text(
        '{"zarr_format": 2, "shape": [2, 2, 2], "chunks": [2, 2, 2], "dtype": "|u1", "order": "C",'
        ' "fill_value": 0, "compressor": null, "filters": [{"id": "pickle"}]}'
    )
    assert "is packed with pickle" in refusal(path)


def test_zarr_with_a_symbolic_link(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "s.zarr"
    zarr.open(str(path), mode="w", shape=(2, 2, 2), chunks=(2, 2, 2), dtype="u1")[:] = 1
    (path / "0.0.0").unlink(missing_ok=True)
    (path / "0.0.0").symlink_to("/etc/hosts")
    assert "is a symbolic link" in refusal(path)


# Files cut short


def whole_files(folder):
    """Write one honest file of each kind and return them."""
    big = np.random.default_rng(0).integers(0, 1000, (64, 64, 8)).astype(np.int16)
    np.save(folder / "s.npy", big)
    scipy.io.savemat(folder / "s.mat", {"cube": big}, do_compression=True)
    with h5py.File(folder / "s.h5", "w") as file:
        file.create_dataset("cube", data=big, chunks=(16, 16, 8), compression="gzip")
    big.tofile(folder / "s.bip")
    (folder / "s.hdr").write_text(
        "ENVI\nsamples = 64\nlines = 64\nbands = 8\ndata type = 2\ninterleave = bip\n"
    )
    for name, compress in (("plain.tif", "none"), ("packed.tif", "deflate")):
        with rasterio.open(
            folder / name, "w", driver="GTiff", width=64, height=64, count=8, dtype="int16",
            crs="EPSG:4326", transform=rasterio.Affine(30, 0, 0, 0, -30, 0), compress=compress,
        ) as file:  # fmt: skip
            file.write(np.moveaxis(big, -1, 0))
    names = ("s.npy", "s.mat", "s.h5", "s.bip", "plain.tif", "packed.tif")
    return [folder / name for name in names]


@pytest.mark.parametrize("kept", [0.0, 0.002, 0.1, 0.5, 0.9])
def test_every_kind_of_truncated_file_is_refused(tmp_path, kept):
    for path in whole_files(tmp_path):
        assert open_scene(path).shape == (64, 64, 8)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(kept * len(whole))])
        message = refusal(path)
        assert ("empty" in message) == (kept == 0)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_give_a_scene_or_a_scene_error(tmp_path, seed):
    rng = np.random.default_rng(seed)
    for path in whole_files(tmp_path):
        content = bytearray(path.read_bytes())
        near_the_start = rng.integers(0, min(600, len(content)), 6)
        for place in near_the_start:
            content[place] = rng.integers(256)
        path.write_bytes(content)
        with suppress(SceneError):  # any other exception fails the test
            open_scene(path, max_bytes=2**20).isel(y=slice(0, 4)).load()


def test_a_damaged_chunk_is_reported_when_it_is_read(tmp_path):
    path = next(p for p in whole_files(tmp_path) if p.name == "s.h5")
    content = bytearray(path.read_bytes())
    content[-2000:-1000] = bytes(1000)
    path.write_bytes(content)
    assert "cannot be read" in refusal(path)


# Files of another kind


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("s.txt", b"hello", "unsupported file format"),
        ("s.npz", b"PK\x03\x04rest", "a zip or .npz archive is not read"),
        ("s.nc", b"CDF\x01rest", "NetCDF classic is not read, expected NetCDF-4"),
        ("s.mat", b"not a matlab file", "the MATLAB variables cannot be listed"),
        ("s.hdr", b"ENVI\nsamples = 1\n", "no data file beside this ENVI header"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    assert said in refusal(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("samples = four", "expected 'samples = <whole number>', got 'four'"),
        ("lines = -5", "expected 'lines = <whole number>', got '-5'"),
        ("data type = 6", "expected 'data type' to be one of 1, 2, 3"),
        ("interleave = zig", "expected 'interleave' to be one of bsq, bil, bip, got 'zig'"),
        ("file compression = 1", "'file compression = 1' is not read"),
        ("bands = 0", "each of at least 1, got shape (5, 4, 0)"),
    ],
)
def test_a_damaged_envi_header_names_its_line(tmp_path, line, said):
    CUBE.tofile(tmp_path / "s.img")
    (tmp_path / "s.hdr").write_text(
        f"ENVI\nsamples = 4\nlines = 5\nbands = 3\ndata type = 2\ninterleave = bip\n{line}\n"
    )
    assert said in refusal(tmp_path / "s.hdr")


def test_a_missing_file_says_so(tmp_path):
    assert "no such file" in refusal(tmp_path / "nowhere.tif")


def test_a_folder_of_another_kind_is_no_scene(tmp_path):
    assert "unsupported file format" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["s.npy", "s.bip", "plain.tif"])
def test_a_key_for_a_file_with_one_image_is_refused(tmp_path, name):
    whole_files(tmp_path)
    assert "no key, got ':red'" in refusal(f"{tmp_path / name}:red")


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_png_labels_are_refused(tmp_path, damage):
    """GDAL would return noise without an error."""
    path = tmp_path / "labels.png"
    ids = np.random.default_rng(0).integers(0, 3, (1, 60, 60)).astype(np.uint8)
    with rasterio.open(path, "w", driver="PNG", height=60, width=60, count=1, dtype="uint8") as f:
        f.write(ids)
    np.testing.assert_array_equal(open_labels(path).values, ids[0])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    with pytest.raises(SceneError, match="truncated or damaged"):
        open_labels(path)
