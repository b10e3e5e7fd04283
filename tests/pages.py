"""A reader of HTML pages that insists on closed elements and keeps what it meets."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "source"}
CELLS = {"td", "dd", "h1"}


class Page(HTMLParser):
    """The elements of a page with their attributes, its words, and the words of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in CELLS:
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if CELLS & set(self.open):
            self.cells[-1] += data
