"""Tables of class colors, and maps read back as labels, that are endless or lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from attacks.cases import SECRET, case
from attacks.cases.opening import train

_LABELS = "row,col,class\n" + "".join(f"{k // 8},{k % 8},{1 + k % 2}\n" for k in range(64))
_DOCTYPE = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>"
_ENTRY = '<paletteEntry value="{}" label="" color="#112233"/>'


def _with(folder: Path, name: str, content: str) -> list[str]:
    (folder / "labels.csv").write_text(_LABELS)
    (folder / name).write_text(content)
    return [*train(folder, "labels.csv"), "--colors", name]


def _made(name: str, file: str, content: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        return _with(folder, file, content)

    make.__name__ = f"colors_{name}"
    make.__doc__ = f"Colors {name.replace('_', ' ')}."
    return make


for _name, _file, _content, _says in (
    ("of_an_endless_id", "c.csv", f"{'9' * 5000},#112233\n", "no class is called"),
    ("of_an_endless_channel", "c.csv", f"1,{'9' * 5000},1,1\n", "found none"),
    ("in_one_endless_field", "c.csv", f'"{"a" * 900_000},#112233\n', "found none"),
    ("that_are_no_text", "c.csv", "\0" * 100_000, "found none"),
    ("for_an_infinite_id", "c.qml", f"<qgis>{_ENTRY.format('1e999')}</qgis>", "no class is called"),
    ("behind_entities", "c.qml", "<!DOCTYPE a [<!ENTITY b 'c'>]><qgis>&b;</qgis>", "DOCTYPE"),
    ("behind_two_doctypes", "c.qml", f"{_DOCTYPE}{_DOCTYPE}<qgis/>", "DOCTYPE"),
    ("of_megabytes", "c.qml", "<qgis>" + " " * 2**21 + "</qgis>", "this is another file"),
    ("nested_deeply", "c.qml", "<a>" * 300_000, "not well-formed"),
):
    case(5, says=_says)(_made(_name, _file, _content))


@case(4, says="DOCTYPE")
def colors_from_an_outside_file(folder: Path) -> list[str]:
    """Style whose entity is an outside file."""
    text = f"<!DOCTYPE qgis [<!ENTITY b SYSTEM '../{SECRET}'>]><qgis>&b;</qgis>"
    return _with(folder, "c.qml", text)


@case(6, says="no such file")
def colors_in_a_pipe(folder: Path) -> list[str]:
    """Named pipe as the table of colors."""
    (folder / "labels.csv").write_text(_LABELS)
    os.mkfifo(folder / "c.csv")
    return [*train(folder, "labels.csv"), "--colors", "c.csv"]
