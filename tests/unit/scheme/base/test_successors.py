"""Workers that restart ask for the same resources, and execute earlier commands, or the error says why not."""

from typing import Any

import pytest

from recollect.scheme.base import engine
from recollect.scheme.base.commands import Command
from recollect.scheme.base.resources import Demand
from recollect.scheme.base.worker_set import WorkerSet
from tests.unit.scheme.base.test_worker_set import Adder, SetNumber
from tests.unit.scheme.fake_engine import FakeEngine


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return FakeEngine(monkeypatch)


class Moody(Adder):
    """Refuses a change in its second life."""

    def execute(self, command: Command) -> None:
        if self.epoch == 1:
            raise ValueError("not again")
        super().execute(command)


def test_a_change_that_a_successor_cannot_repeat_is_not_passed_over(fake: FakeEngine) -> None:
    workers = WorkerSet(Moody, {}, None, 1)
    workers.broadcast(SetNumber(3))
    fake.handles[0].is_dead = True
    workers.wait([workers.call(0, "add", 1)])
    (answer,) = workers.wait([workers.call(0, "add", 1)])
    assert str(answer.error) == "not again"
    assert (answer.value, workers.epoch(0), workers.num_restarts) == (None, 2, 2)
    (answer,) = workers.wait([workers.call(0, "add", 1)])
    assert answer.value == 4


def show(monkeypatch: pytest.MonkeyPatch, *nodes: float) -> None:
    """Let the cluster say that it has nodes with so many cores."""
    monkeypatch.setattr(engine, "nodes", lambda: [{"CPU": cores} for cores in nodes])


def replace_all(workers: WorkerSet, indices: list[int]) -> None:
    for index in indices:
        workers.handle(index).is_dead = True
    workers.wait_all([workers.call(index, "add", 1) for index in indices])


def cores(handles: list[Any]) -> list[float]:
    return [handle.options["num_cpus"] for handle in handles]


def test_workers_that_restart_ask_for_what_they_had(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, 2.0)
    workers = WorkerSet(Adder, {}, None, 4)
    workers.add(1)
    replace_all(workers, [0, 1, 2, 4])
    assert cores(fake.handles) == [0.5] * 4 + [0.0] + [0.5] * 3 + [0.0]


def test_workers_of_a_lost_node_reserve_nothing(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, 1.0, 1.0)
    workers = WorkerSet(Adder, {}, None, 4)
    show(monkeypatch, 1.0)
    replace_all(workers, [1, 3])
    assert cores(fake.handles[4:]) == [0.0, 0.0]
    replace_all(workers, [1, 3])
    assert cores(fake.handles[6:]) == [0.0, 0.0], "they fit, and it stays so"


def test_other_workers_of_the_training_keep_their_share(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, 2.0, 2.0)
    workers = WorkerSet(Adder, {}, None, 2, beside=(Demand(2, None),))
    replace_all(workers, [1])
    show(monkeypatch, 2.0)
    replace_all(workers, [1])
    assert cores(fake.handles) == [1, 1, 1, 0.0]
