"""Arrays whose memory torch sees too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


def shared_tensor(values: NDArray[Any]) -> Tensor | None:
    """Return ``values`` as a tensor on the same memory, None where torch cannot take them.

    Torch takes no read-only memory, no foreign byte order, no negative steps and no long doubles.

    Examples
    --------
    >>> import numpy as np
    >>> shared_tensor(np.zeros(3, "f4")), shared_tensor(np.zeros(3, ">f4"))
    (tensor([0., 0., 0.]), None)
    """
    import torch  # here: scenes are described without it

    kind = values.dtype
    known = kind.isnative and kind.kind in "fiu" and kind.itemsize <= 8
    forward = values.flags.writeable and min(values.strides, default=0) >= 0
    return torch.from_numpy(values) if known and forward else None
