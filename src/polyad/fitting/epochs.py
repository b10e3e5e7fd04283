"""The loop over epochs that every solver shares: history, stopping, best weights, progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from tqdm import tqdm

from polyad.core.network import RankRNet
from polyad.errors import Diverged
from polyad.fitting.problem import Problem

OnEpoch = Callable[[int, RankRNet], None]


@dataclass
class History:
    """What happened in each epoch; lists of equal length.

    Attributes
    ----------
    loss, score : list of float
        Training loss and training accuracy (R^2 for a regressor).
    validation_loss, validation_score : list of float
        Empty without a validation set.
    seconds : list of float
        Time of each epoch.
    """

    loss: list[float] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)


@dataclass(frozen=True)
class EpochLoop:
    """The loop over epochs: when to stop, and who is told.

    The watched loss is the validation loss when there is a validation set, and then the weights
    of its best epoch are restored; otherwise it is the training loss.

    Attributes
    ----------
    epochs : int
        At most this many.
    tol : float
        An epoch counts as progress when it lowers the watched loss by more than ``tol``.
    patience : int or None
        Stop after this many epochs without progress; None never stops early.
    validation : Problem, optional
    on_epoch : callable, optional
        Called with the epoch's number (from one) and the network after each epoch.
    verbose : bool
        Show a progress bar.
    """

    epochs: int
    tol: float = 1e-4
    patience: int | None = None
    validation: Problem | None = None
    on_epoch: OnEpoch | None = None
    verbose: bool = False

    def run(self, network: RankRNet, one_epoch: Callable[[], tuple[float, float]]) -> History:
        """Call ``one_epoch`` until it is time to stop.

        Parameters
        ----------
        network : RankRNet
            Changed in place by ``one_epoch``.
        one_epoch : callable
            Runs one epoch and returns training loss and score.
        """
        history, best, waited = History(), math.inf, 0
        best_weights: dict[str, Tensor] | None = None
        bar = tqdm(range(1, self.epochs + 1), "fitting", unit="epoch", disable=not self.verbose)
        for epoch in bar:
            started = time.perf_counter()
            loss, score = one_epoch()
            if not math.isfinite(loss):
                raise _diverged(f"training loss became {loss}", epoch)
            history.loss.append(loss)
            history.score.append(score)
            watched = loss
            if self.validation is not None:
                watched = _validate(network, self.validation, history)
                if watched < min(history.validation_loss[:-1], default=math.inf):
                    best_weights = {k: v.detach().clone() for k, v in network.state_dict().items()}
            history.seconds.append(time.perf_counter() - started)
            bar.set_postfix(loss=f"{loss:.4f}", score=f"{score:.3f}", refresh=False)
            if self.on_epoch is not None:
                self.on_epoch(epoch, network)
            best, waited = (watched, 0) if watched < best - self.tol else (best, waited + 1)
            if self.patience is not None and waited >= self.patience:
                break
        bar.close()
        if best_weights is not None:
            network.load_state_dict(best_weights)
        if not all(bool(p.isfinite().all()) for p in network.parameters()):
            raise _diverged("weights became NaN or infinite", len(history))  # in the last step
        return history


def _validate(network: RankRNet, validation: Problem, history: History) -> float:
    with torch.no_grad():
        outputs = network(validation.x)
    history.validation_loss.append(validation.mean_loss(outputs))
    history.validation_score.append(validation.score(outputs))
    return history.validation_loss[-1]


def _diverged(what: str, epoch: int) -> Diverged:
    return Diverged(
        f"{what} in epoch {epoch}; try a smaller learning_rate, standardized input or more "
        "weight_decay"
    )


def batch_slices(n: int, batch_size: int | None) -> list[slice]:
    """Cut ``n`` samples into batches; None means one batch.

    Examples
    --------
    >>> batch_slices(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = n if batch_size is None else min(batch_size, n)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
