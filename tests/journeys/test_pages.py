"""What README and the pages under docs/ show is run, block by block, as a reader would paste it.

Each page runs in its own folder with the files of conftest.py. Shell blocks go to a shell; Python
blocks that follow each other are one program. A comment on the line before a block may say

    <!-- not run: why -->       it needs what a test has not: a network, a cluster, hours
    <!-- run until Ctrl+C -->   each of its commands serves a page until it is interrupted
    <!-- run, warns: words -->  the reader sees a warning with these words, and the page says so

Blocks in a language that nothing runs (text, yaml) say so.
"""

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from polyad.cli.program import make_app
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\S*)\n(.*?)^```$", re.M | re.S)
SERVES, WARNS, NOT_RUN = "run until Ctrl+C", "run, warns: ", "not run: "
NOT_CODE = {"text", "yaml"}


class Block(NamedTuple):
    line: int
    mark: str
    language: str
    code: str

    @property
    def runs(self):
        return self.language not in NOT_CODE and not self.mark.startswith(NOT_RUN)

    @property
    def serves(self):
        return self.mark == SERVES


def blocks(page):
    text = page.read_text()
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(line, found[1] or "", found[2], found[3])


def steps(page):
    """Return (language, marks, code) in the order of the page, blocks in a row as one."""
    shown = [block for block in blocks(page) if block.runs]
    for (language, _), group in groupby(shown, lambda block: (block.language, block.serves)):
        _, marks, _, codes = zip(*group, strict=True)
        yield language, marks, "\n".join(codes)


def name(page):
    return str(page.relative_to(ROOT))


RUN = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in RUN if page != README], ids=name)
def test_what_a_page_shows_runs(page, user):
    paste(page, user)


@pytest.mark.slow
def test_what_the_readme_shows_runs_for_a_newcomer(newcomer):
    paste(README, newcomer)


def paste(page, user):
    """Run the blocks of a page in their order."""
    for language, marks, code in steps(page):
        if SERVES in marks:
            serve(user, language, code)
        else:
            expected = [mark.removeprefix(WARNS) for mark in marks if mark]
            user.starts(code, language).read(warnings=expected)


def serve(user, language, code):
    """Start what serves a page, look at the page, and press Ctrl+C; one command after another."""
    for command in [code] if language == "python" else code.splitlines():
        running = user.starts(command, language)
        address = running.wait_for(r"http://127\.0\.0\.1:\d+/\S+/(?=\s)")[0]
        answer = httpx.get(address, timeout=PATIENCE)
        running.press_ctrl_c()
        assert answer.status_code == 200
        assert "<title>" in answer.text


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_a_page_is_run_or_says_why_not(page):
    for block in blocks(page):
        where = f"{name(page)}, line {block.line}"
        assert block.language in {"sh", "python", *NOT_CODE}, f"{where}: no known language"
        assert re.fullmatch(rf"({NOT_RUN}.{{5,}}|{WARNS}.+|{re.escape(SERVES)})?", block.mark), (
            where
        )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_of_a_page_stands_in_fences_where_it_is_found(page):
    text = page.read_text()
    rest = BLOCK.sub("", text)
    assert "```" not in rest
    assert not re.search(r"\n\n(    |\t)\S", rest)


def test_the_readme_and_the_guides_have_blocks_that_run():
    guides = ("areas", "cluster", "labeling", "mapping")
    assert {"README.md", *(f"docs/{n}.md" for n in guides)} <= {name(page) for page in RUN}


# --- the examples of `polyad COMMAND --help` -----------------------------------------------------

EXAMPLES = {
    command.name or command.callback.__name__: command.epilog.removeprefix("Example:").strip()
    for command in make_app().registered_commands
}


def commands(page):
    """Return each line of the shell blocks of a page, without comments and double spaces."""
    shell = [block.code for block in blocks(page) if block.language == "sh"]
    return {" ".join(line.split("#")[0].split()) for line in "".join(shell).splitlines()}


PASTED = set().union(*map(commands, PAGES))


@pytest.mark.slow
def test_examples_of_the_help_that_stand_on_no_page_run(user, model):
    (user / "model.polyad").write_bytes(model.read_bytes())
    user.types(EXAMPLES["map"])
    for command, example in EXAMPLES.items():
        if example in PASTED:
            continue
        if command == "label":
            serve(user, "sh", example)
        else:
            user.types(example)


def test_every_command_has_an_example_of_itself_in_its_help():
    for command, example in EXAMPLES.items():
        assert example.startswith(f"polyad {command}")
