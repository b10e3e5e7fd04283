"""`RankRNet`: Rank-R layer, activation, dense output layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from polyad.core.layer import RankRLinear, Start, give_memory
from polyad.core.plan import check_shape
from polyad.errors import InputError


class Activation(NamedTuple):
    """An activation ``g``, its derivative by ``u = g(a)``, and ``g`` written over ``a``."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    over: Callable[[Tensor], Tensor]


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(torch.tanh, lambda u: 1 - u * u, torch.tanh_),
    "sigmoid": Activation(torch.sigmoid, lambda u: u * (1 - u), torch.sigmoid_),
    "relu": Activation(torch.relu, lambda u: (u > 0).to(u.dtype), torch.relu_),
    "identity": Activation(lambda a: a, torch.ones_like, lambda a: a),
}


class RankRNet(nn.Module):
    r"""Two-layer network on tensors, :math:`V\, g(\langle W^{(q)}, X \rangle + b) + c`.

    The activation is applied after the sum over the R terms (Eq. rank_r_weights of the paper).
    The output is left linear: logits for a classifier, values for a regressor.

    Parameters
    ----------
    in_shape : sequence of int
    hidden : int
        Number of hidden units Q.
    n_outputs : int
        Number of classes or targets C.
    rank : int
    activation : {"tanh", "sigmoid", "relu", "identity"}, default="tanh"
    hidden_bias, output_bias : bool, default=True
        The paper's code has the second only.
    start : {"unit-variance", "xavier"}, default="unit-variance"
    device, dtype : optional
    generator : torch.Generator, optional
        Where the first numbers come from; torch's own by default.

    Examples
    --------
    >>> net = RankRNet((5, 5, 200), hidden=75, n_outputs=16, rank=1)
    >>> net.n_weights  # R * Q * sum(I_d) + Q * C, Table 2 of the paper
    16950
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        hidden: int,
        n_outputs: int,
        rank: int,
        activation: str = "tanh",
        *,
        hidden_bias: bool = True,
        output_bias: bool = True,
        start: Start = "unit-variance",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise InputError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}"
            )
        if n_outputs < 1:
            raise InputError(f"n_outputs must be at least 1, got {n_outputs}")
        check_shape(in_shape, hidden, rank)
        self.activation = activation
        self.hidden = RankRLinear(
            in_shape, hidden, rank, hidden_bias, device, dtype, start=start, generator=generator
        )
        # made without numbers: nn.Linear would draw them from torch's own generator
        self.output = nn.Linear(hidden, n_outputs, bias=output_bias, device="meta", dtype=dtype)
        give_memory(self.output, self.hidden.factors[0].device)
        self._reset_output(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights for both layers; biases become zero."""
        self.hidden.reset_parameters(generator)
        self._reset_output(generator)

    def _reset_output(self, generator: torch.Generator | None) -> None:
        with torch.no_grad():
            n_outputs, hidden = self.output.weight.shape
            bound = math.sqrt(6.0 / (n_outputs + hidden))
            self.output.weight.uniform_(-bound, bound, generator=generator)
            if self.output.bias is not None:
                self.output.bias.zero_()

    def like(self, weights: Mapping[str, Tensor]) -> RankRNet:
        """Return a copy of the network with other weights; its sizes follow from them.

        Parameters
        ----------
        weights : mapping of str to Tensor
            By the names of ``state_dict``. They are taken as they are, without a copy; what is not
            named is copied from this network.

        Examples
        --------
        >>> net = RankRNet((5, 5, 30), hidden=75, n_outputs=16, rank=1)
        >>> axes = torch.rand(200, 30)
        >>> bands = net.like({"hidden.factors.2": net.hidden.factors[2] @ axes.T})
        >>> bands.hidden.in_shape
        (5, 5, 200)
        """
        own = self.state_dict()
        if unknown := [name for name in weights if name not in own]:
            raise InputError(
                f"weights must be named as one of {', '.join(own)}, got {', '.join(unknown)}"
            )
        state = {
            name: (weights[name] if name in weights else value.clone()).detach()
            for name, value in own.items()
        }
        factors = [state[f"hidden.factors.{d}"] for d in range(len(self.hidden.factors))]
        output = state["output.weight"]
        sizes = network_sizes(self) | {
            "in_shape": [factor.shape[-1] for factor in factors],
            "hidden": len(factors[0]),
            "n_outputs": len(output),
            "rank": factors[0].shape[1],
        }
        network = RankRNet(**sizes, device="meta", dtype=output.dtype)  # no numbers are drawn
        network.load_state_dict(state, assign=True)
        return network

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor:
            """Return what `forward` does."""

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., I_1, ..., I_D)`` to ``(..., n_outputs)``."""
        return self.output(ACTIVATIONS[self.activation].value(self.hidden(x)))

    @property
    def n_weights(self) -> int:
        """Parameters without biases, as the paper counts them."""
        return self.output.weight.numel() + sum(f.numel() for f in self.hidden.factors)


def network_sizes(network: RankRNet) -> dict[str, Any]:
    """Return the arguments that make a network like this one, without device and type."""
    layer, output = network.hidden, network.output
    return {
        "in_shape": list(layer.in_shape),
        "hidden": layer.out_features,
        "n_outputs": output.out_features,
        "rank": layer.rank,
        "activation": network.activation,
        "hidden_bias": layer.bias is not None,
        "output_bias": output.bias is not None,
        "start": layer.start,
    }


def join_networks(networks: Sequence[RankRNet], shares: Sequence[float]) -> RankRNet:
    """Return the network whose outputs are those of others, multiplied by shares and added up.

    Their hidden units stand side by side; units of a lower rank get terms of zero.

    Parameters
    ----------
    networks : sequence of RankRNet
        On the same samples, with the same outputs, activation and biases.
    shares : sequence of float

    Examples
    --------
    >>> first, second = (RankRNet((3, 4), hidden=5, n_outputs=2, rank=r) for r in (1, 2))
    >>> both, x = join_networks([first, second], [0.25, 0.75]), torch.randn(6, 3, 4)
    >>> torch.allclose(both(x), 0.25 * first(x) + 0.75 * second(x), atol=1e-6)
    True
    """
    states = [network.state_dict() for network in networks]
    rank = max(network.hidden.rank for network in networks)
    joined = {}
    for name in states[0]:
        parts = [state[name] for state in states]
        if name.startswith("output."):
            parts = [part * share for part, share in zip(parts, shares, strict=True)]
        elif name.startswith("hidden.factors."):
            parts = [nn.functional.pad(f, (0, 0, 0, rank - f.shape[1])) for f in parts]
        if name == "output.bias":
            joined[name] = torch.stack(parts).sum(dim=0)
        else:  # units lie along the first axis of the hidden layer, the second of the output's
            joined[name] = torch.cat(parts, dim=1 if name == "output.weight" else 0)
    return networks[0].like(joined)
