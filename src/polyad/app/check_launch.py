"""Start the page on which the points of a sample are checked."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from polyad.app.check_server import make_check_app
from polyad.app.check_workspace import CheckWorkspace
from polyad.app.launch import ServedPage, listen_for
from polyad.app.workspace import RasterSource
from polyad.terminal import put


class CheckPage(ServedPage[CheckWorkspace]):
    """A page on which a sample is checked, being served."""


def prepare_check(
    scene: RasterSource,
    sample: str | PathLike[str],
    class_map: RasterSource | None = None,
    *,
    classes: Sequence[str] = (),
    blind: bool = True,
    out: str | PathLike[str] | None = None,
    field: str | None = None,
    layer: str | None = None,
    journal: str | PathLike[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
) -> CheckPage:
    """Return a page that is ready to be served; see `check` for the parameters."""

    def make() -> CheckWorkspace:
        return CheckWorkspace(
            scene,
            sample,
            class_map,
            classes=classes,
            blind=blind,
            out=out,
            field=field,
            layer=layer,
            journal=journal,
        )

    return CheckPage(*listen_for(make, make_check_app, host, port))


def check(
    scene: RasterSource,
    sample: str | PathLike[str],
    class_map: RasterSource | None = None,
    *,
    classes: Sequence[str] = (),
    blind: bool = True,
    out: str | PathLike[str] | None = None,
    field: str | None = None,
    layer: str | None = None,
    journal: str | PathLike[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
) -> None:
    """Serve the page on which a sample is checked, point by point, until interrupted.

    Parameters
    ----------
    scene : path, known name, or DataArray with dims (y, x, band)
    sample : path
        Points to look at, as `polyad.scene.draw_sample` draws them.
    class_map : path or DataArray, optional
        The map that is checked. Its classes are those to choose from.
    classes : sequence of str
        Names of the classes, where there is no map.
    blind : bool, default=True
        Keep the map, and its class of each point, from the page: whoever sees them agrees with
        the map too often.
    out : path, optional
        File of the checked points, ``.gpkg``, ``.geojson`` or ``.csv``; by default beside the
        sample. One that is there is resumed.
    field : str, optional
        Field of the true class; ``reference`` if not given.
    layer : str, optional
        Layer of a file that has several.
    journal : path, optional
        Where every answer is kept; by default beside ``out``.
    host, port, browser
        See `serve`.
    """
    page = prepare_check(
        scene,
        sample,
        class_map,
        classes=classes,
        blind=blind,
        out=out,
        field=field,
        layer=layer,
        journal=journal,
        host=host,
        port=port,
    )
    checklist = page.workspace.checklist
    done, all_points = checklist.done, len(checklist.answers)
    put(f"checking {checklist.sample.path.name} on {page.workspace.name}: {page.url}")
    put(f"{done:,} of {all_points:,} points are checked; answers go into {checklist.out}")
    put(f"every answer is kept in {checklist.journal.path}; end with Ctrl+C")
    page.run_in_browser(browser)
    put(
        f"{checklist.done:,} of {all_points:,} points are checked, of which {checklist.unsure:,} "
        f"cannot be told: {checklist.out}"
    )
