"""``polyad label``: the labeling page, and the page on which a sample is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from polyad.cli.options import (
    LABELS,
    PAGE,
    SAMPLE,
    AllTouched,
    BBox,
    Field,
    Goal,
    Layer,
    Mask,
    Preset,
    Scene,
    option,
)
from polyad.scene.arguments import check_arguments
from polyad.terminal import fail


def label(
    scene: Scene,
    labels: Annotated[
        str | None, option(LABELS, help="Labels to start with.", metavar="FILE")
    ] = None,
    truth: Annotated[
        str | None,
        option(LABELS, help="Reference labels that score the map as it grows.", metavar="FILE"),
    ] = None,
    check: Annotated[
        str | None,
        option(
            SAMPLE, help="Instead of labeling, check the points of polyad sample.", metavar="FILE"
        ),
    ] = None,
    class_map: Annotated[
        str | None,
        option(
            SAMPLE, "--map", help="With --check: map whose classes are offered.", metavar="FILE"
        ),
    ] = None,
    classes: Annotated[
        str | None,
        option(
            SAMPLE,
            help="With --check and without --map: classes, e.g. 'Corn, Soil'.",
            metavar="NAMES",
        ),
    ] = None,
    blind: Annotated[
        bool | None,
        option(
            SAMPLE,
            "--blind/--show-map",
            help="With --check: hide the class of the map (default), or show it.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            SAMPLE,
            help="With --check: checked points to write. Default: beside the sample.",
            metavar="FILE",
        ),
    ] = None,
    layer: Layer = None,
    field: Field = None,
    all_touched: AllTouched = False,
    mask: Mask = None,
    bbox: BBox = None,
    port: Annotated[
        int, option(PAGE, help="Port to listen on; 0 takes a free one.", metavar="N")
    ] = 0,
    host: Annotated[
        str,
        option(
            PAGE, help="Address to listen on; 127.0.0.1 is this machine only.", metavar="ADDRESS"
        ),
    ] = "127.0.0.1",
    journal: Annotated[
        Path | None,
        option(
            PAGE, help="File that stores every label. Default: beside the scene.", metavar="FILE"
        ),
    ] = None,
    preset: Preset = None,
    goal: Goal = "this-scene",
    browser: Annotated[bool, option(PAGE, help="Open the page in the browser.")] = True,
) -> None:
    """Label pixels on a web page, or check a sample of a map."""
    labeling: dict[str, Any] = {"--labels": labels, "--truth": truth, "--mask": mask}
    labeling |= {"--bbox": bbox, "--all-touched": all_touched}
    checking: dict[str, Any] = {"--map": class_map, "--classes": classes, "--out": out}
    checking |= {"--blind": blind is True, "--show-map": blind is False}
    _refuse_others(checking if check is None else labeling, check)
    where: dict[str, Any] = {"mask": mask, "bbox": bbox}
    given = [labels, truth, check, class_map]
    check_arguments(preset=(preset, goal), scene=scene, labels=given, **where)
    try:
        from polyad.app import Settings, serve
        from polyad.app import check as check_sample
    except ModuleNotFoundError as error:
        fail(f"the labeling page needs {error.name}; install it with: pip install 'polyad[app]'")
    place: dict[str, Any] = {"host": host, "port": port, "journal": journal, "browser": browser}
    reading: dict[str, Any] = {"layer": layer, "field": field}
    if check is not None:
        named = [] if classes is None else classes.split(",")
        shown: dict[str, Any] = {"classes": named, "blind": blind is not False, "out": out}
        check_sample(scene, check, class_map, **shown, **reading, **place)
        return
    reading |= {"all_touched": all_touched}
    settings = Settings(preset="best" if preset is None else preset, goal=goal)
    serve(scene, labels, truth, settings=settings, **reading, **where, **place)


def _refuse_others(others: dict[str, Any], check: str | None) -> None:
    """Refuse options of the page that is not meant."""
    wrong = next((name for name, value in others.items() if value), None)
    if wrong and check is None:
        fail(f"{wrong} is for checking a sample; name its points with --check")
    if wrong:
        fail(f"{wrong} is for labeling; leave it out, or leave out --check")
