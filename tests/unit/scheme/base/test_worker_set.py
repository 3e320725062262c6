"""Calls end with a value or an error; those who die, raise or hang are replaced; changes reach all, also later."""

import time
from dataclasses import dataclass
from typing import Any

import pytest

from recollect.errors import ConfigError, WorkerError
from recollect.scheme.base import engine
from recollect.scheme.base.commands import Command
from recollect.scheme.base.supervision import FinalWorkerError, Heartbeat, Supervision
from recollect.scheme.base.worker import Worker
from recollect.scheme.base.worker_set import WorkerSet
from tests.unit.scheme.fake_engine import FakeEngine, LostError


@dataclass(frozen=True)
class SetNumber(Command):
    """Has a worker count from another number."""

    number: int


class Adder(Worker):
    """Adds to a number."""

    def __init__(self, index_worker: int, number: int = 0, *, epoch: int = 0) -> None:
        super().__init__(index_worker)
        self.number, self.epoch = number, epoch
        self.is_stopped = False

    def add(self, number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        self.number += number
        return self.number

    def execute(self, command: Command) -> None:
        assert isinstance(command, SetNumber)
        if command.number < 0 and self.epoch < 5:
            raise ValueError("negative")
        self.number = command.number

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return FakeEngine(monkeypatch)


def make_set(num_workers: int = 2, **options: Any) -> WorkerSet:
    return WorkerSet(Adder, {"number": 10}, None, num_workers, **options)


def test_documented_attributes(fake: FakeEngine) -> None:
    workers = make_set(3)
    assert workers.worker_class is Adder
    assert workers.worker_params == {"number": 10}
    assert workers.num_workers == 3
    assert workers.remote_config["num_cpus"] == 1
    assert [handle.params["index_worker"] for handle in fake.handles] == workers.indices == [0, 1, 2]


def test_answers_say_whose_they_are(fake: FakeEngine) -> None:
    workers = make_set()
    calls = [workers.call(1, "add", 5), workers.call(0, "add", 7)]
    assert [(answer.call.worker, answer.value, answer.error) for answer in workers.wait_all(calls)] == [
        (1, 15, None),
        (0, 17, None),
    ]


def test_what_is_ready_is_not_held_up_by_what_is_slow(fake: FakeEngine) -> None:
    workers = make_set()
    fake.handles[0].is_slow = True
    calls = [workers.call(index, "add", 1) for index in (0, 1)]
    assert [answer.call.worker for answer in workers.wait(calls)] == [1]
    assert [answer.call.worker for answer in workers.wait(calls[:1])] == [0]


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_worker_that_fails_is_replaced_once(fake: FakeEngine, is_killed: bool) -> None:
    workers = make_set()
    calls = [workers.call(0, "add", -1), workers.call(0, "add", -1)]
    fake.handles[0].is_dead = is_killed
    answers = workers.wait_all(calls)
    assert all(isinstance(answer.error, LostError if is_killed else ValueError) for answer in answers[:1])
    assert (workers.num_restarts, workers.restarts, workers.epoch(0)) == (1, {0: 1}, 1)
    assert fake.handles[0].is_dead
    assert len(fake.handles) == 3
    assert fake.handles[2].params == {"number": 10, "index_worker": 0, "epoch": 1}
    assert workers.wait([workers.call(0, "add", 1)])[0].value == 11


def test_a_worker_that_hangs_is_replaced(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = make_set(supervision=Supervision(timeout_s=0.01))
    monkeypatch.setattr(Heartbeat, "is_silent", lambda self: self.handle.is_stuck)
    fake.handles[1].is_stuck = True
    (answer,) = workers.wait([workers.call(1, "add", 1)])
    assert answer.error is not None
    assert workers.restarts == {1: 1}


def test_others_that_deliver_do_not_hide_one_that_hangs(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = make_set(supervision=Supervision(timeout_s=1e-9))
    monkeypatch.setattr(Heartbeat, "is_silent", lambda self: self.handle.is_stuck)
    fake.handles[1].is_stuck = True
    stuck = workers.call(1, "add", 1)
    for _ in range(3):
        answers = workers.wait([stuck, workers.call(0, "add", 1)])
        if any(answer.call == stuck for answer in answers):
            break
    assert workers.restarts == {1: 1}


def test_too_many_failures_end_the_run(fake: FakeEngine) -> None:
    workers = make_set(supervision=Supervision(max_restarts=1))
    workers.wait([workers.call(0, "add", -1)])
    with pytest.raises(WorkerError, match=r"Adder 0 failed.*\n.*negative"):
        workers.wait([workers.call(0, "add", -1)])


def test_a_worker_that_can_never_be_built_ends_the_run_at_once(fake: FakeEngine) -> None:
    class Unbuildable(Adder):
        def __init__(self, **params: Any) -> None:
            raise ValueError("no such env")

    workers = WorkerSet(Unbuildable, {}, None, 1)
    with pytest.raises(FinalWorkerError, match=r"Unbuildable 0 cannot be built:\nno such env"):
        workers.wait([workers.call(0, "add", 1)])


def test_changes_reach_all_workers_and_those_that_are_built_later(fake: FakeEngine) -> None:
    workers = make_set()
    workers.broadcast(SetNumber(3))
    workers.broadcast(SetNumber(4))
    assert [handle.worker.number for handle in fake.handles] == [4, 4]
    workers.wait([workers.call(0, "add", -1)])
    workers.add(1)
    assert [handle.calls for handle in fake.handles[2:]] == [[("execute", (SetNumber(4),))]] * 2


def test_a_worker_that_dies_during_a_change_is_asked_again(fake: FakeEngine) -> None:
    workers = make_set()
    fake.handles[1].is_dead = True
    workers.broadcast(SetNumber(3))
    assert fake.handles[2].worker.number == 3


class Frail(Adder):
    """Dies of whatever it is given, in its first lives."""

    def execute(self, command: Command) -> None:
        if self.epoch < 4:
            raise LostError("the worker is gone")
        super().execute(command)


def test_a_worker_that_dies_again_and_again_during_a_change_is_asked_until_it_is_built(fake: FakeEngine) -> None:
    workers = WorkerSet(Frail, {}, None, 1, supervision=Supervision(max_restarts=4))
    workers.broadcast(SetNumber(3))
    assert fake.handles[-1].worker.number == 3
    assert workers.num_restarts == 4


def test_too_many_deaths_during_a_change_end_the_run(fake: FakeEngine) -> None:
    workers = WorkerSet(Frail, {}, None, 1, supervision=Supervision(max_restarts=3))
    with pytest.raises(FinalWorkerError, match="at most 3 are allowed"):
        workers.broadcast(SetNumber(3))


def test_a_change_in_which_a_worker_hangs_is_not_tried_for_ever(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = make_set(1, supervision=Supervision(timeout_s=0.01))
    monkeypatch.setattr(Heartbeat, "is_silent", lambda self: True)
    monkeypatch.setattr(engine, "ready", lambda references, _: [each for each in references if each.handle.is_dead])
    with pytest.raises(WorkerError, match=r"cannot execute SetNumber\(number=3\):\n.*no heartbeat"):
        workers.broadcast(SetNumber(3))
    assert workers.num_restarts == 2


def test_a_change_that_a_worker_refuses_is_an_error_and_not_repeated(fake: FakeEngine) -> None:
    workers = make_set()
    with pytest.raises(WorkerError, match=r"cannot execute SetNumber\(number=-1\):\n.*negative"):
        workers.broadcast(SetNumber(-1))
    workers.add(1)
    assert fake.handles[-1].calls == []


def test_workers_join_and_leave(fake: FakeEngine) -> None:
    workers = make_set()
    assert workers.add(2) == [2, 3]
    workers.remove(3)
    assert workers.indices == [0, 1, 2]
    assert fake.handles[3].is_dead
    assert fake.handles[3].worker.is_stopped
    assert workers.add(1) == [3]
    assert workers.epoch(3) == 1


def test_stopping_ends_all(fake: FakeEngine) -> None:
    workers = make_set()
    workers.stop()
    assert all(handle.is_dead and handle.worker.is_stopped for handle in fake.handles)
    assert workers.num_workers == 0


def test_resources_and_placement_are_options_of_the_actor(fake: FakeEngine) -> None:
    given = {"num_cpus": 0.5}
    workers = WorkerSet(Adder, {}, given, 1, placement="SPREAD")
    assert fake.handles[0].options == {"scheduling_strategy": "SPREAD", "num_cpus": 0.5}
    assert workers.remote_config == given
    assert workers.remote_config is not given
    make_set(1)
    assert fake.handles[1].options["scheduling_strategy"] == "DEFAULT"
    selected = {"num_cpus": 0.5, "scheduling_strategy": "SPREAD", "label_selector": {"pool": "collect"}}
    WorkerSet(Adder, {}, selected, 1)
    assert fake.handles[2].options == selected
    with pytest.raises(ConfigError, match="'DEFAULT', 'SPREAD', got 'PACK'"):
        make_set(placement="PACK")


def test_workers_that_wait_for_resources_are_told_of_and_never_count_as_hung(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    workers = WorkerSet(Adder, {}, {"num_cpus": 3}, 2, supervision=Supervision(timeout_s=1))
    fake.handles[1].is_placed = False
    call = workers.call(1, "add", 1)

    def pass_minutes(references: Any, timeout_s: float) -> list[Any]:
        nonlocal now
        now += timeout_s
        fake.handles[1].is_placed = now > 1000
        return fake.ready(references, timeout_s)

    monkeypatch.setattr(engine, "ready", pass_minutes)
    (answer,) = workers.wait([call])
    assert (answer.value, workers.num_restarts) == (1, 0)
    messages = {record.message for record in caplog.records if record.levelname == "WARNING"}
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) in range(10, 20)
    assert messages == {
        "waiting for resources: 1 of 2 Adders have not started; each asks for num_cpus 3; the nodes have CPU 4, "
        "memory 0.931 GiB; free are CPU 4, memory 0.931 GiB. An autoscaler may add nodes; otherwise ask for less, or "
        "use fewer workers"
    }


def test_a_share_of_the_object_store_is_not_asked_for_and_who_does_hears_of_it(
    fake: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    make_set(1)
    assert not caplog.records
    workers = WorkerSet(Adder, {}, {"num_cpus": 1, "object_store_memory": 10**6}, 2)
    assert "object_store_memory" not in fake.handles[1].options
    assert workers.remote_config["object_store_memory"] == 10**6
    assert [record.levelname for record in caplog.records if "object_store_memory" in record.message] == ["WARNING"]
