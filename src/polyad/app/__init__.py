"""The labelling page: click some pixels, see the whole map, click where it is wrong.

Needs the extra ``polyad[app]``. On the command line: ``polyad label SCENE``.
"""

from polyad.app.fitter import Settings
from polyad.app.launch import Page, prepare, serve, show

__all__ = ["Page", "Settings", "prepare", "serve", "show"]
