"""What the data of a run were: sums of files and values, shape and range, and if we know them.

A scene is called by its name only if its files, or the values in them, have the sums that are known
of that name. Anything else of the right shape may be the same scene saved again, or random numbers:
it is run only if the user says so, and is then called by name and sum, everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError, SceneMismatch
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES, KnownScene, data_folder

MARK = "@"  # between the name of a scene and the sum of a copy that we do not know
KNOWN_FILES, KNOWN_VALUES = "the known files", "the known values, in another file"
MADE, ACCEPTED = "made up for tests", "not known; accepted by the user (--accept)"

# SHA-256 of the values, as `values_sum` takes it; of the cubes of Pavia University and Botswana
# only the sums of their files are known.
CUBE_SUMS = {
    "indian-pines": "eefaf0b725049c1a1b24f2d9cff12f26ed8048155c638c00f2cd90d7ecb7bae5",
}
LABEL_SUMS = {
    "indian-pines": "6e3179e9765decc4fd31e07c436cc7962b88db676c4ac48494032273ce537d65",
    "pavia-university": "bfe5b554eabb903ae1558ef7589a6ba5ef6f9c20e6e972e61e455f15392ee379",
    "botswana": "21e4ce035e4eb6b3cbcf7bc70d3fbf8ee4f5301729b833edb162eb324fbc5194",
}


@dataclass(frozen=True)
class Identity:
    """What the data of a run were.

    Attributes
    ----------
    cube, labels : str
        SHA-256 of the values: float32 and uint16, little-endian, row by row.
    cube_file, labels_file : str or None
        SHA-256 of the files; None where the scene comes with a package or is made up.
    shape : (height, width, bands)
    low, high : float
        Range of the cube's values.
    status : str
        Whether these are the data whose sums are known.
    """

    cube: str
    labels: str
    cube_file: str | None
    labels_file: str | None
    shape: tuple[int, int, int]
    low: float
    high: float
    status: str

    def to_stored(self) -> dict[str, Any]:
        """Return plain values, as a record has them."""
        return asdict(self) | {"shape": list(self.shape)}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Identity:
        """Undo `to_stored`."""
        height, width, bands = stored["shape"]
        return cls(**{**stored, "shape": (int(height), int(width), int(bands))})

    @property
    def mark(self) -> str:
        """Eight digits that tell one copy from another."""
        return hashlib.sha256((self.cube + self.labels).encode()).hexdigest()[:8]

    @property
    def verified(self) -> bool:
        """Whether a sum says that this is the scene of its name."""
        return self.status in (KNOWN_FILES, KNOWN_VALUES, MADE)


def base_name(scene: str) -> str:
    """Return the name of a scene without the sum of its copy.

    Examples
    --------
    >>> base_name("botswana@1a2b3c4d"), base_name("botswana")
    ('botswana', 'botswana')
    """
    return scene.partition(MARK)[0]


def values_sum(values: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's values: of floats as float32, of integers as uint16."""
    kind = "<f4" if values.dtype.kind == "f" else "<u2"
    return hashlib.sha256(np.ascontiguousarray(values, dtype=kind).data).hexdigest()


def identify(name: str, cube: NDArray[np.float32], labels: NDArray[np.uint16]) -> Identity:
    """Return what these data are, held against what is known of ``name``."""
    sums = values_sum(cube), values_sum(labels)
    files: tuple[str | None, str | None] = (None, None)
    row = KNOWN_SCENES.get(name)
    if row is None:
        status = MADE
    else:
        if not row.bundled:
            files = file_sum(row.cube.name), file_sum(row.labels.name)
        as_files = [a == b.sha256 for a, b in zip(files, row.files, strict=True)]
        known = CUBE_SUMS.get(name), LABEL_SUMS.get(name)
        as_values = [a == b for a, b in zip(sums, known, strict=True)]
        if all(as_files):
            status = KNOWN_FILES
        elif all(f or v for f, v in zip(as_files, as_values, strict=True)):
            status = KNOWN_VALUES
        else:
            status = ACCEPTED
    low, high = float(cube.min()), float(cube.max())
    height, width, bands = cube.shape
    return Identity(*sums, *files, (height, width, bands), low, high, status)


def file_sum(name: str) -> str:
    """Return the SHA-256 of a file in the data folder."""
    with (data_folder() / name).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_present(name: str, row: KnownScene) -> None:
    """Raise `SceneError`, which names every file to fetch, unless all of them are there."""
    absent = [] if row.bundled else [f for f in row.files if not (data_folder() / f.name).is_file()]
    if absent:
        names = " and ".join(file.name for file in absent)
        links = " and ".join(file.address for file in absent)
        taken = " ".join(f"--from {file.name}" for file in absent)
        raise SceneError(
            f"{name} is not on this machine: {names} {'are' if len(absent) > 1 else 'is'} missing "
            f"in {data_folder()}; run `polyad fetch {name}`, or download {links} by hand and run "
            f"`polyad fetch {name} {taken}`"
        )


def check_shape(name: str, row: KnownScene, cube: tuple[int, ...], labels: tuple[int, ...]) -> None:
    """Raise `SceneMismatch` if cube or labels have another shape, and say so if transposed."""
    for file, got, wanted in ((row.cube, cube, row.shape), (row.labels, labels, row.shape[:2])):
        if got == wanted:
            continue
        sizes, ours = (" x ".join(map(str, shape)) for shape in (got, wanted))
        axes = "rows, columns, bands" if file is row.cube else "rows, columns"
        turned = sorted(got) == sorted(wanted)
        raise SceneMismatch(
            f"{_where(file.name)} is {sizes}, but {row.title} is {ours} ({axes})"
            + (f": its axes are transposed; save it with its axes in the order {axes}, or fetch "
               if turned else "; fetch ")
            + f"the original with `polyad fetch {name}`"
        )  # fmt: skip


def check_known(name: str, row: KnownScene, identity: Identity) -> None:
    """Raise `SceneError` if no sum says that these are the data of that name."""
    if identity.verified:
        return
    listed = "; ".join(
        f"{_where(file.name)} has SHA-256 {got}, known is {file.sha256}"
        for file, got in zip(row.files, (identity.cube_file, identity.labels_file), strict=True)
        if got != file.sha256
    )
    raise SceneError(
        f"these may not be the data of {row.title}: {listed}; fetch the originals with `polyad "
        f"fetch {name}`, or, if they are the same data saved again, add --accept, and the report "
        "will say so"
    )


def _where(file: str) -> Path:
    return data_folder() / file
