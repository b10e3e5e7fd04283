"""Formulas as MathML, made while the site is built: browsers draw it without a script."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def drawn(self: HTML5Translator, node: nodes.Element, as_block: bool) -> None:
    """Write one formula; a formula that cannot be read ends the build."""
    try:
        markup = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        raise ValueError(f"formula {node.astext()!r}: {error}") from error
    self.body.append(f'<div class="math">{markup}</div>' if as_block else markup)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer(
        "mathml",
        (lambda self, node: drawn(self, node, as_block=False), None),
        (lambda self, node: drawn(self, node, as_block=True), None),
    )
    return {"parallel_read_safe": True}
