"""Checks of paths that need no library: the input exists, the output can be written.

The command line checks first, so that a mistyped path is answered at once; the functions that open
and write check again for all other callers. An earlier output of polyad may be replaced without
asking; a scene, labels or anybody's notes under the same name may not. The content decides, not the
ending, and only a few kilobytes are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from polyad.errors import OutputError, SceneError
from polyad.text import clean_name

ENDINGS: dict[str, tuple[str, ...]] = {
    "map": (".tif", ".tiff", ".hdr", ".img", ".png", ".nc", ".zarr", ".npy"),
    "map of a regression target": (".tif", ".tiff", ".png", ".nc", ".npy"),
    "file of probabilities": (".tif", ".tiff"),
    "file of uncertainty": (".tif", ".tiff"),
    "file of set sizes": (".tif",),
    "file of sets": (".tif",),
    "file of scores": (".json", ".csv"),
    "sample": (".gpkg", ".geojson", ".csv"),
    "table of areas": (".csv", ".json"),
    "report": (".html", ".htm"),
}

ENVI_DATA = (  # beside a header
    "", ".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip", ".envi", ".hyspex",
    ".sli",
)  # fmt: skip
SIDES = (".aux.xml", ".ovr", ".msk")  # what GDAL keeps beside a raster
_VRT_SOURCE = re.compile(rb"<SourceFilename[^>]*>\s*([^<>/\\]+?)\s*<")
_VRT_BYTES = 16 * 2**20
_ENMAP = re.compile(r"(.*)-(?:METADATA|SPECTRAL_IMAGE)", re.IGNORECASE)


def split_key(source: str) -> tuple[str, str | None]:
    r"""Split ``file.mat:key`` into the file and the key; without a key the second is None.

    A drive letter (``C:\data``) and an address (``https://...``) are no file with a key.

    Examples
    --------
    >>> split_key("pavia.mat:paviaU"), split_key("pavia.mat")
    (('pavia.mat', 'paviaU'), ('pavia.mat', None))
    >>> split_key(r"C:\data\scene.nc:/group/reflectance")
    ('C:\\data\\scene.nc', '/group/reflectance')
    >>> split_key(r"C:\data\scene.nc")
    ('C:\\data\\scene.nc', None)
    """
    head, colon, tail = source.rpartition(":")
    drive = re.fullmatch(r"[A-Za-z]", head) is not None
    if not (colon and head and tail) or drive or tail.startswith("//"):
        return source, None
    return head, tail


def locate(source: str) -> tuple[Path, str | None]:
    """Return path and key; a colon may also be part of the file's own name."""
    if Path(source).exists():
        return Path(source), None
    name, key = split_key(source)
    return Path(name), key


def is_address(source: str) -> bool:
    """Return whether ``source`` is an address on the network, of any kind.

    Examples
    --------
    >>> is_address("https://host/scene.tif"), is_address("C:/scene.tif")
    (True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source) is not None


def check_scene(source: str, *, remote: bool = False) -> None:
    """Raise `SceneError` unless ``source`` is a path that exists or the name of a known scene.

    Parameters
    ----------
    source : str
    remote : bool, default=False
        Whether ``source`` may also be an ``https://`` address, which is not tried here.
    """
    if is_address(source) and not Path(source).exists():
        if not source.lower().startswith("https://"):
            raise SceneError(f"{source}: expected a file or an https:// address; download it first")
        if not remote:
            raise SceneError(
                f"{source}: an address is read only when asked for; add --remote (in Python, "
                "remote=True), or download the file"
            )
        return
    if source and locate(source)[0].exists():
        return
    from polyad.scene.files.benchmark_scenes import KNOWN_SCENES, nearest_known

    if source in KNOWN_SCENES:
        return
    near = nearest_known(source)
    remedy = f"did you mean {near!r}? Otherwise check the path" if near else "check the path"
    raise SceneError(
        f"{source}: no such file and no known scene; {remedy}, or use one of "
        f"{', '.join(KNOWN_SCENES)}"
    )


def check_labels_path(source: str) -> None:
    """Raise `SceneError` unless ``source`` is a path that exists or the name of a known scene."""
    path, _ = locate(source)
    if not path.exists():
        from polyad.scene.files.benchmark_scenes import KNOWN_SCENES

        if str(path) not in KNOWN_SCENES:
            raise no_file(path)


def no_file(path: Path) -> SceneError:
    """Return the error for a missing file at ``path``."""
    return SceneError(f"{path}: no such file; check the path")


def check_output(path: str | os.PathLike[str], what: str) -> None:
    """Raise `OutputError` before hours of work if their result could not be written.

    Parameters
    ----------
    path : path-like
        The file to be written later.
    what : str
        "map", "file of probabilities", "file of uncertainty", "file of set sizes", "file of sets",
        "file of scores", "sample", "table of areas", "report", "model" or "ONNX file". Decides
        which endings are known; the last two may have any.
    """
    from polyad.atomic import check_room  # whoever reads does not need it

    store = what in ENDINGS and check_ending(path, what) == ".zarr"
    check_room(Path(path), 0, folder=store)
    folder = Path(path).absolute().parent
    if not os.access(folder, os.W_OK):
        why = f"expected a folder that may be written to, {folder} may not"
        raise _unwritable(path, f"{why}; change its permissions or choose another folder")


def check_apart(output: str | os.PathLike[str], sources: Iterable[str], what: str = "map") -> None:
    """Raise `OutputError` if writing ``output`` would write over one of ``sources``.

    Links are followed. All files of an input count: header and data of an ENVI file, what lies
    beside a raster and belongs to it, and everything in an input that is a folder.
    """
    written = {side.resolve() for file in _pair(Path(output)) for side in _with_sides(file)}
    if what == "map":
        written |= {style.resolve() for style in _style(Path(output))}
    for source in sources:
        path = locate(source)[0]
        if not path.exists():
            continue
        for read in (file.resolve() for file in files_of(path)):
            if not written.isdisjoint((read, *read.parents)):
                why = f"it is the input {path}, which would be lost; choose another name"
                raise _unwritable(output, why)
            if read.is_dir() and any(read in file.parents for file in written):
                why = f"it lies in the input {path}, whose files could be lost"
                raise _unwritable(output, f"{why}; choose another folder")


def set_paths(class_map: str | os.PathLike[str]) -> dict[str, Path]:
    """Return where the prediction sets of a map go, beside it, by what is written.

    Examples
    --------
    >>> [path.name for path in set_paths("maps/map.zarr").values()]
    ['map_set_size.tif', 'map_sets.tif']
    """
    path = Path(class_map)
    names = {"file of set sizes": "_set_size.tif", "file of sets": "_sets.tif"}
    return {what: path.with_name(path.stem + name) for what, name in names.items()}


def check_names_differ(outputs: Iterable[tuple[str, str | os.PathLike[str]]]) -> None:
    """Raise `OutputError` if one output, such as ("report", path), would replace another."""
    seen: dict[Path, str] = {}
    for what, path in outputs:
        files = {file.resolve() for file in _pair(Path(path))}
        other = next((seen[file] for file in files if file in seen), None)
        if other is not None:
            both = f"both {what}s" if other == what else f"{other} and {what}"
            raise OutputError(
                f"cannot write {both} to {os.fspath(path)}, where one would replace the other; "
                "choose another name for one of them"
            )
        seen |= dict.fromkeys(files, what)


def check_kind(path: str | os.PathLike[str], what: str) -> None:
    """Raise `OutputError` if anything but an earlier output of polyad would be lost.

    An empty file or folder may be replaced. Links are followed.

    Parameters
    ----------
    path, what
        See `check_output`; ``path`` may also be the folder of a Zarr store.
    """

    def refuse(why: str, remedy: str = "or replace it with --force") -> None:
        raise _unwritable(path, f"{why}; choose another name, {remedy}")

    for style in _style(Path(path)) if what == "map" else ():
        if _holds_something(style) and not is_ours(style, "style"):
            refuse(
                f"its style goes to {style.name}, which is there, was made or changed by another "
                "program and would be lost"
            )
    for there in sorted(file.resolve() for file in _pair(Path(path))):
        # Data of ENVI have no mark of their own: the header speaks for both
        marked = there.with_suffix(".hdr") if there.suffix.lower() == ".img" else there
        if _holds_something(there):
            if what == "sample":
                refuse(f"{there.name} is there, and what was filled in would be lost")
            if not is_ours(marked, what):
                refuse(f"{there.name} is there, is no {what} of polyad and would be lost")
            drawn = sample_of(there) if what == "map" else None
            if drawn is not None:
                refuse(
                    f"{drawn.name} is a sample that was drawn from {there.name}, and does not fit "
                    "another map",
                    "or replace the map with --force",
                )
        elif there.suffix.lower() in (".tif", ".tiff", ".img"):
            for side in _with_sides(there)[1:]:  # of a raster that no longer exists
                if _holds_something(side) and not is_ours(side, "side"):
                    refuse(f"{side.name} is there and would be lost")


def _unwritable(path: str | os.PathLike[str], why: str) -> OutputError:
    return OutputError(f"cannot write {os.fspath(path)}: {why}")


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


def _pair(path: Path) -> set[Path]:
    """Return the file itself and the one that is written with it."""
    if path.suffix.lower() not in (".hdr", ".img"):
        return {path}
    return {path, *(path.with_suffix(ending) for ending in (".hdr", ".img"))}


def _style(path: Path) -> list[Path]:
    """Return the style for QGIS that is written with a map; only a GeoTIFF has one."""
    return [path.with_suffix(".qml")] if path.suffix.lower() in (".tif", ".tiff") else []


def _with_sides(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + suffix) for suffix in SIDES)]


def files_of(path: Path) -> set[Path]:
    """Return the files that an input consists of, as far as names tell."""
    if not path.name:  # the working folder
        return {path}
    files = _pair(path)
    if path.suffix.lower() == ".hdr":
        endings = [e for ending in ENVI_DATA for e in (ending, ending.upper())]
        files |= {path.with_name(path.stem + ending) for ending in endings}
    elif not path.is_dir():
        headers = [path.with_suffix(".hdr"), path.with_name(path.name + ".hdr")]
        headers += [header.with_suffix(".HDR") for header in headers]
        # A map of ours in ENVI's format may lie beside a scene of the same name
        files |= {header for header in headers if not is_ours(header, "map")}
    if product := _ENMAP.match(path.name):
        files |= {file for file in path.parent.iterdir() if _is_of_product(file.name, product[1])}
    files |= {path.with_name(name) for name in _vrt_sources(path)}
    if path.suffix.lower() == ".shp":  # a Shapefile is all files of its name
        files |= {file for file in path.parent.iterdir() if file.stem.lower() == path.stem.lower()}
    files |= {side for file in files for side in _with_sides(file)}
    style = path.with_suffix(".qml")
    if not is_ours(style, "style"):  # that of a map of the same name
        files.add(style)
    files.add(path.with_name(path.name + "-wal"))
    files |= {path.with_suffix(f".{path.suffix[1:2]}{path.suffix[-1:]}w"), path.with_suffix(".wld")}
    return {file for file in files if file == path or file.is_file()}


def _vrt_sources(path: Path) -> set[str]:
    """Return the names of the files beside a VRT that it puts together."""
    if not path.is_file():
        return set()
    with path.open("rb") as file:
        if b"<VRTDataset" not in file.read(1024):
            return set()
        file.seek(0)
        found = _VRT_SOURCE.findall(file.read(min(path.stat().st_size, _VRT_BYTES)))
    from xml.sax.saxutils import unescape  # imports urllib: only for the few who have such a file

    return {unescape(name.decode("utf-8", "replace")) for name in found}


def _is_of_product(name: str, product: str) -> bool:
    match = _ENMAP.match(name)
    return match is not None and match[1] == product


def check_ending(path: str | os.PathLike[str], what: str) -> str:
    """Return the ending of ``path``, or raise `OutputError` if no such file is written.

    Examples
    --------
    >>> check_ending("Map.TIF", "map")
    '.tif'
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS[what]:
        raise OutputError(
            f"cannot write the {what} {os.fspath(path)}: expected a name ending in "
            f"{', '.join(ENDINGS[what])}, got {ending or 'no ending'!r}; rename the output"
        )
    return ending


def make_folder(path: Path) -> None:
    """Make a folder for results unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path}: {error.strerror or error}") from error


_HEAD = 2**16  # bytes that are read at the beginning and at the end of a file
NPY_HEAD = 256  # bytes before the ids of a map; numpy itself takes 128
QML_MARK = "written by polyad; QGIS drops this line when it saves the style"
LABELS = "class labels"  # the tag "quantity" of a GeoTIFF that holds labels and no map
VALUES = "predicted value"  # that of a map of a regression target
DEVIATION = "standard deviation of the predicted value"  # and of what is written beside it
# What a sample says in its field `drawn_from`, after the name of the file
DRAWN_FROM = "drawn_from"
_SAMPLES, _SAMPLE_BYTES = (".gpkg", ".geojson", ".csv"), 2**24
_ZARR = ("zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata")
TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
JP2_MAGIC = (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")  # boxes, or the bare codestream
# Labels are a NumPy array of ids too; a map is told from them by a head wider than need be
_NPY = rb"'descr': '([|<](u1|u2)'.*'shape': \(\d+, \d+\)|<f4'.*'shape': \(\d+, \d+, \d+\))"
# By what is written and the ending, "" for any other: how the file begins, and a mark that it has
_MARKS: dict[tuple[str, str], tuple[bytes | tuple[bytes, ...], bytes]] = {
    ("map", ".tif"): (TIFF_MAGIC, b"class_values|" + VALUES.encode()),
    ("map", ".hdr"): (b"ENVI", b"class map written by polyad"),
    ("map", ".png"): (b"\x89PNG\r\n", b"Software\0polyad"),
    ("map", ".nc"): (b"\x89HDF\r\n", b"written by polyad"),
    ("map", ".npy"): (b"\x93NUMPY\1\0" + (NPY_HEAD - 10).to_bytes(2, "little"), _NPY),
    ("file of probabilities", ""): (TIFF_MAGIC, b"class probability"),
    ("file of uncertainty", ""): (TIFF_MAGIC, b"class uncertainty|" + DEVIATION.encode()),
    ("file of set sizes", ""): (TIFF_MAGIC, b"prediction set size"),
    ("file of sets", ""): (TIFF_MAGIC, b"prediction set members"),
    ("style", ""): (b"<qgis", QML_MARK.encode()),
    ("file of scores", ".json"): (b"{", b'"overall_accuracy"|"rmse_ci95"'),
    ("file of scores", ""): (b"measure,class,value", b""),
    ("table of areas", ".json"): (b"{", b'"area_ha"'),
    ("table of areas", ""): (b"class,id,area_ha,se_ha", b""),
    ("side", ""): (b"<PAMDataset>", b"<Category>Unclassified</Category>"),
    ("model", ""): (b"", rb'\A.{8}\{"__metadata__":.*"polyad":'),
    ("ONNX file", ""): (b"\x08", b"\x12\x06polyad"),  # its maker, in the second field
    ("report", ""): (b"<!doctype html>", b'<meta name="generator" content="polyad">'),
}


def is_ours(path: Path, what: str) -> bool:
    """Whether the file (or Zarr store) at ``path`` is an earlier output of the same kind.

    Parameters
    ----------
    path : Path
        The existing file.
    what : {"map", "file of probabilities", "file of scores", "model", "report", "side"}
        What is to be written; also "file of uncertainty", "file of set sizes", "file of sets",
        "table of areas", "ONNX file", and "style" for the ``.qml`` of a map. A side is the
        ``.aux.xml`` of a map.
    """
    if path.is_dir():
        return what == "map" and path.suffix.lower() == ".zarr" and _is_zarr_map(path)
    ending = path.suffix.lower().replace(".tiff", ".tif")
    known = _MARKS.get((what, ending)) or _MARKS.get((what, ""))
    try:
        if known is None or not path.is_file():  # a pipe would be waited for
            return False
        with path.open("rb") as file:
            text = file.read(_HEAD)
            file.seek(max(len(text), path.stat().st_size - _HEAD))
            text += file.read(_HEAD)
    except OSError:
        return False
    # Text lies in all formats as it is. GDAL keeps its tags at either end of a TIFF.
    marked = text.startswith(known[0]) and re.search(known[1], text, re.DOTALL) is not None
    return marked and not (what == "map" and f'name="quantity">{LABELS}<'.encode() in text)


def drawn_from(name: str, digest: str) -> str:
    """Return what a sample says of the map that it was drawn from.

    Examples
    --------
    >>> drawn_from("maps/map.tif", "cb0ba8d17eb5")
    'map=map.tif#cb0ba8d17eb5'
    """
    return f"map={clean_name(Path(name).name)}#{digest}"


def sample_of(path: Path) -> Path | None:
    """Return the first sample beside a map that was drawn from a map of its name, else None."""
    # Text lies in all three formats as it is; the digest ends the name
    mark = re.compile(re.escape(drawn_from(path.name, "").encode()) + rb"[0-9a-f]{12}")
    for file in sorted(path.absolute().parent.iterdir()):
        try:
            small = file.is_file() and file.stat().st_size <= _SAMPLE_BYTES
            if small and file.suffix.lower() in _SAMPLES and mark.search(file.read_bytes()):
                return file
        except OSError:  # whoever may not read it does not check it either
            continue
    return None


def _is_zarr_map(store: Path) -> bool:
    """Whether a store holds a class map with its coordinates and nothing else."""
    try:
        about = b"".join(
            (store / "class_map" / name).read_bytes()[:_HEAD]
            for name in ("zarr.json", ".zattrs", ".zarray")
            if (store / "class_map" / name).is_file()
        )
        return b"class_values" in about and all(
            _is_of_map(entry.relative_to(store).parts, about) and not entry.is_symlink()
            for entry in store.rglob("*")
        )
    except OSError:
        return False


def _is_of_map(path: tuple[str, ...], about: bytes) -> bool:
    """Whether an entry of a store is an array that the map names, its description or a chunk."""
    name, *rest = path
    if not rest and name in _ZARR:
        return True
    named = re.search(rb"\b%s\b" % re.escape(name.encode()), about) is not None
    chunk = rest[1:] if rest[:1] == ["c"] else rest
    known = len(rest) == 1 and rest[0] in _ZARR
    numbers = len(chunk) <= 2 and all(re.fullmatch(r"\d+(\.\d+)?", key) for key in chunk)
    return (name == "class_map" or named) and (known or numbers)
