"""Charts of reports as SVG: mean spectra, reliability of the probabilities, points on pictures.

Written as text, since a report holds some dozens of panels in two themes, which matplotlib takes
longer to lay out than a model takes to train. The figures that users draw are in `figures`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError
from polyad.scene.raster.bands import Bands
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_key, rgb
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Scene

Array = npt.NDArray[Any]


class Theme(NamedTuple):
    """Colors of a chart: text, what is less important, axes, grid, lines in the background."""

    ink: str
    soft: str
    axis: str
    grid: str
    faint: str
    accent: str
    dark: bool


LIGHT = Theme("#333333", "#888888", "#BBBBBB", "#EEEEEE", "#E2E2E2", "#4477AA", dark=False)
DARK = Theme("#D5DAE0", "#97A1AD", "#56606C", "#2C343D", "#3E4854", "#7DB8E8", dark=True)
_SMALL, _NORMAL = 11, 13  # pixels of letters
_PANEL = (220.0, 92.0)  # pixels of a panel of spectra
_GAP = "#EE7733"  # orange, told from the blue of the bars by everybody


class ClassSpectra(NamedTuple):
    """Mean spectra of classes: what `draw_spectra` draws, in one theme or another.

    ``means`` and ``spreads`` are ``(classes, bands)``, ``axis`` is ``(bands,)``, with NaN where
    bands are left out.
    """

    classes: list[ClassInfo]
    axis: npt.NDArray[Any]
    means: npt.NDArray[Any]
    spreads: npt.NDArray[Any]
    name: str


def class_spectra(scene: xr.DataArray | Scene, labels: xr.DataArray | Labels) -> ClassSpectra:
    """Return the mean spectrum and standard deviation of each class that has labels."""
    scene, labels = Scene.of(scene), Labels.of(labels)
    present = set(np.unique(labels.ids).tolist())
    classes = [c for c in labels.classes if c.value in present]
    if not classes:
        raise InputError("there is no labeled pixel to take a spectrum of; label some pixels")
    axis, order, name = _spectral_axis(scene.bands)
    means, spreads = _class_spectra(scene, labels, classes)  # (classes, bands) each
    means, spreads = _broken(axis, means[:, order]), _broken(axis, spreads[:, order])
    return ClassSpectra(classes, _broken(axis, axis), means, spreads, name)


def spectra_chart(spectra: ClassSpectra, theme: Theme = LIGHT) -> str:
    """Return one panel for each class as SVG, the means of the others behind its own."""
    classes, axis, means, spreads, name = spectra
    columns = min(4, len(classes))
    rows = -(-len(classes) // columns)
    low, high = np.nanmin(means - spreads), np.nanmax(means + spreads)
    margin = 0.04 * ((high - low) or 1.0)
    ends = (float(np.nanmin(axis)), float(np.nanmax(axis)))
    place = _Scale(ends, (0.0, _PANEL[0]))
    height = _Scale((float(low - margin), float(high + margin)), (_PANEL[1], 0.0))
    left = 34.0 + 7 * max(len(f"{tick:g}") for tick in height.ticks(4))
    step = _PANEL[0] + 18, _PANEL[1] + 26
    x, heights = place(axis), height(means)  # (bands,), (classes, bands)
    parts = [f'<g id="all" fill="none" stroke="{theme.faint}" stroke-width="0.8">']
    parts += [f'<path d="{_line(x, line)}"/>' for line in heights] + ["</g>"]
    whole = ["<defs>", *parts, "</defs>"]
    for k, info in enumerate(classes):
        row, column = divmod(k, columns)
        color = _visible(info.color, theme)
        corner = left + column * step[0], 20 + row * step[1]
        whole.append(f'<g transform="translate({corner[0]:g} {corner[1]:g})">')
        whole += _frame(place, height, theme, bottom=k + columns >= len(classes), side=column == 0)
        band = _area(x, height(means[k] - spreads[k]), height(means[k] + spreads[k]))
        whole.append(f'<use href="#all"/><path d="{band}" fill="{color}" opacity="0.4"/>')
        whole.append(f'<path d="{_line(x, heights[k])}" fill="none" stroke="{color}" '
                     'stroke-width="1.7"/>')  # fmt: skip
        whole.append(_text(0, -6, shortened(class_key(info), 34), theme.ink) + "</g>")
    size = left + columns * step[0], 20 + rows * step[1] + 30
    middle = left + columns * step[0] / 2, 20 + rows * step[1] / 2 - 13
    whole.append(_text(middle[0], size[1] - 8, name, theme.ink, _NORMAL, "middle"))
    side = "value (mean ± standard deviation)"
    whole.append(_text(12, middle[1], side, theme.ink, _NORMAL, "middle", turned=True))
    return _svg(size, whole)


def reliability_chart(
    confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = 10, theme: Theme = LIGHT
) -> str:
    """Return how often the map is right against its confidence as SVG, a reliability diagram.

    Parameters
    ----------
    confidence : array of float, shape (n,)
        Probability of the predicted class of each test pixel.
    right : array of bool, shape (n,)
        Whether that class is the true one.
    bins : int
        Equally wide bins of confidence.
    theme : Theme
    """
    count, sure, accuracy = reliability_bins(confidence, right, bins)
    share = count / count.sum()
    across = _Scale((0.0, 1.0), (0.0, 350.0))
    up, below = _Scale((0.0, 1.0), (260.0, 0.0)), _Scale((0.0, float(share.max())), (80.0, 0.0))
    x, y = across(sure), up(accuracy)
    upper = _frame(across, up, theme, bottom=False, side=True)
    upper.append(f'<path d="M0,260L350,0" stroke="{theme.soft}" stroke-dasharray="6 4"/>')
    upper += [
        f'<path d="M{a:.1f},{up(p):.1f}V{b:.1f}" stroke="{_GAP}" stroke-width="4" opacity="0.6"/>'
        for a, p, b in zip(x, sure, y, strict=True)
    ]
    upper.append(f'<path d="{_line(x, y)}" fill="none" stroke="{theme.accent}" '
                 'stroke-width="1.7"/>')  # fmt: skip
    radii = 3 + 7 * np.sqrt(share[count > 0])  # a bin of few pixels says little
    upper += [
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{r:.1f}" fill="{theme.accent}"/>'
        for a, b, r in zip(x, y, radii, strict=True)
    ]
    keys = ((theme.soft, "perfectly calibrated"), (_GAP, "gap"), (theme.accent, "this map"))
    for k, (color, words) in enumerate(keys):
        dashes = ' stroke-dasharray="6 4"' if k == 0 else ""
        upper.append(f'<path d="M10,{14 + 18 * k}h22" stroke="{color}" stroke-width="2"{dashes}/>')
        upper.append(_text(38, 18 + 18 * k, words, theme.ink))
    lower = _frame(across, below, theme, bottom=True, side=True)
    wide = 0.9 * 350 / bins
    lower += [
        f'<path d="M{across((k + 0.5) / bins) - wide / 2:.1f},80h{wide:.1f}V{below(s):.1f}'
        f'h{-wide:.1f}z" fill="{theme.accent}"/>'
        for k, s in enumerate(share)
    ]
    whole = ['<g transform="translate(70 12)">', *upper, "</g>"]
    whole += ['<g transform="translate(70 290)">', *lower, "</g>"]
    for middle, words in ((142, "share that is right"), (330, "share of pixels")):
        whole.append(_text(16, middle, words, theme.ink, _NORMAL, "middle", turned=True))
    below_all = "probability of the predicted class"
    whole.append(_text(245, 410, below_all, theme.ink, _NORMAL, "middle"))
    return _svg((440, 420), whole)


def reliability_bins(
    confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = 10
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the pixels of each bin, ``(bins,)``, and of those that have any two means.

    The means are those of the confidence and of how often the map is right; for the arguments see
    `reliability_chart`.

    Examples
    --------
    >>> count, sure, hit = reliability_bins([0.5, 0.5, 1.0], [True, False, True], bins=2)
    >>> count.tolist(), hit.round(2).tolist()
    ([0, 3], [0.67])
    """
    sure, hit = np.asarray(confidence, dtype=float), np.asarray(right, dtype=bool)
    if sure.shape != hit.shape or sure.ndim != 1 or not len(sure):
        raise InputError(f"confidence and right must be vectors of one length, got {sure.shape} "
                         f"and {hit.shape}")  # fmt: skip
    which = np.minimum((sure * bins).astype(int), bins - 1)
    count = np.bincount(which, minlength=bins)
    filled = count > 0
    accuracy = np.bincount(which, weights=hit, minlength=bins)[filled] / count[filled]
    mean_sure = np.bincount(which, weights=sure, minlength=bins)[filled] / count[filled]
    return count, mean_sure, accuracy


class _Scale(NamedTuple):
    """From values to pixels of a panel."""

    ends: tuple[float, float]
    pixels: tuple[float, float]

    def __call__(self, values: Any) -> Any:
        low, high = self.ends
        start, end = self.pixels
        return start + (np.asarray(values, float) - low) * ((end - start) / ((high - low) or 1.0))

    def ticks(self, most: int) -> list[float]:
        """Return at most so many round numbers between the ends."""
        low, high = self.ends
        rough = ((high - low) or 1.0) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= 0.999 * rough)
        numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        return [float(f"{number * step:.12g}") for number in numbers]


def _frame(across: _Scale, up: _Scale, theme: Theme, *, bottom: bool, side: bool) -> list[str]:
    """Return the grid and the axes of a panel, with numbers below it and at its side if asked."""
    width, height = across.pixels[1], up.pixels[0]
    columns, rows = across.ticks(5), up.ticks(4 if height < 200 else 6)
    grid = [f"M{across(v):.1f},0V{height:g}" for v in columns]
    grid += [f"M0,{up(v):.1f}H{width:g}" for v in rows]
    parts = [f'<path d="{"".join(grid)}" stroke="{theme.grid}"/>']
    parts.append(f'<path d="M0,0V{height:g}H{width:g}" fill="none" stroke="{theme.axis}"/>')
    if bottom:
        parts += [_text(across(v), height + 14, f"{v:g}", theme.ink, at="middle") for v in columns]
    if side:
        parts += [_text(-6, up(v) + 4, f"{v:g}", theme.ink, at="end") for v in rows]
    return parts


def _line(x: Array, y: Array) -> str:
    """Return a path through points, broken where one is missing."""
    return "".join(
        "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[run], y[run], strict=True))
        for run in _runs(np.isfinite(x) & np.isfinite(y))
    )


def _area(x: Array, low: Array, high: Array) -> str:
    """Return the path around what lies between two lines."""
    runs = _runs(np.isfinite(x) & np.isfinite(low) & np.isfinite(high))
    return "".join(
        _line(np.r_[x[run], x[run][::-1]], np.r_[high[run], low[run][::-1]]) + "z" for run in runs
    )


def _runs(there: npt.NDArray[np.bool_]) -> Iterable[slice]:
    """Yield the stretches of what is there.

    Examples
    --------
    >>> list(_runs(np.array([True, True, False, True])))
    [slice(0, 2, None), slice(3, 4, None)]
    """
    edges = np.flatnonzero(np.diff(np.r_[0, there.astype(int), 0]))
    yield from (slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


def _text(
    x: float,
    y: float,
    words: str,
    color: str,
    size: int = _SMALL,
    at: str = "start",
    turned: bool = False,
) -> str:
    turn = f' transform="rotate(-90 {x:g} {y:g})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" font-size="{size}" text-anchor="{at}"{turn}>'
        f"{escape(words)}</text>"
    )


def _svg(size: tuple[float, float], parts: Sequence[str]) -> str:
    width, height = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="system-ui, sans-serif">'
        f"{''.join(parts)}</svg>"
    )


def _spectral_axis(bands: Bands) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp], str]:
    """Return the horizontal axis in increasing order, the order of the bands, and its label."""
    if bands.wavelength is not None and np.isfinite(bands.wavelength).all():
        nm = np.asarray(bands.wavelength, dtype=float)
        order = np.argsort(nm, kind="stable")  # where spectrometers overlap, bands are interleaved
        return nm[order], order, "wavelength (nm)"
    return np.arange(1.0, bands.count + 1), np.arange(bands.count), "band number"


def _class_spectra(
    scene: Scene, labels: Labels, classes: Sequence[ClassInfo]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return mean and standard deviation of each class, (classes, bands) each, row by row.

    Only sums are kept, so the scene may be larger than memory.
    """
    height, width, bands = scene.shape
    count = np.zeros((len(classes), 1))
    total, squares = np.zeros((2, len(classes), bands))
    strip = max(1, 2**24 // max(1, width * bands))
    for top in range(0, height, strip):
        rows = slice(top, top + strip)
        ids = labels.ids[rows]
        if not (ids != UNLABELED).any():
            continue
        values = scene.read(rows, slice(None))
        good = valid_pixels(values, scene.nodata)
        for k, info in enumerate(classes):
            spectra = values[(ids == info.value) & good].astype(float)  # (pixels, bands)
            count[k] += len(spectra)
            total[k] += spectra.sum(axis=0)
            squares[k] += (spectra**2).sum(axis=0)
    mean = total / np.maximum(count, 1)
    return mean, np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0.0))


def _broken(axis: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Put NaN where bands are left out, so that no line is drawn across the gap."""
    steps = np.diff(axis)
    gaps = 1 + np.flatnonzero(steps > 5 * np.median(steps)) if len(steps) else np.empty(0, int)
    return np.insert(values.astype(float), gaps, np.nan, axis=-1)


def _visible(color: str, theme: Theme) -> str:
    """Return ``color``, on a dark page mixed with white until it stands out from it."""
    mixed = np.array(rgb(color)) / 255
    while theme.dark and mixed @ (0.2126, 0.7152, 0.0722) < 0.45:
        mixed = 0.9 * mixed + 0.1
    return "#{:02x}{:02x}{:02x}".format(*np.rint(255 * mixed).astype(int))


def shortened(name: str, letters: int) -> str:
    """Return a name of at most so many letters."""
    return name if len(name) <= letters else name[: letters - 1].rstrip() + "…"


MOST_POINTS = 4000  # more hide the picture, and make a page heavy
_DENSE = 600  # more points than this are drawn smaller


class Overlay(NamedTuple):
    """Points on a picture of ``height`` by ``width`` pixels.

    ``paths`` are a color and the path of all points that have it; ``shown`` of ``total`` points
    are drawn.
    """

    height: int
    width: int
    paths: tuple[tuple[str, str], ...]
    shown: int
    total: int

    @property
    def dense(self) -> bool:
        """Whether points must be small."""
        return self.shown > _DENSE


def overlay_points(
    pixels: npt.ArrayLike,
    ids: npt.ArrayLike,
    colors: Mapping[int, str],
    shape: tuple[int, int],
    most: int = MOST_POINTS,
) -> Overlay | None:
    """Return points at the centers of pixels; None if there are none.

    Parameters
    ----------
    pixels : array of int, shape (n, 2)
        Rows and columns.
    ids : array of int, shape (n,)
    colors : mapping of int to str
        Color of each id, as ``#rrggbb``.
    shape : (int, int)
        Rows and columns of the whole picture.
    most : int
        Of more points than this every k-th of each color is drawn.

    Examples
    --------
    >>> overlay_points([[0, 4], [2, 1]], [1, 1], {1: "#4477AA"}, (3, 5)).paths
    (('#4477AA', 'M4.5 0.5h0M1.5 2.5h0'),)
    """
    places, owners = np.asarray(pixels, np.int64).reshape(-1, 2), np.asarray(ids).ravel()
    step = max(1, -(-len(places) // most))
    paths, shown = [], 0
    for value in np.unique(owners).tolist():
        kept = places[owners == value][::step]
        shown += len(kept)
        path = "".join(f"M{col}.5 {row}.5h0" for row, col in kept.tolist())
        paths.append((colors.get(value, "#808080"), path))
    return Overlay(*shape, tuple(paths), shown, len(places)) if paths else None
