"""A fitted estimator as plain arrays: what pickle, joblib and skops keep of it."""

from __future__ import annotations

from typing import Any

import torch

from polyad.core.network import RankRNet

KEPT_AS = "network_arrays"


def without_torch(state: dict[str, Any]) -> dict[str, Any]:
    """Return an estimator's state with its network as arrays, on no device and of no torch."""
    state = {k: v for k, v in state.items() if k not in ("_resume", "_state")}
    if "network_" in state:
        network: RankRNet = state.pop("network_")
        layer, output = network.hidden, network.output
        state[KEPT_AS] = {
            "in_shape": list(layer.in_shape),
            "hidden": layer.out_features,
            "n_outputs": output.out_features,
            "rank": layer.rank,
            "activation": network.activation,
            "hidden_bias": layer.bias is not None,
            "output_bias": output.bias is not None,
            "start": layer.start,
            "weights": {k: v.detach().cpu().numpy() for k, v in network.state_dict().items()},
        }
    return state


def with_torch(state: dict[str, Any]) -> dict[str, Any]:
    """Undo `without_torch`; a state that has its network already is left as it is."""
    kept = state.get(KEPT_AS)
    if kept is None:
        return state
    weights = {k: torch.from_numpy(v.copy()) for k, v in kept["weights"].items()}
    about = {k: v for k, v in kept.items() if k != "weights"}
    network = RankRNet(**about, device="meta", dtype=weights["output.weight"].dtype)
    network.load_state_dict(weights, assign=True)
    return {k: v for k, v in state.items() if k != KEPT_AS} | {"network_": network}
