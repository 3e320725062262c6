"""Results made ahead: in order, whatever the threads do."""

import concurrent.futures as futures_module
import gc
import threading
import time
from concurrent.futures import Future
from functools import partial

import pytest

from recollect.agent.storages.experience.sampling import prefetch
from recollect.agent.storages.experience.sampling.prefetch import Prefetcher
from tests.waiting import PATIENCE_S, wait_until


def slow(value: int, delay_s: float) -> int:
    time.sleep(delay_s)
    return value


def fail() -> int:
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("num_workers", [0, 1, 4])
def test_results_come_in_the_order_of_the_jobs(num_workers: int) -> None:
    ahead: Prefetcher[int] = Prefetcher(num_workers)
    for value in range(8):
        ahead.start(partial(slow, value, 0.001 * (8 - value)))
    assert len(ahead) == 8
    assert [ahead.take() for _ in range(8)] == list(range(8))
    assert len(ahead) == 0
    ahead.close()


def test_jobs_run_while_the_caller_continues() -> None:
    ahead: Prefetcher[str] = Prefetcher(2)
    may_end = threading.Event()

    def job() -> str:
        assert may_end.wait(PATIENCE_S)
        return threading.current_thread().name

    ahead.start(job)
    ahead.start(job)
    may_end.set()
    names = {ahead.take(), ahead.take()}
    assert threading.current_thread().name not in names
    ahead.close()


def test_settle_waits_for_all_jobs() -> None:
    ahead: Prefetcher[None] = Prefetcher(3)
    done: list[int] = []
    for value in range(6):
        ahead.start(lambda value=value: done.append(slow(value, 0.01)))  # type: ignore[misc]
    ahead.settle()
    assert sorted(done) == list(range(6))
    ahead.close()


def test_an_error_waits_for_who_takes_the_result() -> None:
    ahead: Prefetcher[int] = Prefetcher(1)
    ahead.start(fail)
    ahead.start(partial(slow, 1, 0))
    ahead.settle()
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        ahead.take()
    assert ahead.take() == 1
    ahead.close()


def test_drop_forgets_jobs_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead: Prefetcher[int] = Prefetcher(1)
    has_begun, may_end = threading.Event(), threading.Event()
    done: list[int] = []

    def job(value: int) -> int:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)
        done.append(value)
        return value

    def wait_for_the_job_under_way(futures: list[Future[int]]) -> None:
        may_end.set()
        futures_module.wait(futures)

    monkeypatch.setattr(prefetch, "wait", wait_for_the_job_under_way)
    for value in range(50):
        ahead.start(partial(job, value))
    assert has_begun.wait(PATIENCE_S)
    ahead.drop()
    assert done == [0]
    assert len(ahead) == 0
    ahead.start(partial(slow, 7, 0))
    assert ahead.take() == 7
    ahead.close()


def test_threads_end_with_close_and_with_the_object() -> None:
    before = set(threading.enumerate())
    closed: Prefetcher[int] = Prefetcher(3)
    forgotten: Prefetcher[int] = Prefetcher(3)
    for ahead in (closed, forgotten):
        for value in range(3):
            ahead.start(partial(slow, value, 0.01))
    assert set(threading.enumerate()) > before
    closed.close()
    del ahead, forgotten
    gc.collect()
    wait_until(lambda: set(threading.enumerate()) <= before, "the threads to end")
