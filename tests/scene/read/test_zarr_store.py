"""Zarr stores are read as zarr itself reads them, whatever they are packed with."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from polyad.scene.read.scenes import open_scene

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

CUBE = np.random.default_rng(0).integers(0, 5000, (7, 6, 5)).astype("<i4")
CHUNKS = (3, 4, 2)
BOX = (slice(2, 7), slice(1, 5), slice(1, 4))

PACKERS = [None, numcodecs.Zlib(), numcodecs.GZip(), numcodecs.BZ2(), numcodecs.LZMA(),
           numcodecs.LZ4(), numcodecs.Zstd(), numcodecs.Blosc(), numcodecs.Blosc("zstd", shuffle=2),
           numcodecs.Blosc("lz4hc", clevel=0)]  # fmt: skip
FILTERS = [
    [], [numcodecs.Delta("<i4")], [numcodecs.Delta("<i4", astype="<i8"), numcodecs.Shuffle(8)],
    [numcodecs.CRC32()], [numcodecs.Adler32()], [numcodecs.Fletcher32()],
    [numcodecs.FixedScaleOffset(dtype="<i4", astype="<i2", scale=1, offset=100)],
]  # fmt: skip


def check(path):
    """Compare with zarr's own reader: all of it, a box, and a single pixel."""
    scene, reference = open_scene(path), zarr.open_array(str(path), mode="r")
    for box in (tuple(slice(0, n) for n in reference.shape), BOX, (slice(6, 7),) * 2 + BOX[2:]):
        assert_array_equal(scene[box].values, reference[box])


@pytest.mark.parametrize(
    ("packer", "filters"), [*((p, []) for p in PACKERS), *((None, f) for f in FILTERS[1:])]
)
def test_version_2_whatever_it_is_packed_with(tmp_path, packer, filters):
    array = zarr.create_array(
        str(tmp_path / "s.zarr"), shape=CUBE.shape, chunks=CHUNKS, dtype=CUBE.dtype,
        compressors=packer, filters=filters or None, zarr_format=2, overwrite=True,
    )  # fmt: skip
    array[:] = CUBE
    check(tmp_path / "s.zarr")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compressors": None},
        {"compressors": zarr.codecs.GzipCodec()},
        {"compressors": [zarr.codecs.BloscCodec(), zarr.codecs.Crc32cCodec()]},
        {"filters": zarr.codecs.TransposeCodec(order=(2, 0, 1))},
        {"serializer": zarr.codecs.BytesCodec(endian="big")},
        {"shards": (6, 8, 4)},
        {"shards": (6, 8, 4), "compressors": None, "fill_value": 7},
        {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"chunk_key_encoding": {"name": "default", "separator": "."}},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_version_3_with_and_without_shards(tmp_path, options):
    path = str(tmp_path / "s.zarr")
    array = zarr.create_array(path, shape=CUBE.shape, chunks=CHUNKS, dtype=CUBE.dtype, **options)
    array[:5, :, 1:] = CUBE[:5, :, 1:]
    check(tmp_path / "s.zarr")


def test_version_3_with_the_index_of_shards_in_front_and_nan_where_chunks_are_missing(tmp_path):
    path = str(tmp_path / "s.zarr")
    sharding = zarr.codecs.ShardingCodec(chunk_shape=CHUNKS, index_location="start")
    array = zarr.create_array(
        path, shape=(7, 6, 5), chunks=(6, 8, 4), dtype="f4", serializer=sharding, compressors=None,
        fill_value=np.nan,
    )  # fmt: skip
    array[:2] = 3.5
    check(tmp_path / "s.zarr")


def test_coordinates_that_are_names_do_not_keep_a_scene_from_being_read(tmp_path):
    group = zarr.open_group(str(tmp_path / "s.zarr"), mode="w", zarr_format=2)
    group.create_array("cube", shape=CUBE.shape, dtype=CUBE.dtype)[:] = CUBE
    names = group.create_array("crs", shape=(2,), dtype=str)
    names[:] = ["a", "bc"]
    assert_array_equal(open_scene(tmp_path / "s.zarr").values, CUBE)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["f4", "f8", "i2"])
def test_nodata_as_xarray_writes_it(tmp_path, kind, version):
    cube = xr.Dataset({"cube": (("y", "x", "band"), CUBE.astype(kind))})
    cube["cube"].encoding["_FillValue"] = -9999
    cube.to_zarr(tmp_path / "s.zarr", zarr_format=version, consolidated=False)
    assert open_scene(tmp_path / "s.zarr").rio.nodata == -9999
