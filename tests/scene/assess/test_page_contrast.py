"""Text of the reports is legible: WCAG 2 asks for a contrast of 4.5, by day and by night."""

import re
from importlib.resources import files

import numpy as np
import pytest

STYLE = (files("polyad.scene.assess") / "templates/style.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): ([^;]+);", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
)
# alpha of the fullest cell of an error matrix
FULL = float(re.search(r"rgba\(var\(--accent-rgb\), calc\(var\(--share, 0\) \* ([\d.]+)", STYLE)[1])


def rgb(color):
    if color.startswith("#"):
        return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], float)
    return np.array([float(part) for part in color.split(",")])


def over(paper, color, alpha):
    return (1 - alpha) * paper + alpha * color


def contrast(a, b):
    def luminance(color):
        part = color / 255
        linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        return linear @ (0.2126, 0.7152, 0.0722)

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("paper", ["page", "card"])
@pytest.mark.parametrize("text", ["ink", "soft", "accent"])
def test_text_is_legible_on_the_page_and_on_its_cards(theme, text, paper):
    assert contrast(rgb(theme[text]), rgb(theme[paper])) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_numbers_are_legible_on_every_cell_of_an_error_matrix(theme):
    for share in np.linspace(0, 1, 21):
        cell = over(rgb(theme["card"]), rgb(theme["accent-rgb"]), share * FULL)
        assert contrast(rgb(theme["ink"]), cell) >= 4.5, share


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_numbers_are_legible_on_bars(theme):
    *color, alpha = re.findall(r"[\d.]+", theme["bar"])
    bar = over(rgb(theme["card"]), np.array(color, float), float(alpha))
    assert contrast(rgb(theme["ink"]), bar) >= 4.5


def test_cells_have_no_color_of_text_but_those_of_the_theme():
    rules = re.findall(r"(?<![\w-])color: ([^;]+);", STYLE)
    assert set(rules) == {f"var(--{name})" for name in ("ink", "soft", "accent")}
