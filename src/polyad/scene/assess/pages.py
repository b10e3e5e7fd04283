"""Reports as HTML pages from templates: one style, all text escaped, nothing fetched.

A page is one file, readable on a phone and on a desk, in light and dark, and can be mailed. It says
what was run: files by name and SHA-256, and no folder, since where a file lay says nothing to a
reader and may say more of the writer than they mean to publish.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from tqdm import tqdm

from polyad.atomic import replacing
from polyad.safe_open import open_regular
from polyad.scene.draw.charts import Overlay
from polyad.scene.draw.color import encode_rgb
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES, data_folder
from polyad.scene.files.paths import files_of, is_address, locate, split_key
from polyad.scene.raster.classes import ClassInfo, class_key, is_color

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HERE = "polyad.scene.assess"


class Themed(NamedTuple):
    """One chart drawn twice without paper, as figures or SVG: for light pages and for dark ones."""

    light: Figure | str
    dark: Figure | str


Picture: TypeAlias = "Figure | bytes | Themed | npt.NDArray[np.uint8]"


class PageImage(NamedTuple):
    """A picture as the templates want it.

    Attributes
    ----------
    words : str
        Its caption, also for those who cannot see it.
    light, dark : str
        Data addresses; ``dark`` is empty if one picture serves both.
    pixels : bool
        Whether its pixels are to be seen as squares.
    points : Overlay or None
        Drawn over it.
    ratio : float
        Of width and height of a raster, so that a long one does not fill several screens; else 0.
    """

    words: str
    light: str
    dark: str = ""
    pixels: bool = False
    points: Overlay | None = None
    ratio: float = 0.0


class PageFigure(NamedTuple):
    """A picture in a section of its own, under a heading."""

    heading: str
    note: str
    picture: PageImage
    narrow: bool = False


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page to a file."""
    with replacing(path) as temporary:  # names of files may be odd
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")


def page_image(
    picture: Picture, words: str, dpi: int = 150, points: Overlay | None = None
) -> PageImage:
    """Return a picture for a page: an array of uint8 (y, x, 3 or 4), PNG bytes, or figures."""
    if isinstance(picture, Themed):
        return PageImage(words, _chart(picture.light), _chart(picture.dark))
    if isinstance(picture, np.ndarray):
        address, ratio = _address(encode_rgb(picture)), picture.shape[1] / picture.shape[0]
        return PageImage(words, address, pixels=True, points=points, ratio=ratio)
    return PageImage(words, _chart(picture, dpi=dpi))


def _chart(picture: Figure | str | bytes, **options: Any) -> str:
    if isinstance(picture, str):
        return _address(picture.encode(), "svg+xml")
    if isinstance(picture, bytes):
        return _address(picture)
    from polyad.scene.draw.figures import to_png  # matplotlib takes half a second to import

    return _address(to_png(picture, **options or {"transparent": True}))


def render(template: str, package: str = HERE, **values: Any) -> str:
    """Return a template of ``package`` filled with ``values``, all of them escaped.

    Parameters
    ----------
    template : str
        Name of a file in the package's folder ``templates``; it may extend ``base.html``.
    package : str
    **values
        What it shows; a value that is missing is an error.
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        class_key=class_key,
        grouped=lambda number: f"{int(number):,}",
        key=lambda row: class_key(ClassInfo(int(row["id"]), str(row["name"]), "")),
        percent=percent,
        # Nothing but a color reaches the style sheet: colors come from files
        safe_color=lambda color: color if is_color(color) else "#808080",
    )
    return environment


def percent(share: float) -> str:
    """Return a share in percent, its unit on the same line."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def _address(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


HASHED_BYTES = 16 * 2**30  # of one file, unless asked for: half a minute at 0.6 GB/s
SOFTWARE = ("polyad", "python", "numpy", "torch", "scikit-learn", "rasterio", "GDAL")
_CHUNK = 2**22
_SECRETS = re.compile(r"(?<=://)[^/@]*@|[?#].*")  # user and password; tokens of a signed address


@dataclass(frozen=True)
class InputFile:
    """A file that a command read.

    Attributes
    ----------
    role : str
        What it was read as: scene, labels, model and so on.
    name : str
        Without its folder.
    bytes : int or None
    sha256 : str or None
    note : str
        Why there is no SHA-256, or of what it is if not of one file.
    """

    role: str
    name: str
    bytes: int | None = None
    sha256: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Provenance:
    """What was run: command, date, versions, files; made by `record_run`.

    Attributes
    ----------
    command : str
        As it was typed; of absolute paths the file name alone.
    date : str
        In UTC, to the second, after ISO 8601.
    versions : dict of str to str
    files : tuple of InputFile
    """

    command: str
    date: str
    versions: Mapping[str, str]
    files: tuple[InputFile, ...] = ()


def record_run(
    command: str | Sequence[str],
    inputs: Mapping[str, str | Sequence[str | None] | None] | None = None,
    *,
    hashes: bool | None = None,
    progress: bool = False,
) -> Provenance:
    """Record what was run, with the SHA-256 of every file that was read.

    All files of an input count, such as header and data of an ENVI scene.

    Parameters
    ----------
    command : str or sequence of str
        The command, or its words as they were typed.
    inputs : mapping, optional
        From what was read ("scene", "labels") to where it came from: a file, ``file:key``, an
        address or the name of a known scene, or several of them.
    hashes : bool, optional
        Whether files are hashed; by default those of 16 GiB at most.
    progress : bool, default=False
        Show a bar.

    Examples
    --------
    >>> record_run(["polyad", "map", "/home/me/model.polyad", "my scene.hdr"]).command
    "polyad map model.polyad 'my scene.hdr'"
    """
    words = command if isinstance(command, str) else shlex.join(map(without_folder, command))
    sources = {role: [s] if isinstance(s, str) else s or () for role, s in (inputs or {}).items()}
    named = [(role, s) for role, several in sources.items() for s in several if s is not None]
    plans = dict.fromkeys(plan for role, s in named for plan in _plans(s, role))  # each once
    size = sum(plan.size for plan in plans if plan.hashed(hashes))
    hidden = not progress or size < 2**30
    with tqdm(total=size, desc="SHA-256", unit="B", unit_scale=True, disable=hidden) as bar:
        files = tuple(plan.record(hashes, bar) for plan in plans)
    return Provenance(words, datetime.now(UTC).isoformat(timespec="seconds"), software(), files)


def software() -> dict[str, str]:
    """Return the versions of what numbers depend on."""
    import rasterio  # here: a page about numbers alone needs no raster library until now

    own = {"python": platform.python_version(), "GDAL": rasterio.__gdal_version__}
    found = {}
    for name in SOFTWARE:
        with suppress(PackageNotFoundError):  # run from its source, or left out when installed
            found[name] = own.get(name) or version(name)
    return found


def without_folder(word: str) -> str:
    """Return a word of a command; of an absolute path its last name, of an address no secret.

    Examples
    --------
    >>> without_folder("/home/me/scene.mat:cube"), without_folder("--mask=/home/me/m.tif")
    ('scene.mat:cube', '--mask=m.tif')
    >>> without_folder("https://me:secret@host/scene.tif?token=1"), without_folder("data/m.tif")
    ('https://host/scene.tif', 'data/m.tif')
    """
    option, equals, value = word.partition("=")
    if word.startswith("--") and equals:
        return f"{option}={without_folder(value)}"
    if is_address(word):
        return _SECRETS.sub("", word)
    path, key = split_key(word)
    if not Path(path).is_absolute():
        return word
    return Path(path).name + ("" if key is None else f":{key}")


def sha256_of(path: Path, bar: Any = None) -> str:
    """Return the SHA-256 of a file; ``bar.update`` is told the bytes that were read."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            if bar is not None:
                bar.update(len(chunk))
    return digest.hexdigest()


@dataclass(frozen=True)
class _Plan:
    """A file, or all files of a folder, that may be hashed."""

    role: str
    name: str
    files: tuple[Path, ...]
    folder: Path | None = None
    note: str = ""

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def hashed(self, asked: bool | None) -> bool:
        return bool(self.files) and (self.size <= HASHED_BYTES if asked is None else asked)

    def record(self, asked: bool | None, bar: Any) -> InputFile:
        if not self.files:
            return InputFile(self.role, self.name, note=self.note)
        if not self.hashed(asked):
            why = "not asked for" if asked is False else "above 16 GiB; asked for with --hash"
            return InputFile(self.role, self.name, self.size, note=f"not hashed: {why}")
        digests = [sha256_of(file, bar) for file in self.files]
        if self.folder is None:
            return InputFile(self.role, self.name, self.size, digests[0], self.note)
        names = [file.relative_to(self.folder).as_posix() for file in self.files]
        lines = "".join(f"{d}  {n}\n" for d, n in zip(digests, names, strict=True))
        whole = hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
        note = f"of the list of the SHA-256 of its {len(self.files):,} files, sorted by name"
        return InputFile(self.role, self.name, self.size, whole, note)


def _plans(source: str, role: str) -> list[_Plan]:
    """Return each thing that ``source`` consists of."""
    path, _ = locate(source)
    if not path.exists():
        scene = KNOWN_SCENES.get(str(path))
        if scene is None:
            note = "not hashed: read by parts from its address"
            return [_Plan(role, without_folder(source), (), note=note)]
        if scene.bundled:
            note = f"not hashed: a known scene, from TensorLy {version('tensorly')}"
            return [_Plan(role, str(path), (), note=note)]
        file = data_folder() / (scene.cube if role == "scene" else scene.labels).name
        files = tuple([file] if file.is_file() else [])
        return [_Plan(role, file.name, files, note=f"known scene {path}")]
    if path.is_dir():
        files = tuple(sorted(file for file in path.rglob("*") if file.is_file()))
        return [_Plan(role, path.name, files, path, "no file in it")]
    others = sorted(file for file in files_of(path) - {path} if file.is_file())
    return [_Plan(role, file.name, (file,)) for file in (path, *others)]
