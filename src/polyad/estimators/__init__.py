"""scikit-learn estimators around the Rank-R network."""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
