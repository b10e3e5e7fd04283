"""The labeling page: click some pixels, see the whole map, click where it is wrong.

And the page on which the points of a sample are checked, one after another.

Needs the extra ``polyad[app]``. On the command line: ``polyad label SCENE``.
"""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
