"""Successors of workers that were lost have the same resources, and do what was changed before, or it is told why."""

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


def show(monkeypatch: pytest.MonkeyPatch, nodes: list[float], free: float) -> None:
    """Let the cluster say that it has nodes with so many cores, of which so many are free."""
    monkeypatch.setattr(engine, "nodes", lambda: [{"CPU": cores} for cores in nodes])
    monkeypatch.setattr(engine, "free_resources", lambda: {"CPU": free})


def replace_all(workers: WorkerSet, indices: list[int]) -> None:
    for index in indices:
        workers.handle(index).is_dead = True
    workers.wait_all([workers.call(index, "add", 1) for index in indices])


def cores(handles: list[Any]) -> list[float]:
    return [handle.options["num_cpus"] for handle in handles]


@pytest.mark.parametrize("free", [0.0, 0.5, 1.5, 2.0])
def test_successors_ask_for_what_the_lost_ones_had(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, free: float
) -> None:
    """Whatever the cluster says is free: it is late to notice."""
    show(monkeypatch, [2.0], 2.0)
    workers = WorkerSet(Adder, {}, None, 4)
    show(monkeypatch, [2.0], 0.0)
    workers.add(1)
    show(monkeypatch, [2.0], free)
    replace_all(workers, [0, 1, 2, 4])
    assert cores(fake.handles) == [0.5] * 4 + [0.0] + [0.5] * 3 + [0.0]


@pytest.mark.parametrize("free", [0.0, 2.0])
def test_successors_of_those_on_a_lost_node_ask_for_what_is_left(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, free: float
) -> None:
    show(monkeypatch, [1.0, 1.0], 2.0)
    workers = WorkerSet(Adder, {}, None, 4)
    show(monkeypatch, [1.0], free)
    replace_all(workers, [1, 3])
    assert cores(fake.handles[4:]) == [0.0, 0.0]
    replace_all(workers, [1, 3])
    assert cores(fake.handles[6:]) == [0.0, 0.0], "they fit, and it stays so"


def test_other_workers_of_the_training_keep_their_share(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, [2.0, 2.0], 4.0)
    workers = WorkerSet(Adder, {}, None, 2, beside=(Demand("GWorker", 2, None),))
    show(monkeypatch, [2.0, 2.0], 0.0)
    replace_all(workers, [1])
    show(monkeypatch, [2.0], 1.0)
    replace_all(workers, [1])
    assert cores(fake.handles) == [1, 1, 1, 0.0]
