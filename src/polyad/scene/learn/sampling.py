"""Which labeled pixels train and which test.

Every sampler takes a label raster (0 = unlabeled) and returns a `Split`. Random draws come from
the ``random_state`` that is passed in. Windows of neighboring pixels overlap, so a test pixel next
to a training pixel has partly been seen: `no_overlap` returns which test pixels have not.

A `Protocol` is a sampler with a name: a row of `DRAWS`. The random draw is what most papers report.
It flatters a model that recognizes the field a pixel lies in, since nearly every field has training
pixels: the other protocols take that away. `FixedSplit` is a split that somebody published.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import ndimage

from polyad.errors import InputError, PolyadWarning, SceneMismatch
from polyad.scene.files.option_values import check_window
from polyad.scene.raster.classes import UNLABELED, class_table
from polyad.scene.raster.scene import as_labels
from polyad.scene.raster.windows import Border, interior
from polyad.scene.read.labels import open_labels

Labels = NDArray[np.integer] | xr.DataArray
RandomState = int | np.random.Generator


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test pixels of a scene; no pixel is in both.

    Attributes
    ----------
    train : ndarray of int, shape (n_train, 2)
        Row and column of each training pixel, class by class.
    test : ndarray of int, shape (n_test, 2)
        Row and column of each test pixel, class by class.
    """

    train: NDArray[np.intp]
    test: NDArray[np.intp]

    def classes_of(self, labels: Labels) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return the class ids of the training pixels and of the test pixels.

        Examples
        --------
        >>> labels = np.array([[1, 1], [2, 2]])
        >>> per_class(labels, 1, random_state=0).classes_of(labels)
        (array([1, 2]), array([1, 2]))
        """
        values = _ids(labels)
        return values[tuple(self.train.T)], values[tuple(self.test.T)]


def per_class(
    labels: Labels,
    n: int,
    random_state: RandomState,
    *,
    border: Border = "reflect",
    window: int = 5,
) -> Split:
    """Train on ``n`` random pixels of each class and test on all others (the paper's protocol).

    A class with ``n`` pixels or fewer trains with half of them, rounded down but at least one, so
    that every class can be tested.

    Parameters
    ----------
    labels : ndarray or DataArray of int, shape (height, width)
        0 is unlabeled.
    n : int
        Training pixels per class, at least 1.
    random_state : int or numpy Generator
    border : {'reflect', 'drop'}
        ``'drop'`` leaves out pixels whose window leaves the scene, as the paper does.
    window : int
        Side of that window; used with ``border='drop'`` only.

    Returns
    -------
    Split

    Raises
    ------
    InputError
        If a class has fewer than two pixels: one would be left to train on or to test on.

    Examples
    --------
    >>> labels = np.array([[1, 1, 1, 1], [2, 2, 2, 0]])
    >>> split = per_class(labels, 3, random_state=0)
    >>> split.train.shape, split.test.shape  # class 1: 3 + 1, class 2: 1 + 2
    ((4, 2), (3, 2))
    """
    _check(n=n)
    return _draw(labels, lambda size: n if size > n else size // 2, random_state, border, window)


def fraction(
    labels: Labels,
    share: float,
    random_state: RandomState,
    *,
    border: Border = "reflect",
    window: int = 5,
) -> Split:
    """Train on a random share of each class and test on all others.

    Parameters
    ----------
    labels : ndarray or DataArray of int, shape (height, width)
    share : float
        Between 0 and 1, both excluded. Each class keeps at least one pixel on either side.
    random_state : int or numpy Generator
    border, window
        As in `per_class`.

    Returns
    -------
    Split

    Examples
    --------
    >>> split = fraction(np.ones((10, 10), dtype=int), 0.2, random_state=0)
    >>> len(split.train), len(split.test)
    (20, 80)
    """
    _check(share)

    def part(size: int) -> int:
        return min(max(round(share * size), 1), size - 1)

    return _draw(labels, part, random_state, border, window)


def blocks(
    labels: Labels,
    share: float,
    random_state: RandomState,
    *,
    size: int = 20,
    n: int | None = None,
    border: Border = "reflect",
    window: int = 5,
) -> Split:
    """Train in some square blocks of the scene and test in the others, no window in common.

    Blocks are dealt out class by class, the rarest first, until about ``share`` of the class is on
    the training side. Test pixels whose window shares a pixel with a training window fall into the
    dead zone between the two and are left out.

    Parameters
    ----------
    labels : ndarray or DataArray of int, shape (height, width)
    share : float
        Wanted share of each class in training blocks, between 0 and 1, both excluded.
    random_state : int or numpy Generator
    size : int
        Side of a block in pixels.
    n : int, optional
        At most this many training pixels of each class, drawn from its training blocks.
    border : {'reflect', 'drop'}
        As in `per_class`.
    window : int
        Side of the window that must not be shared.

    Returns
    -------
    Split
        ``no_overlap(split, labels.shape, window)`` is True everywhere.

    Raises
    ------
    InputError
        If no test pixel is left at all.

    Warns
    -----
    UserWarning
        For classes that lie too close together to be split: they train and are not tested.

    Examples
    --------
    >>> labels = np.ones((40, 40), dtype=int)
    >>> split = blocks(labels, 0.5, random_state=0)
    >>> bool(no_overlap(split, labels.shape, window=5).all())
    True
    """
    _check(share, size=size, n=1 if n is None else n)
    rng = np.random.default_rng(random_state)
    pixels = _pixels_by_class(labels, border, window, least=1)
    height, width = _ids(labels).shape
    in_training = np.full((-(-height // size), -(-width // size)), -1, dtype=np.int8)  # -1: open
    for value in sorted(pixels, key=lambda v: len(pixels[v])):
        _deal_blocks(in_training, pixels[value] // size, share, rng)
    train, candidates = [], []
    for where in pixels.values():
        chosen = in_training[tuple((where // size).T)] == 1
        taken = where[chosen]
        train.append(taken if n is None else rng.permutation(taken)[:n])
        candidates.append(where[~chosen])
    split = _apart(
        Split(np.concatenate(train), np.concatenate(candidates)), (height, width), window
    )
    if not len(split.test):
        raise InputError(
            "no test pixel is left outside the training blocks and the dead zone around them; use "
            f"smaller blocks than size={size}, a smaller share than {share}, or per_class"
        )
    lost = [_name(labels, int(v)) for v in np.setdiff1d(*split.classes_of(labels))]
    if lost:
        warnings.warn(
            f"these classes train but have no test pixel left: {', '.join(lost)}; their pixels lie "
            "too close together to train and test without a shared window, and another block size "
            f"than {size} may split them",
            PolyadWarning,
            stacklevel=2,
        )
    return split


def from_labels(train: Labels, test: Labels) -> Split:
    """Take the split from two label rasters of one scene.

    Parameters
    ----------
    train, test : ndarray or DataArray of int, shape (height, width)

    Returns
    -------
    Split

    Raises
    ------
    SceneMismatch
        If the rasters differ in size, or a test class has no training pixel.
    InputError
        If a pixel is labeled in both, or no pixel is labeled in one.

    Examples
    --------
    >>> from_labels(np.array([[1, 0]]), np.array([[0, 1]])).test.tolist()
    [[0, 1]]
    """
    first, second = _ids(train), _ids(test)
    if first.shape != second.shape:
        raise SceneMismatch(
            f"training labels are {first.shape} pixels and test labels {second.shape}; both must "
            f"be of the same scene"
        )
    for what, raster in (("training", first), ("test", second)):
        if not raster.any():
            raise InputError(f"the {what} labels hold no labeled pixel (all are 0)")
    both = np.argwhere((first != UNLABELED) & (second != UNLABELED)).tolist()
    if both:
        raise InputError(
            f"{len(both)} pixels are labeled for training and for test, the first at row "
            f"{both[0][0]}, col {both[0][1]}; set them to 0 in one of the two"
        )
    unknown = np.setdiff1d(second[second != UNLABELED], first).tolist()
    if unknown:
        raise SceneMismatch(
            f"test labels hold class {_name(test, unknown[0])}, which has no training pixel; label "
            "some or remove it from the test labels"
        )
    return Split(np.argwhere(first != UNLABELED), np.argwhere(second != UNLABELED))


def no_overlap(split: Split, shape: tuple[int, ...], window: int = 5) -> NDArray[np.bool_]:
    """Return which test pixels have a window that shares no pixel with any training window.

    Two windows of side s share a pixel exactly if their centers are less than s apart in rows and
    in columns (Chebyshev distance). Reflection at the border adds nothing: it repeats pixels that
    the window holds already.

    Parameters
    ----------
    split : Split
    shape : tuple of int
        ``(height, width)`` of the scene; further entries are ignored.
    window : int
        Odd side of the window.

    Returns
    -------
    ndarray of bool, shape (n_test,)

    Examples
    --------
    >>> split = Split(np.array([[0, 0]]), np.array([[0, 2], [0, 3]]))
    >>> no_overlap(split, (1, 4), window=3).tolist()
    [False, True]
    """
    check_window(window)
    near = np.zeros(shape[:2], dtype=np.uint8)
    near[tuple(split.train.T)] = 1
    near = ndimage.maximum_filter(near, size=2 * window - 1, mode="constant")
    return near[tuple(split.test.T)] == 0


def _apart(split: Split, shape: tuple[int, ...], window: int) -> Split:
    """Return the split without test pixels whose window overlaps a training window."""
    return Split(split.train, split.test[no_overlap(split, shape, window)])


def compact_patch(
    labels: Labels,
    n: int,
    random_state: RandomState,
    *,
    border: Border = "reflect",
    window: int = 5,
) -> Split:
    """Train on the ``n`` pixels of each class nearest to a random one of it.

    Tested are pixels at least ``window`` pixels away from every training pixel, as of a map whose
    user drew one small polygon per class. Half of a class of ``n`` pixels or fewer trains.
    Arguments are those of `per_class`.

    Examples
    --------
    >>> split = compact_patch(np.array([[1] * 12 + [2] * 12]), 3, random_state=0)
    >>> np.ptp(split.train[:3, 1]).item(), np.ptp(split.train[3:, 1]).item()
    (2, 2)
    """
    rng = np.random.default_rng(random_state)
    train, rest = [], []
    for where in _pixels_by_class(labels, border, window, least=2).values():
        middle = where[rng.integers(len(where))]
        nearest = np.argsort(np.square(where - middle).sum(axis=1), kind="stable")
        count = n if len(where) > n else len(where) // 2
        train.append(where[nearest[:count]])
        rest.append(where[nearest[count:]])
    return _apart(Split(np.concatenate(train), np.concatenate(rest)), _ids(labels).shape, window)


def other_fields(
    labels: Labels,
    n: int,
    random_state: RandomState,
    *,
    border: Border = "reflect",
    window: int = 5,
) -> Split:
    """Train on ``n`` pixels of one field of each class and test on the class's other fields.

    A field is a connected region of one class, corners included. Classes with a single field, or
    with no field of ``n`` pixels, are left out. Arguments are those of `per_class`.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [2, 2, 0, 2, 2]])
    >>> split = other_fields(labels, 2, random_state=0)
    >>> len(split.train), len(split.test)
    (4, 4)
    """
    rng = np.random.default_rng(random_state)
    values = _ids(labels)
    train: list[NDArray[np.intp]] = []
    test: list[NDArray[np.intp]] = []
    for where in _pixels_by_class(labels, border, window, least=0).values():
        inside = np.zeros(values.shape, bool)
        inside[tuple(where.T)] = True
        field, count = ndimage.label(inside, np.ones((3, 3)))
        large = np.flatnonzero(np.bincount(field.ravel())[1:] >= n) + 1
        if count < 2 or not len(large):
            continue
        chosen = rng.choice(large)
        train.append(rng.permutation(np.argwhere(field == chosen))[:n])
        test.append(np.argwhere((field > 0) & (field != chosen)))
    if len(train) < 2:
        raise InputError(
            f"fewer than two classes have several fields, one of them with {n} pixels; ask for "
            "fewer pixels, or use another protocol"
        )
    return Split(np.concatenate(train), np.concatenate(test))


def _draw(
    labels: Labels,
    how_many: Callable[[int], int],
    random_state: RandomState,
    border: Border,
    window: int,
) -> Split:
    """Draw ``how_many(size of the class)`` training pixels of each class; the rest tests."""
    rng = np.random.default_rng(random_state)
    train, test = [], []
    for where in _pixels_by_class(labels, border, window, least=2).values():
        shuffled = rng.permutation(where)
        k = max(how_many(len(where)), 1)
        train.append(shuffled[:k])
        test.append(shuffled[k:])
    return Split(np.concatenate(train), np.concatenate(test))


def _deal_blocks(
    in_training: NDArray[np.int8],
    block_of: NDArray[np.intp],
    share: float,
    rng: np.random.Generator,
) -> None:
    """Give the still open blocks of one class to training (1) or test (0), about ``share`` of it.

    ``block_of`` is the block row and column of each of its pixels, shape (n, 2). A class that has
    several blocks gets one on each side where blocks dealt to rarer classes leave the choice.
    """
    held, sizes = np.unique(block_of, axis=0, return_counts=True)
    state = in_training[tuple(held.T)]
    got = int(sizes[state == 1].sum())
    still_open = rng.permutation(np.flatnonzero(state == -1))
    if got == 0 and not len(still_open):  # rarer classes left it test blocks only: it takes one
        in_training[tuple(held[sizes.argmax()])] = 1
    tested = bool((state == 0).any())
    for k, block in enumerate(still_open):
        last_chance = k == len(still_open) - 1 and not tested and got > 0
        trains = got == 0 or (got + sizes[block] / 2 <= share * len(block_of) and not last_chance)
        in_training[tuple(held[block])] = trains
        got += int(sizes[block]) * trains
        tested |= not trains


def _pixels_by_class(
    labels: Labels, border: Border, window: int, least: int
) -> dict[int, NDArray[np.intp]]:
    """Return class id -> its pixels (k, 2); every class must have at least ``least`` of them."""
    values = _ids(labels)
    if border not in ("reflect", "drop"):
        raise InputError(f"border must be 'reflect' or 'drop', got {border!r}")
    check_window(window)
    where = np.argwhere(values != UNLABELED)
    if not len(where):
        raise InputError("no pixel is labeled (all are 0); label at least two pixels per class")
    of_class = values[tuple(where.T)]
    present = np.unique(of_class)
    if border == "drop":
        whole = interior(where[:, 0], where[:, 1], values.shape, window)
        where, of_class = where[whole], of_class[whole]
    pixels = {int(v): where[of_class == v] for v in present}
    for value, members in pixels.items():
        if len(members) < least:
            inside = f" whose {window} x {window} window is whole" if border == "drop" else ""
            raise InputError(
                f"class {_name(labels, value)} has {len(members)} labeled "
                f"{'pixel' if len(members) == 1 else 'pixels'}{inside}, but at least {least} "
                "are expected to train and to test; label more of it, or leave it out: set its "
                f"labels to 0 (in Python, labels.where(labels != {value}, 0))"
            )
    return pixels


def _check(share: float = 0.5, **counts: int) -> None:
    if not 0 < share < 1:
        raise InputError(f"share must lie between 0 and 1, both excluded, got {share!r}")
    for name, value in counts.items():
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")


def _ids(labels: Labels) -> NDArray[np.integer]:
    """Return class ids ``(rows, columns)`` of an array, or of a DataArray put in order."""
    named = isinstance(labels, xr.DataArray | xr.Dataset)
    values = np.asarray(as_labels(labels) if named else labels)
    if values.ndim != 2 or values.dtype.kind not in "iu":
        raise InputError(
            "labels must be a 2-D integer raster of class ids with 0 for unlabeled, got shape "
            f"{values.shape} of {values.dtype}"
        )
    if values.min(initial=0) < 0:
        raise InputError(f"class ids must be 0 (unlabeled) or above, got {values.min()}")
    return values


def _name(labels: Labels, value: int) -> str:
    """Return "3 'Corn'" where the raster carries names, else "3"."""
    if isinstance(labels, xr.DataArray) and "class_names" in labels.attrs:
        for info in class_table(labels):
            if info.value == value:
                return f"{value} {info.name!r}"
    return str(value)


# -- protocols -------------------------------------------------------------------------------------


def _per_class_apart(labels: Labels, n: int, seed: int, *, border: Border, window: int) -> Split:
    drawn = per_class(labels, n, seed, border=border, window=window)
    return _apart(drawn, _ids(labels).shape, window)


BLOCK_SIDE, BLOCK_SHARE = 20, 0.5  # of the protocol of blocks: side, and training share
DRAWS: dict[str, Callable[..., Split]] = {
    "random": per_class,
    "no-overlap": _per_class_apart,
    "other-fields": other_fields,
    "blocks": lambda labels, n, seed, **options: blocks(
        labels, BLOCK_SHARE, seed, size=BLOCK_SIDE, n=n, **options
    ),
    "patch": compact_patch,
}


@dataclass(frozen=True)
class Protocol:
    """Draws a split of a label raster with ``n`` training pixels of each class.

    Parameters
    ----------
    protocol : {"random", "no-overlap", "other-fields", "blocks", "patch"}
        ``"random"`` is `per_class`, the paper's protocol; ``"no-overlap"`` the same, tested only
        where the window shares no pixel with a training window; then `other_fields`, `blocks`,
        half of the scene each, and `compact_patch`.
    n, window : int
    border : {"reflect", "drop"}
        With "drop", pixels whose window leaves the scene neither train nor test.

    Examples
    --------
    >>> RandomPerClass(10).name
    'random-10'
    """

    protocol: str
    n: int = 10
    window: int = 5
    border: Border = "reflect"

    @property
    def name(self) -> str:
        """Short and unique for its settings."""
        return f"{self.protocol}-{self.n}"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return training and test pixels of ``labels``, ``(height, width)``, drawn by ``seed``."""
        draw = DRAWS[self.protocol]
        return draw(labels, self.n, seed, border=self.border, window=self.window)


RandomPerClass = partial(Protocol, "random")
NoOverlap = partial(Protocol, "no-overlap")
OtherFields = partial(Protocol, "other-fields")
Blocks = partial(Protocol, "blocks")
CompactPatch = partial(Protocol, "patch")
PROTOCOLS = {
    p.name: p
    for p in (
        *map(RandomPerClass, (5, 10, 30)),
        *(draw(10) for draw in (NoOverlap, OtherFields, Blocks, CompactPatch)),
    )
}


@dataclass(frozen=True, eq=False)
class FixedSplit:
    """Training and test pixels as somebody published them; a seed changes nothing.

    Parameters
    ----------
    train, test : ndarray or DataArray of int, shape (height, width)
        Class ids of the training and of the test pixels, 0 elsewhere. No pixel is in both, and
        every class of the test raster has training pixels.

    Examples
    --------
    >>> given = FixedSplit(np.array([[1, 2], [0, 0]]), np.array([[0, 0], [1, 2]]))
    >>> split = given.split(given.labels, seed=0)
    >>> split.train.tolist(), split.test.tolist()
    ([[0, 0], [0, 1]], [[1, 0], [1, 1]])
    """

    train: Labels
    test: Labels

    def __post_init__(self) -> None:
        from_labels(self.train, self.test)  # its checks

    @classmethod
    def open(cls, train: str | os.PathLike[str], test: str | os.PathLike[str]) -> FixedSplit:
        """Read both rasters; see `polyad.scene.open_labels` for the formats."""
        return cls(open_labels(train), open_labels(test))

    @property
    def labels(self) -> NDArray[np.uint16]:
        """Both rasters in one, shape (height, width)."""
        train, test = _ids(self.train), _ids(self.test)
        return np.where(train != UNLABELED, train, test).astype(np.uint16)

    @property
    def name(self) -> str:
        """``fixed-`` and eight digits that change with any pixel of either raster."""
        both = (np.ascontiguousarray(_ids(v), dtype="<u2") for v in (self.train, self.test))
        whole = b"".join(raster.tobytes() for raster in both)
        return f"fixed-{hashlib.sha256(whole).hexdigest()[:8]}"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split; ``labels`` of the scene must have the rasters' shape."""
        del seed
        shape, expected = _ids(labels).shape, _ids(self.train).shape
        if shape != expected:
            raise SceneMismatch(
                f"the rasters of the split are {expected[0]} x {expected[1]}, the scene is "
                f"{' x '.join(map(str, shape))} pixels; give rasters of this scene"
            )
        return from_labels(self.train, self.test)
