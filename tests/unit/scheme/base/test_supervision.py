"""Restarts are counted within a window; a worker that is checked and does not move is silent."""

import time
from typing import Any

import pytest

from recollect.errors import WorkerError
from recollect.scheme.base import engine
from recollect.scheme.base.supervision import Heartbeat, RestartLog, Supervision


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


class Handle:
    """A worker whose heartbeat is `value`, as long as it `answers`."""

    def __init__(self) -> None:
        self.value: int | None = 0
        self.answers = True
        self.progress = self

    def options(self, **options: Any) -> "Handle":
        assert options == {"concurrency_group": engine.CONTROL_GROUP}
        return self

    def remote(self) -> tuple[int | None]:
        return (self.value,)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    handle = Handle()
    monkeypatch.setattr(engine, "ready", lambda references, timeout_s: list(references) if handle.answers else [])
    monkeypatch.setattr(engine, "outcome", lambda reference: engine.Outcome(*reference))
    return handle


def check(heartbeat: Heartbeat, clock: Clock, seconds: float) -> list[bool]:
    """Check every second."""
    found = []
    for _ in range(int(seconds)):
        clock.now += 1
        found.append(heartbeat.is_silent())
    return found


def test_too_many_restarts_end_the_run_in_the_workers_own_words(clock: Clock) -> None:
    log = RestartLog(Supervision(max_restarts=2, window_s=10))
    log.add("CWorker 3", 3, ValueError("first"))
    log.add("CWorker 3", 3, ValueError("second"))
    cause = ValueError("the env broke")
    with pytest.raises(WorkerError, match=r"CWorker 3 failed.*\n?.*the env broke") as raised:
        log.add("CWorker 3", 3, cause)
    assert raised.value.__cause__ is cause
    assert log.counts == {3: 2}


def test_old_restarts_are_forgotten(clock: Clock) -> None:
    log = RestartLog(Supervision(max_restarts=1, window_s=10))
    for _ in range(3):
        log.add("CWorker 0", 0, ValueError())
        clock.now += 11
    assert log.counts == {0: 3}


def test_a_worker_that_moves_is_alive(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    for value in range(30):
        handle.value = value
        assert check(heartbeat, clock, 2) == [False, False]


def test_a_worker_that_does_not_move_is_silent(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    check(heartbeat, clock, 2)
    assert check(heartbeat, clock, 10)[-1]
    heartbeat.restart_clock()
    assert not heartbeat.is_silent()


def test_a_worker_that_does_not_answer_is_silent(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    check(heartbeat, clock, 2)
    handle.answers = False
    handle.value = 7
    assert check(heartbeat, clock, 10)[-1]


def test_a_worker_may_take_longer_to_be_built(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    handle.value = None
    assert not any(check(heartbeat, clock, 170))
    assert check(heartbeat, clock, 20)[-1]


def test_a_worker_that_has_not_started_is_waited_for(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    handle.answers = False
    assert not any(check(heartbeat, clock, 1000))
    assert not heartbeat.has_started
    handle.answers = True
    check(heartbeat, clock, 2)
    assert heartbeat.has_started
    handle.answers = False
    assert check(heartbeat, clock, 10)[-1]


def test_time_in_which_nobody_checks_does_not_count(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    check(heartbeat, clock, 2)
    clock.now += 1000
    assert not heartbeat.is_silent()


def test_a_worker_may_take_as_long_to_build_something(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    check(heartbeat, clock, 3)
    handle.value = None
    assert not any(check(heartbeat, clock, 170))
    handle.value = 0
    assert not any(check(heartbeat, clock, 4))
    assert check(heartbeat, clock, 4)[-1]
    handle.value = None
    assert check(heartbeat, clock, 190)[-1]


def test_a_worker_that_stops_answering_while_it_builds_has_no_longer_than_others(clock: Clock, handle: Handle) -> None:
    heartbeat = Heartbeat(handle, Supervision(timeout_s=4))
    handle.value = None
    assert not any(check(heartbeat, clock, 20))
    handle.answers = False
    assert check(heartbeat, clock, 10)[-1]
    assert heartbeat.limit_s == 4
