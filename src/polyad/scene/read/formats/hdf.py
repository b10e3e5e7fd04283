"""NetCDF-4 and HDF5: the generic reader for ``file.nc:variable``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr
from h5py import h5o, h5r

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.scene import Array
from polyad.scene.read.formats import cf
from polyad.scene.read.formats.cf import CubeSource, KeptAxes, Neighbors, Node
from polyad.scene.read.formats.hdf_file import Hdf5File, open_hdf5
from polyad.scene.read.formats.hdf_values import (
    attribute,
    attributes,
    check_decoding,
    dataset,
    read_box,
    small,
)  # fmt: skip

_SCALES_BYTES = 2**20  # an axis has a scale or two; a reference takes 8 bytes, and 100 in Python


def find(opened: Hdf5File, name: str) -> h5py.Dataset:
    """Return the dataset ``name``; if there is none, say which arrays there are."""
    if not isinstance(opened.file.get(name), h5py.Dataset):
        names = guards.listing(_cubes(opened))
        listing = f"its 3-D arrays are {names}" if names else "it has no 3-D array"
        raise SceneError(f"{opened.path}: no array '{name}' in the file; {listing}")
    return dataset(opened.path, opened.file, name)


def check_dataset(opened: Hdf5File, array: h5py.Dataset) -> bool:
    """Check an array's claims: numbers, stored bytes, and one chunk within the budget.

    Returns whether its chunks must be tried before they are decoded, see `check_decoding`.
    """
    path = opened.path
    guards.check_numeric(path, array.dtype)
    declared = guards.declared_bytes(array.shape, array.dtype)
    # The storage size comes from the file's own index; it cannot exceed the file.
    stored = min(array.id.get_storage_size(), path.stat().st_size)
    check = guards.check_stored if array.chunks is None else guards.check_inflation
    check(path, declared, stored)
    return check_decoding(path, array, opened.budget)


def open_hdf(opened: Hdf5File, key: str | None) -> xr.DataArray:
    """Open the cube of a NetCDF-4 or HDF5 file: the variable ``key``, or the only 3-D one."""
    name = key if key is not None else choose_key(opened.path, _cubes(opened))
    array = find(opened, name)
    whole, look = node_of(opened, array)
    node, kept = cf.three_axes(whole)
    guards.check_shape(opened.path, node.shape)
    wary = check_dataset(opened, array)

    def source(
        node: Node, axes: tuple[int, int, int], scale: float, offset: float, fill: float | None
    ) -> CubeSource:
        reader = KeptAxes(HdfReader(node.path, node.name, wary), kept, len(whole.shape))
        return CubeSource(node.path, reader, node.shape, node.dtype, axes, scale, offset, fill)

    return cf.open_cube(node, look, source)


def _cubes(opened: Hdf5File) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in opened.tree.arrays.items() if cf.is_cube(shape)}


def node_of(opened: Hdf5File, array: h5py.Dataset) -> tuple[Node, Neighbors]:
    """Return an array before its axes are known, and the lookup of the variables beside it."""
    attrs = attributes(opened, array, cf.ATTRIBUTES)
    dims = _dims(opened, array)
    node = Node(opened.path, array.name, array.shape, array.dtype, attrs, dims)
    return node, _neighbors(opened, array)


def choose_key(path: Path, arrays: Mapping[str, tuple[int, ...]]) -> str:
    """Return the name of the only 3-D array; with none or several, ask for one."""
    if len(arrays) == 1:
        return next(iter(arrays))
    if not arrays:
        raise SceneError(
            f"{path}: wanted one 3-D array (rows, columns, bands), found none; check that this is "
            "the image and not its labels"
        )
    listing = guards.listing(f"{name} {shape}" for name, shape in arrays.items())
    first = next(iter(arrays))
    raise SceneError(
        f"{path}: wanted one 3-D array, found {len(arrays)}: {listing}; name one of them, as in "
        f"'{path.name}:{first}'"
    )


def _dims(opened: Hdf5File, array: h5py.Dataset) -> tuple[str, ...]:
    """Return the dimension names: attached scales (NetCDF), else labels, else empty."""
    scales = attribute(opened, array, "DIMENSION_LIST", _SCALES_BYTES)
    labels = attribute(opened, array, "DIMENSION_LABELS")
    attached = [_scale(opened, refs) for refs in _per_axis(scales, array.ndim)]
    stated = ["" if label is None else cf.text(label) for label in _per_axis(labels, array.ndim)]
    return tuple(scale or label for scale, label in zip(attached, stated, strict=True))


def _per_axis(value: Any, axes: int) -> list[Any]:
    return list(value) if np.shape(value)[:1] == (axes,) else [None] * axes


def _scale(opened: Hdf5File, references: Any) -> str:
    """Return the name of the first scale that is attached to an axis, else an empty text."""
    if not np.size(references) or references is None:
        return ""
    try:
        scale = h5r.dereference(np.ravel(references)[0], opened.file.id)
        # From our own list: HDF5 would search the whole file for the name of an address.
        name = opened.tree.names.get(h5o.get_info(scale).addr, "")
    except (
        OSError,
        RuntimeError,
        ValueError,
        KeyError,
        TypeError,
    ):  # a reference that leads nowhere
        return ""
    return name.rsplit("/", 1)[-1]


def _neighbors(
    opened: Hdf5File, array: h5py.Dataset
) -> Callable[[str], tuple[Array, dict[str, Any]] | None]:
    """Return a lookup of small variables: in the cube's group, then in each group above it."""
    group = array.parent.name

    def look(name: str) -> tuple[Array, dict[str, Any]] | None:
        steps = group.strip("/").split("/") if group != "/" else []
        for depth in range(len(steps), -1, -1):
            full = "/".join([*steps[:depth], name])
            item = opened.file.get(full)
            if isinstance(item, h5py.Dataset) and len(item.shape or ()) <= 1:
                values = small(opened, full)
                attrs = attributes(opened, item, cf.ATTRIBUTES)
                return (np.empty(0) if values is None else values), attrs
        return None

    return look


@dataclass(frozen=True)
class HdfReader:
    """Reads a box of an HDF5 array, whatever its axes mean.

    Parameters
    ----------
    path : Path
    name : str
        Of the array.
    wary : bool
        Whether chunks are tried before they are decoded, see `check_dataset`.
    """

    path: Path
    name: str
    wary: bool

    def __call__(self, box: tuple[slice, ...]) -> Array:
        """Return the values of ``box``, axes as in the file."""
        with open_hdf5(self.path) as file:
            return read_box(self.path, file, self.name, box, wary=self.wary)


def plain_cube(opened: Hdf5File, array: h5py.Dataset, axes: tuple[int, int, int]) -> CubeSource:
    """Return the source of an array whose axes are known and whose values need no unpacking."""
    reader = HdfReader(opened.path, array.name, check_dataset(opened, array))
    return CubeSource(opened.path, reader, array.shape, array.dtype, axes)
