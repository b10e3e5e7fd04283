"""The labeling page: click some pixels, see the whole map, click where it is wrong.

And the page on which the points of a sample are checked, one after another.

Needs the extra ``polyad[app]``. On the command line: ``polyad label SCENE``.
"""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.app.launch import CheckPage, Page, check, prepare, prepare_check, serve, show
    from polyad.app.trainer import Settings

__all__ = ["CheckPage", "Page", "Settings", "check", "prepare", "prepare_check", "serve", "show"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        launch="CheckPage Page check prepare prepare_check serve show",
        trainer="Settings",
    )
