"""How scenes are called in headings."""

from __future__ import annotations

from polyad.experiments.identity import MARK, base_name
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES


def scene_title(name: str) -> str:
    """Return a scene's name for a heading; a stand-in keeps the name that says so.

    Examples
    --------
    >>> scene_title("botswana"), scene_title("botswana@1a2b3c4d"), scene_title("standin-tiny")
    ('Botswana', 'unverified copy of Botswana (1a2b3c4d)', 'standin-tiny')
    """
    base = base_name(name)
    if base not in KNOWN_SCENES:
        return name
    title = KNOWN_SCENES[base].title
    return title if name == base else f"unverified copy of {title} ({name.partition(MARK)[2]})"
