"""The benchmark scenes of the field: the rows of ``benchmark_scenes.toml``."""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyad.errors import SceneError


@dataclass(frozen=True)
class RemoteFile:
    """One file of a known scene: its address, its checksum and which array to read."""

    address: str
    sha256: str
    bytes: int
    key: str

    @property
    def name(self) -> str:
        """The file's own name, the last part of its address."""
        return self.address.rsplit("/", 1)[1]


@dataclass(frozen=True)
class KnownScene:
    """One row of the table.

    Attributes
    ----------
    title, sensor, citation, license : str
    shape : (height, width, bands)
    pixel_size : float
        Meters on the ground.
    class_names : tuple of str
        Names of classes 1, 2, ...
    cube, labels : RemoteFile
    bundled : bool
        True if the scene comes with an installed package and needs no file.
    note : str
        What a user of its labels should know.
    """

    title: str
    sensor: str
    shape: tuple[int, int, int]
    pixel_size: float
    class_names: tuple[str, ...]
    cube: RemoteFile
    labels: RemoteFile
    citation: str
    license: str = "none stated at the source"
    bundled: bool = False
    note: str = ""

    @property
    def files(self) -> tuple[RemoteFile, RemoteFile]:
        """The cube's and the labels' file."""
        return self.cube, self.labels


def _row(
    class_names: list[str], shape: list[int], cube: Any, labels: Any, **more: Any
) -> KnownScene:
    more |= {"cube": RemoteFile(**cube), "labels": RemoteFile(**labels)}
    return KnownScene(class_names=tuple(class_names), shape=(shape[0], shape[1], shape[2]), **more)


KNOWN_SCENES: dict[str, KnownScene] = {
    name: _row(**row)
    for name, row in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}


def known_scene(name: str) -> KnownScene:
    """Return the row of ``name``, or say which names there are.

    Examples
    --------
    >>> known_scene("indian-pines").shape
    (145, 145, 200)
    """
    if name in KNOWN_SCENES:
        return KNOWN_SCENES[name]
    near = nearest_known(name)
    hint = f"; did you mean {near!r}?" if near else ""
    raise SceneError(f"{name!r} is not a known scene ({', '.join(KNOWN_SCENES)}){hint}")


def nearest_known(name: str) -> str | None:
    """Return the known scene whose name is most like ``name``, None if none is.

    Examples
    --------
    >>> nearest_known("Indian_Pine")
    'indian-pines'
    """
    near = difflib.get_close_matches(name.lower().replace("_", "-"), KNOWN_SCENES, n=1)
    return near[0] if near else None


def data_folder() -> Path:
    """Return where fetched scenes are kept: ``$POLYAD_DATA``, else the user's cache folder."""
    import pooch  # here, for those who only ask what is known

    return Path(os.environ.get("POLYAD_DATA") or pooch.os_cache("polyad"))


def list_known() -> list[dict[str, Any]]:
    """Return a plain row for each known scene: name, size, classes, whether its files are here."""
    return [
        {
            "name": name,
            "title": row.title,
            "sensor": row.sensor,
            "size": "{} rows x {} columns, {} bands".format(*row.shape),
            "classes": len(row.class_names),
            "here": row.bundled or all((data_folder() / f.name).exists() for f in row.files),
        }
        for name, row in KNOWN_SCENES.items()
    ]
