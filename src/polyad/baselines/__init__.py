"""Other models behind the same contract: what the paper compares with, and what users would pick.

Each takes samples ``(n, s, s, bands)``, standardizes what it needs from the training samples alone,
and predicts like any scikit-learn classifier.
"""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
