"""HDF5 and NetCDF-4: guarded opening, and the generic reader for ``file.nc:variable``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from polyad.errors import SceneError
from polyad.scene.formats import guards
from polyad.scene.formats.cf import CubeSource, Neighbours, Node, open_cube
from polyad.scene.formats.lazy import Array


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading; a damaged one gets one clear sentence."""
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise SceneError(
            f"{path}: wanted an HDF5 file, HDF5 cannot open it ({error}); it is truncated, damaged "
            "or of another kind, copy it again"
        ) from error
    with file:
        yield file


@contextmanager
def open_checked(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file that is not trusted yet: no name in it may lead to another file."""
    with open_hdf5(path) as file:
        refuse_links_outside(path, file)
        yield file


def refuse_links_outside(path: Path, file: h5py.File) -> None:
    """Refuse a file with any link that leads out of it (they can read the user's other files)."""
    outside: list[str] = []

    def look(name: str, link: object) -> bool | None:
        if not isinstance(link, (h5py.HardLink, h5py.SoftLink)):
            outside.append(name)
        return True if outside else None  # anything but None ends the walk

    try:
        file.visititems_links(look)
    except (TypeError, SystemError) as error:  # a user-defined kind of link, or damage
        raise SceneError(
            f"{path}: holds a link of unknown kind, wanted links inside the file only; it is "
            "damaged or leads elsewhere, write the data into one plain file"
        ) from error
    if outside:
        raise SceneError(
            f"{path}: '{outside[0]}' is an external link to another file, wanted all data inside "
            "the file; refused, write the data into one file"
        )


def dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """Return the dataset ``name`` if its values really lie in this file."""
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise SceneError(f"{path}: no array '{name}' in the file; {_listing(file)}")
    if found.is_virtual or found.external:
        kind = "virtual" if found.is_virtual else "external"
        raise SceneError(
            f"{path}: '{name}' has {kind} storage, its values lie in other files, wanted all data "
            "inside the file; refused, write the data into one file"
        )
    return found


def check_dataset(path: Path, found: h5py.Dataset, budget: int) -> None:
    """Check an array's claims: numbers, stored bytes, and one chunk within the budget."""
    guards.check_numeric(path, found.dtype)
    declared = guards.declared_bytes(found.shape, found.dtype)
    # The storage size comes from the file's own index; it cannot exceed the file.
    stored = min(found.id.get_storage_size(), path.stat().st_size)
    if found.chunks is None:
        guards.check_stored(path, declared, stored)
        return
    guards.check_inflation(path, declared, stored)
    chunk = guards.declared_bytes(found.chunks, found.dtype)
    guards.check_budget(path, chunk, budget, f"a chunk of '{found.name}'")


def small(path: Path, file: h5py.File, name: str) -> Array | None:
    """Return a whole array that belongs to a header (wavelengths, flags), or None if not there."""
    if not isinstance(file.get(name), h5py.Dataset):
        return None
    found = dataset(path, file, name)
    guards.check_budget(
        path, guards.declared_bytes(found.shape, found.dtype), guards.HARMLESS_BYTES, f"'{name}'"
    )
    values: Array = np.asarray(found[()])
    return values


def open_hdf(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open the cube of a NetCDF-4 or HDF5 file: the variable ``key``, or the only 3-D one."""
    guards.existing_file(path)
    with open_checked(path) as file:
        name = key if key is not None else choose_key(path, cubes(file))
        found = dataset(path, file, name)
        guards.check_shape(path, found.shape)
        check_dataset(path, found, budget)
        return open_cube(*node_of(path, file, found), _hdf_source)


def node_of(path: Path, file: h5py.File, found: h5py.Dataset) -> tuple[Node, Neighbours]:
    """Return an array as it is before its axes are known, and the lookup of what is beside it."""
    node = Node(path, found.name, found.shape, found.dtype, dict(found.attrs), _dims(found))
    return node, _neighbours(path, file, found)


def cubes(file: h5py.File) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every numeric 3-D array in the file, by hard links only."""
    found: dict[str, tuple[int, ...]] = {}

    def look(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 3 and item.dtype.kind in "biuf":
            found[name] = item.shape

    file.visititems(look)
    return found


def choose_key(path: Path, arrays: Mapping[str, tuple[int, ...]]) -> str:
    """Return the name of the only 3-D array; with none or several, ask for one."""
    if len(arrays) == 1:
        return next(iter(arrays))
    if not arrays:
        raise SceneError(
            f"{path}: wanted one 3-D array (rows, columns, bands), found none; check that this is "
            "the image and not its labels"
        )
    listing = ", ".join(f"{name} {shape}" for name, shape in arrays.items())
    first = next(iter(arrays))
    raise SceneError(
        f"{path}: wanted one 3-D array, found {len(arrays)}: {listing}; name one of them, as in "
        f"'{path.name}:{first}'"
    )


def _listing(file: h5py.File) -> str:
    names = list(cubes(file))
    return f"its 3-D arrays are {', '.join(names)}" if names else "it has no 3-D array"


def _dims(found: h5py.Dataset) -> tuple[str, ...]:
    """Return the dimension names: attached scales (NetCDF), else labels, else empty."""
    return tuple(dim[0].name.rsplit("/", 1)[-1] if len(dim) else dim.label for dim in found.dims)


def _neighbours(
    path: Path, file: h5py.File, found: h5py.Dataset
) -> Callable[[str], tuple[Array, dict[str, Any]] | None]:
    """Return a lookup of small variables: in the cube's group, then in each group above it."""
    group = found.parent.name

    def look(name: str) -> tuple[Array, dict[str, Any]] | None:
        steps = group.strip("/").split("/") if group != "/" else []
        for depth in range(len(steps), -1, -1):
            full = "/".join([*steps[:depth], name])
            item = file.get(full)
            if isinstance(item, h5py.Dataset) and item.ndim <= 1:
                values = small(path, file, full)
                return (np.empty(0) if values is None else values), dict(item.attrs)
        return None

    return look


@dataclass(frozen=True)
class HdfReader:
    """Reads a box of an HDF5 array, whatever its axes mean."""

    path: Path
    name: str

    def __call__(self, box: tuple[slice, slice, slice]) -> Array:
        """Return the values of ``box``, axes as in the file."""
        with open_hdf5(self.path) as file:
            values: Array = dataset(self.path, file, self.name)[box]
        return values


def _hdf_source(
    node: Node, axes: tuple[int, int, int], scale: float, offset: float, fill: float | None
) -> CubeSource:
    return CubeSource(
        node.path,
        HdfReader(node.path, node.name),
        node.shape,
        node.dtype,
        axes,
        scale,
        offset,
        fill,
    )


def plain_cube(path: Path, found: h5py.Dataset, axes: tuple[int, int, int]) -> CubeSource:
    """Return the source of an array whose axes are known and whose values need no unpacking."""
    return CubeSource(path, HdfReader(path, found.name), found.shape, found.dtype, axes)
