"""Checks made before anything large is read: a file must hold what its header declares.

A header is a claim. Four questions check it, each with integers only:

* does the file exist and is it not empty (`existing_file`),
* can the stored bytes hold the declared ones (`check_stored`, `check_inflation`),
* does the piece that must be read at once fit in the memory budget (`check_budget`),
* are the entries of the file few enough to be visited one by one (`check_count`)?
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from affine import Affine

from polyad.errors import BudgetExceeded, SceneError
from polyad.safe_open import check_regular
from polyad.scene.files.paths import no_file

# Deflate cannot exceed 1032:1, which only constant data reaches. Scenes with wide nodata margins
# stay below 50:1, so 200:1 leaves room and still stops a file of repeated zeros.
MAX_INFLATION = 200
# Below this many declared bytes no claim can hurt, and small constant test files stay readable.
HARMLESS_BYTES = 16 * 2**20
_LISTED = 20  # arrays named in a message
MAX_BANDS = 65_535  # as many as a TIFF can have; spectrometers have hundreds
MAX_SIDE = 5_000_000  # rows or columns, each of which has a coordinate
# Used where the operating system does not tell its memory (Windows has no sysconf).
_UNKNOWN_MEMORY = 8 * 2**30


def memory_budget(max_bytes: int | None = None, *, share: float = 0.5) -> int:
    """Return how many bytes may be read at once.

    Parameters
    ----------
    max_bytes : int, optional
        The caller's own limit; returned as it is.
    share : float, default=0.5
        Share of the machine's memory to use when there is no limit.

    Examples
    --------
    >>> memory_budget(1000)
    1000
    >>> memory_budget() > 0
    True
    """
    if max_bytes is not None:
        if max_bytes <= 0:
            raise SceneError(
                f"max_bytes must be a positive number of bytes, got {max_bytes}; leave it out to "
                "use half of the machine's memory"
            )
        return int(max_bytes)
    return int(share * min(_physical_memory(), _container_limit()))


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN_MEMORY


def _container_limit() -> float:
    # A container sees the memory of its host; its own limit stands here ("max" means none).
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return math.inf
    return float(text) if text.isdigit() else math.inf


def human_bytes(n: float) -> str:
    """Return a byte count for people.

    Examples
    --------
    >>> human_bytes(512), human_bytes(8 * 2**40)
    ('512 B', '8.0 TiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def declared_bytes(shape: Sequence[int], dtype: np.dtype) -> int:
    """Return the bytes an array takes, in Python integers that cannot overflow."""
    return math.prod(int(n) for n in shape) * dtype.itemsize


def existing_file(path: Path) -> int:
    """Return the size in bytes of the file at ``path``; refuse a missing or empty one."""
    try:
        size = check_regular(path)
    except OSError as error:
        raise no_file(path) from error
    if size == 0:
        raise SceneError(f"{path}: the file is empty (0 bytes); copy or download it again")
    return size


def check_shape(path: Path | str, shape: Sequence[int], what: str = "scene") -> None:
    """Refuse anything but three axes of at least one element each."""
    if len(shape) != 3 or min(shape) < 1:
        raise SceneError(
            f"{path}: a {what} needs three axes (rows, columns, bands), each of at least 1, got "
            f"shape {tuple(int(n) for n in shape)}; choose another array or reshape it"
        )


def check_extent(path: Path | str, shape: tuple[int, int, int]) -> None:
    """Refuse more rows, columns or bands than any scene has, before something is kept of each."""
    if max(shape[:2]) > MAX_SIDE or shape[2] > MAX_BANDS:
        raise SceneError(
            f"{path}: expected a scene of at most {MAX_SIDE:,} rows and columns and {MAX_BANDS:,} "
            f"bands, got {shape[0]:,}, {shape[1]:,} and {shape[2]:,}; are the axes in another "
            "order?"
        )


def check_place(path: Path | str, transform: Affine) -> None:
    """Refuse a georeference that is not finite or gives pixels no size."""
    size = transform.a * transform.e - transform.b * transform.d
    if not (all(map(math.isfinite, transform)) and math.isfinite(size) and size):
        raise SceneError(
            f"{path}: expected a finite origin and pixel size other than 0, got "
            f"{tuple(transform)[:6]}; write the georeference again"
        )


def check_numeric(path: Path | str, dtype: np.dtype) -> None:
    """Refuse element types that are not real numbers (objects, text, records, complex)."""
    if dtype.kind not in "biuf":
        raise SceneError(
            f"{path}: expected integer or real values, got elements of type {dtype}; save the "
            "scene as a plain numeric array"
        )


def check_stored(path: Path | str, declared: int, stored: int) -> None:
    """Refuse an uncompressed file that is shorter than its header declares."""
    if stored < declared:
        short = f"{declared - stored:,} bytes are missing"
        raise SceneError(
            f"{path}: the header declares {human_bytes(declared)} of pixels, the file holds "
            f"{human_bytes(stored)} ({short}); it is truncated or its header is wrong, copy it "
            "again"
        )


def check_inflation(path: Path | str, declared: int, stored: int) -> None:
    """Refuse a compressed or sparse file that declares far more than it can really hold."""
    if declared > max(HARMLESS_BYTES, MAX_INFLATION * stored):
        raise SceneError(
            f"{path}: the header declares {human_bytes(declared)}, the file stores "
            f"{human_bytes(stored)} of it, more than {MAX_INFLATION}:1; it is truncated, sparse or "
            "a decompression bomb, write it again with its real pixels"
        )


def check_piece(path: Path | str, piece: int, whole: int, budget: int, what: str) -> None:
    """Refuse a piece (chunk, tile, strip) that is unpacked at once and too large.

    Too large for the budget, or far larger than the ``whole`` array that it is a piece of: such a
    piece is padding, made to be unpacked.
    """
    check_budget(path, piece, budget, what)
    if piece > max(HARMLESS_BYTES, 4 * whole):
        raise SceneError(
            f"{path}: {what} takes {human_bytes(piece)}, the whole array {human_bytes(whole)}; "
            "write the file again with smaller pieces"
        )


def check_budget(path: Path | str, at_once: int, budget: int, what: str) -> None:
    """Refuse when ``at_once`` bytes, which cannot be read piecewise, exceed ``budget``."""
    if at_once > budget:
        raise BudgetExceeded(
            f"{path}: {what} must be read at once and takes {human_bytes(at_once)}, the budget is "
            f"{human_bytes(budget)}; raise --max-bytes (in Python, max_bytes) or convert the file "
            "to GeoTIFF or ENVI"
        )


def check_count(path: Path | str, count: int, most: int, what: str) -> None:
    """Refuse a file with more than ``most`` entries of one kind, each of which costs time."""
    if count > most:
        raise SceneError(
            f"{path}: expected at most {most:,} {what}, got more; it is damaged or made to keep "
            "the reader busy, write the scene alone into a new file"
        )


def listing(items: Iterable[str]) -> str:
    """Return names for a message, of which a file may hold thousands, and long ones.

    Examples
    --------
    >>> listing(["cube (5, 4, 3)", "gt (5, 4)"])
    'cube (5, 4, 3), gt (5, 4)'
    """
    shown = [item if len(item) <= 80 else item[:77] + "..." for item in items]
    rest = len(shown) - _LISTED
    return ", ".join(shown[:_LISTED]) + (f" and {rest:,} more" if rest > 0 else "")
