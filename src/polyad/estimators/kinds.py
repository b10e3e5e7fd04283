"""Types of what the estimators take: words that a checker of types knows, and kinds of arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]
Samples = npt.ArrayLike | Tensor
"""Arrays, tensors, nested sequences; arrays of the array API too, as far as types can tell."""

Auto = Literal["auto"]
Device = str | torch.device
Solver = Literal["joint", "alternating"]
ActivationName = Literal["tanh", "sigmoid", "relu", "identity"]
StartName = Literal["data", "unit-variance", "xavier"]
