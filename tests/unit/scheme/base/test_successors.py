"""Successors of workers that were lost: they do what was changed before, or it is told why not."""

import pytest

from recollect.scheme.base.worker_set import WorkerSet
from tests.unit.scheme.base.test_worker_set import Adder
from tests.unit.scheme.fake_engine import FakeEngine


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return FakeEngine(monkeypatch)


class Moody(Adder):
    """Refuses a change in its second life."""

    def set_number(self, name: str, number: int) -> None:
        if self.epoch == 1:
            raise ValueError("not again")
        super().set_number(name, number)


def test_a_change_that_a_successor_cannot_repeat_is_not_passed_over(fake: FakeEngine) -> None:
    workers = WorkerSet(Moody, {}, None, 1)
    workers.broadcast("set_number", "n", 3)
    fake.handles[0].is_dead = True
    workers.wait([workers.call(0, "add", 1)])
    (answer,) = workers.wait([workers.call(0, "add", 1)])
    assert str(answer.error) == "not again"
    assert (answer.value, workers.epoch(0), workers.num_restarts) == (None, 2, 2)
    (answer,) = workers.wait([workers.call(0, "add", 1)])
    assert answer.value == 4
