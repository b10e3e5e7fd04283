"""The loop over epochs: history, stopping, best weights, progress, divergence."""

import math

import pytest
import torch

from polyad.errors import Diverged
from polyad.fitting.epochs import EpochLoop, batch_slices

pytestmark = pytest.mark.usefixtures("callers_state")


def losses(*values):
    """Return an epoch that yields the given losses one after another."""
    rest = iter(values)
    return lambda: (next(rest), 0.5)


def test_all_epochs_run_without_patience(network_of):
    history = EpochLoop(7, patience=None).run(network_of(), losses(*[1.0] * 7))
    assert len(history) == 7
    assert history.loss == [1.0] * 7
    assert history.score == [0.5] * 7
    assert len(history.seconds) == 7
    assert all(s >= 0 for s in history.seconds)
    assert history.validation_loss == []


def test_patience_counts_epochs_without_progress(network_of):
    falling = losses(1.0, 0.9, 0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8)
    history = EpochLoop(9, patience=3).run(network_of(), falling)
    assert len(history) == 8  # progress in epochs 1, 2 and 5; then 6, 7, 8


def stepping(network, values):
    """Return an epoch that sets every weight to the next value."""
    rest = iter(values)

    def one_epoch():
        value = next(rest)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.fill_(value)
        return 1.0, 0.0

    return one_epoch


def test_the_best_weights_by_validation_are_restored(network_of, problem_of):
    network, held = network_of(), problem_of(seed=5, loss="squared")
    values = [0.5, 0.2, 0.01, 0.3, 0.6]
    history = EpochLoop(5, validation=held).run(network, stepping(network, values))
    best = history.validation_loss.index(min(history.validation_loss))
    assert all(torch.equal(p, torch.full_like(p, values[best])) for p in network.parameters())
    with torch.no_grad():
        assert held.mean_loss(network(held.x)) == history.validation_loss[best]
    assert len(history.validation_score) == 5


def test_validation_loss_is_what_patience_watches(network_of, problem_of):
    network, held = network_of(), problem_of(loss="squared")
    values = [0.01, *[2.0] * 20]  # validation gets worse after the first epoch
    history = EpochLoop(20, 1e-4, 3, validation=held).run(network, stepping(network, values))
    assert len(history) == 4


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_says_what_to_try(bad, network_of):
    with pytest.raises(Diverged, match=rf"training loss became {bad} in epoch 2; try a smaller"):
        EpochLoop(5).run(network_of(), losses(1.0, bad))


def test_weights_lost_by_the_very_last_step_are_noticed(network_of):
    network = network_of()
    with pytest.raises(Diverged, match=r"weights became NaN or infinite in epoch 1; try a smaller"):
        EpochLoop(1).run(network, stepping(network, [math.nan]))


def test_on_epoch_sees_every_epoch_and_the_network(network_of):
    network, seen = network_of(), []
    EpochLoop(3, on_epoch=lambda k, n: seen.append((k, n))).run(network, losses(3, 2, 1))
    assert seen == [(1, network), (2, network), (3, network)]


def test_the_bar_goes_to_standard_error_and_only_when_asked(network_of, capsys):
    EpochLoop(2).run(network_of(), losses(1.0, 0.5))
    assert capsys.readouterr() == ("", "")
    EpochLoop(2, verbose=True).run(network_of(), losses(1.0, 0.5))
    out, err = capsys.readouterr()
    assert out == ""
    assert "fitting" in err
    assert "2/2" in err
    assert "loss=0.5000" in err


@pytest.mark.parametrize(("n", "size"), [(10, 3), (10, 10), (10, 50), (1, 1), (7, None)])
def test_batches_cover_every_sample_once(n, size):
    covered = [k for rows in batch_slices(n, size) for k in range(rows.start, rows.stop)]
    assert covered == list(range(n))
