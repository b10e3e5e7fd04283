"""A command's arguments, checked before anything heavy is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from polyad.scene.files.option_values import (
    check_bbox,
    check_coverage,
    check_preset,
    check_window,
    merge_rules,
)
from polyad.scene.files.paths import (
    check_apart,
    check_kind,
    check_labels_path,
    check_names_differ,
    check_output,
    check_scene,
    no_file,
)

_NONE: Mapping[str, None] = MappingProxyType({})


def check_arguments(
    *,
    preset: tuple[Any, ...] | None = None,
    outputs: Mapping[str, str | os.PathLike[str] | None] = _NONE,
    report: str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | None = None,
    scene: str | None = None,
    labels: Sequence[str | None] = (),
    colors: str | os.PathLike[str] | None = None,
    mask: str | None = None,
    window: int | None = None,
    bbox: Sequence[float] | None = None,
    merge: Sequence[str] | None = None,
    coverage: float | None = None,
    force: bool = False,
    remote: bool = False,
) -> None:
    """Raise the error that the work itself would end in, seconds or hours earlier.

    What is None is not checked. The checks read next to nothing: names, endings, whether files
    exist, what an output would replace, and whether folders can be written to.

    Parameters
    ----------
    preset : (preset, goal) or (preset, goal, objective), optional
    outputs : mapping
        From what is written, see `polyad.scene.files.paths.check_output`, to its path.
    report : path-like, optional
        An output too.
    model : path-like, optional
    scene : str, optional
        A file, ``file:key``, or the name of a known scene.
    labels : sequence of str
    colors : path-like, optional
        A file of class colors.
    mask : str, optional
    window : int, optional
    bbox : (left, bottom, right, top), optional
    merge : sequence of str, optional
        Rules, whose classes are known only later.
    coverage : float, optional
        Of prediction sets.
    force : bool, default=False
        Whether outputs may replace files that are something else; inputs never are.
    remote : bool, default=False
        Whether the scene may be an ``https://`` address.

    Examples
    --------
    >>> check_arguments(scene="indian-pines", preset=("best", "this-scene"))
    >>> check_arguments(scene="indian-pine")
    Traceback (most recent call last):
    polyad.errors.SceneError: indian-pine: no such file and no known scene; did you mean ...
    """
    if preset is not None:
        check_preset(*preset)
    if window is not None:
        check_window(window)
    if bbox is not None:
        check_bbox(bbox)
    merge_rules(merge or ())
    if coverage is not None:
        check_coverage(coverage)
    sources = [os.fspath(s) for s in (model, scene, *labels, colors, mask) if s is not None]
    written = [(what, path) for what, path in outputs.items() if path is not None]
    written += [] if report is None else [("report", report)]
    for what, path in written:
        check_output(path, what)
        check_apart(path, sources, what)
        if not force:
            check_kind(path, what)
    if report is not None:
        check_names_differ(written)
    if model is not None:
        from polyad.estimators.file_format import check_model_file  # with its header's records

        check_model_file(model)
    if scene is not None:
        check_scene(scene, remote=remote)
    if colors is not None and not Path(colors).is_file():
        raise no_file(Path(colors))
    for source in (*labels, mask):
        if source is not None:
            check_labels_path(source)
