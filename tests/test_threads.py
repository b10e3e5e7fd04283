"""Threads are limited where synchronization would cost more, and the caller's numbers come back."""

import os
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from polyad import RankRClassifier
from polyad.scene.map.mapping import map_scene
from polyad.scene.read.scenes import open_scene, scene_from_array
from polyad.threads import limit_threads, one_ahead, run_tasks, stream_tasks, threads_for
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def three_threads():
    """Three threads of torch for the test, whatever the machine and its environment say."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    assert in_new_thread(torch.get_num_threads) == 3
    torch.set_num_threads(before)


def in_new_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def blas_threads():
    return [lib["num_threads"] for lib in ThreadpoolController().select(user_api="blas").info()]


@pytest.mark.parametrize(("flops", "threads"), [(0, 1), (1e9, 1), (4e9, 2), (1e12, 3)])
def test_long_operations_deserve_more_threads_up_to_what_torch_has(flops, threads):
    assert threads_for(flops) == threads


def test_a_limit_holds_for_torch_and_blas_and_ends_with_its_block():
    before = blas_threads()
    with limit_threads(2):
        assert torch.get_num_threads() == 2
        with limit_threads(1):
            assert torch.get_num_threads() == 1
            assert set(blas_threads()) == {1}
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 3
    assert blas_threads() == before


def test_a_limit_raises_nothing_above_what_the_caller_set():
    with limit_threads(64):
        assert torch.get_num_threads() == 3


def test_a_limit_ends_when_its_block_fails():
    with pytest.raises(KeyError), limit_threads(1):
        raise KeyError
    assert torch.get_num_threads() == 3


def test_threads_born_inside_a_block_do_not_keep_its_limit():
    first_is_in, second_is_in = threading.Event(), threading.Event()

    def first():
        with limit_threads(1):
            first_is_in.set()
            second_is_in.wait(PATIENCE)

    def second():
        first_is_in.wait(PATIENCE)
        with limit_threads(1):
            second_is_in.set()
            thread.join(PATIENCE)  # leaves last
        return torch.get_num_threads()

    thread = threading.Thread(target=first)
    thread.start()
    assert in_new_thread(second) == 3


def test_tasks_are_done_side_by_side_with_one_thread_each():
    together = threading.Barrier(3, timeout=PATIENCE)  # breaks unless three threads come at a time

    def task(number):
        together.wait()
        with limit_threads(1):  # as a fit inside a task has it
            pass
        return number, torch.get_num_threads()

    assert run_tasks(task, range(3)) == [(0, 1), (1, 1), (2, 1)]


def test_an_error_in_a_task_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        run_tasks(lambda k: 1 / k, [1, 0, 2])


def test_after_an_error_no_task_is_begun():
    begun = []

    def task(k):
        begun.append(k)
        time.sleep(0.05)
        raise ValueError(k)

    with pytest.raises(ValueError, match="0"):
        run_tasks(task, range(50))
    assert len(begun) <= 3


def test_the_caller_goes_on_alone_while_others_keep_all_helpers_busy(monkeypatch):
    alone = ThreadPoolExecutor(1)
    monkeypatch.setattr("polyad.threads._helpers", lambda: alone)
    done = threading.Event()
    alone.submit(done.wait, PATIENCE)
    assert run_tasks(abs, [-1, -2, -3]) == [1, 2, 3]
    done.set()
    alone.shutdown()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_gets_helpers_of_its_own():
    together = threading.Barrier(3, timeout=PATIENCE)
    run_tasks(lambda _: together.wait(), range(3))
    child = os.fork()
    if not child:
        signal.alarm(int(PATIENCE))
        run_tasks(lambda _: together.wait(), range(3))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parts_are_done_in_the_callers_thread_where_there_is_one():
    with limit_threads(1):
        assert run_tasks(lambda _: threading.get_ident(), [0, 1]) == [threading.get_ident()] * 2


def small_problem():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2 + 1
    return rng.normal(size=(40, 3, 3, 8)) + y[:, None, None, None], y


def test_a_small_fit_runs_on_one_thread():
    X, y = small_problem()
    seen = set()
    model = RankRClassifier(hidden=4, epochs=3, random_state=0)
    model.fit(X, y, on_epoch=lambda *_: seen.add(torch.get_num_threads()))
    assert seen == {1}


def test_a_fit_of_long_operations_shares_them_among_threads(monkeypatch):
    monkeypatch.setattr("polyad.threads.LEAST_FLOPS", 1000)
    X, y = small_problem()
    seen = set()
    model = RankRClassifier(hidden=4, epochs=3, random_state=0)
    model.fit(X, y, on_epoch=lambda *_: seen.add(torch.get_num_threads()))
    assert seen == {3}


def test_a_map_has_the_same_bits_on_any_number_of_threads():
    X, y = small_problem()
    model = RankRClassifier(hidden=75, epochs=3, random_state=0).fit(X, y)
    scene = scene_from_array(np.random.default_rng(1).normal(size=(300, 210, 8)))
    several = map_scene(model, scene, probabilities=True)[1]
    with limit_threads(1):
        one = map_scene(model, scene, probabilities=True)[1]
    np.testing.assert_array_equal(several.values, one.values)


# -- one task ahead --------------------------------------------------------------------------------


def test_the_next_result_is_made_while_the_present_one_is_used():
    begun = [threading.Event() for _ in range(3)]

    def work(task):
        begun[task].set()
        return task

    results = one_ahead(work, range(3))
    assert next(results) == (0, 0)
    assert begun[1].wait(PATIENCE)
    assert not begun[2].is_set()  # no further than one ahead
    assert [result for _, result in results] == [1, 2]


def test_an_error_comes_where_its_result_would():
    def work(task):
        return 1 / task

    results = one_ahead(work, [2, 1, 0, 4])
    assert [next(results)[1], next(results)[1]] == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(results) == []


def test_whoever_stops_early_leaves_no_thread_behind():
    results = one_ahead(abs, range(100))
    next(results)
    results.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("polyad-ahead")]


def test_results_of_many_threads_come_in_order_and_no_further_ahead_than_said():
    taken = []

    def tasks():
        for k in range(50):
            taken.append(k)
            yield k

    def work(task):
        time.sleep(0.02 * (task % 3 == 0))
        return task

    results = stream_tasks(work, tasks(), threads=3, ahead=2)
    assert next(results) == 0
    assert len(taken) == 5
    assert list(results) == list(range(1, 50))


def test_tasks_that_nobody_waits_for_are_not_begun(monkeypatch):
    begun, leaving = [], threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *arguments, **options):
            leaving.set()
            super().shutdown(*arguments, **options)

    def work(task):
        begun.append(task)
        if task:
            leaving.wait(PATIENCE)

    monkeypatch.setattr("polyad.threads.ThreadPoolExecutor", Pool)
    results = stream_tasks(work, range(9), 1, 5)
    next(results)
    results.close()
    assert len(begun) <= 2


def test_work_ahead_has_one_thread_of_torch():
    assert {threads for _, threads in one_ahead(lambda _: torch.get_num_threads(), range(3))} == {1}


def test_no_more_than_two_results_are_held():
    held = []

    class Result:
        def __init__(self):
            held.append(sum(1 for other in alive if other() is not None))
            alive.append(weakref.ref(self))

    alive = []
    for _, result in one_ahead(lambda _: Result(), range(6)):
        del result
    assert max(held) <= 1  # besides the one that is being made


def test_a_scene_on_disk_gets_the_same_map_on_any_number_of_threads(tmp_path):
    values = np.random.default_rng(0).normal(1000, 300, (90, 70, 20)).astype("u2")
    np.save(tmp_path / "scene.npy", values)
    model = RankRClassifier(2, 9, epochs=2, random_state=0).fit(
        values[:24, :24].reshape(-1, 3, 3, 20)[:60], np.arange(60) % 3 + 1
    )
    maps = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        scene = open_scene(tmp_path / "scene.npy")
        maps.append(map_scene(model, scene, probabilities=True, tile=32)[1].values)
    torch.set_num_threads(3)
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_array_equal(maps[0], maps[2])
    in_memory = map_scene(model, scene_from_array(values), probabilities=True, tile=32)[1].values
    np.testing.assert_array_equal(in_memory, maps[0])
