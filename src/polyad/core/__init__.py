"""The mathematics: plans, contractions, the layer and the network, for tensors of any order."""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
