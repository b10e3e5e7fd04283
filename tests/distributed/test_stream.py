"""A stream keeps few tasks on the cluster, and says when that is gone."""

import operator
from concurrent.futures import CancelledError

import pytest

from distributed import KilledWorker
from polyad.distributed.cluster import BLAMES, stream
from polyad.errors import ClusterError


class Future:
    """A task that is done as soon as it is asked for."""

    def __init__(self, key, result):
        self.key, self._result, self.status, self.asked = key, result, "finished", 0

    def add_done_callback(self, function):
        function(self)

    def result(self, timeout):
        self.asked += 1
        if self._result == "late" and self.asked < 3:
            raise TimeoutError
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


class Client:
    """A cluster of so many threads on which ``work`` is done, or goes wrong."""

    def __init__(self, work, threads=2):
        self.work, self.threads, self.status = work, threads, "running"
        self.submitted, self.cancelled, self.wanted = 0, [], []

    def nthreads(self):
        return {f"tcp://127.0.0.1:{k}": 1 for k in range(self.threads)}

    def submit(self, function, item, *, key, pure, workers=None, allow_other_workers=False):
        assert not pure
        assert allow_other_workers == (workers is not None)
        self.wanted.append(workers)
        self.submitted += 1
        return Future(key, self.work(item))

    def cancel(self, futures, asynchronous):
        self.cancelled += futures


def killed(item):
    return KilledWorker(item, None, 3)


def test_real_cluster_gives_each_result_once(two_workers):
    found = dict(stream(two_workers, operator.neg, range(50)))
    assert found == {k: -k for k in range(50)}


def test_only_a_few_items_are_taken_ahead(two_workers):
    taken, most = [], 0
    for done, _ in enumerate(stream(two_workers, operator.neg, map_taking(range(60), taken))):
        most = max(most, len(taken) - done)
    assert len(taken) == 60
    assert most <= 2 * 2 + 1 + 1


def map_taking(items, taken):
    for item in items:
        taken.append(item)
        yield item


@pytest.mark.parametrize("client", [None, Client(lambda item: ZeroDivisionError())])
def test_error_of_the_function_is_an_outcome(client):
    (outcome,) = [found for _, found in stream(client, lambda item: 1 / item, [0])]
    assert isinstance(outcome, ZeroDivisionError)


def test_task_blamed_for_dead_workers_is_handed_in_again():
    answers = {1: [killed(1), "one"], 2: ["two"]}
    client = Client(lambda item: answers[item].pop(0))
    assert dict(stream(client, str, [1, 2])) == {1: "one", 2: "two"}
    assert client.submitted == 3


def test_result_that_is_lost_with_its_worker_is_waited_for():
    assert dict(stream(Client(lambda item: item), str, ["late", "soon"])) == {
        "late": "late",
        "soon": "soon",
    }


def test_task_that_kills_every_worker_ends_the_stream_with_the_likely_reason():
    client = Client(killed)
    with pytest.raises(ClusterError, match=r"lack memory.*smaller tile"):
        list(stream(client, str, [1]))
    assert client.submitted == BLAMES


@pytest.mark.parametrize(
    ("work", "status", "words"),
    [
        (
            lambda item: CancelledError("scheduler-connection-lost"),
            "running",
            "connection to the Dask scheduler",
        ),
        (str, "closed", "lost"),
    ],
)
def test_a_cancelled_task_or_a_closed_client_means_that_the_scheduler_is_gone(work, status, words):
    client = Client(work)
    client.status = status
    with pytest.raises(ClusterError, match=words):
        list(stream(client, str, [1]))


def test_cluster_without_workers_is_given_up_after_a_while(monkeypatch):
    monkeypatch.setattr("polyad.distributed.cluster.CHECK_SECONDS", 0.01)
    client = Client(str, threads=0)
    monkeypatch.setattr(Future, "add_done_callback", lambda self, function: None)
    with pytest.raises(ClusterError, match="no worker"):
        list(stream(client, str, [1], patience=0.05))
    assert len(client.cancelled) == 1


def test_leaving_early_takes_back_what_is_on_the_cluster(monkeypatch):
    client = Client(str)
    for _ in stream(client, str, range(100)):
        break
    # The generator is gone; so is everything it had handed in
    assert client.submitted - 1 == len(client.cancelled)
