"""HTML pages from templates: one style, all text escaped, nothing fetched from outside.

A page is one file. It is read on a telephone and on a desk, by day and by night, and can be mailed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from polyad.scene.draw.marks import Overlay
from polyad.scene.draw.png import encode_rgb
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


def page_image(
    picture: Picture, words: str, dpi: int = 150, points: Overlay | None = None
) -> PageImage:
    """Return a picture for a page: an array of uint8 (y, x, 3 or 4), PNG bytes, or figures."""
    if isinstance(picture, Themed):
        return PageImage(words, _chart(picture.light), _chart(picture.dark))
    if isinstance(picture, np.ndarray):
        address, ratio = _address(encode_rgb(picture)), picture.shape[1] / picture.shape[0]
        return PageImage(words, address, pixels=True, points=points, ratio=ratio)
    if isinstance(picture, bytes):
        return PageImage(words, _address(picture))
    from polyad.scene.draw.figures import to_png  # matplotlib takes half a second to import

    return PageImage(words, _address(to_png(picture, dpi=dpi)))


def _chart(picture: Figure | str) -> str:
    if isinstance(picture, str):
        return _address(picture.encode(), "svg+xml")
    from polyad.scene.draw.figures import to_png

    return _address(to_png(picture, transparent=True))


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
        class_key=class_key, grouped=_grouped, key=_key, percent=percent, safe_color=_safe_color
    )
    return environment


def percent(share: float) -> str:
    """Return a share in percent, its unit on the same line."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def _key(row: Mapping[str, Any]) -> str:
    """Return what `class_key` does, of a row of plain values."""
    return class_key(ClassInfo(int(row["id"]), str(row["name"]), ""))


def _grouped(number: float) -> str:
    return f"{int(number):,}"


def _safe_color(color: str) -> str:
    """Let nothing but a color reach the style sheet: colors come from files."""
    return color if is_color(color) else "#808080"


def _address(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
