"""Workers are lost at any moment, in hot changes and checkpoints too: what they had counts once, here as on Ray."""

import itertools
import time
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from recollect.errors import WorkerError
from recollect.learner import Learner
from recollect.scheme import Scheme
from recollect.scheme.base import engine
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.collectors.reports import worker_metrics
from recollect.scheme.updates import all_reduce
from recollect.scheme.updates.peer_group import Rendezvous
from tests.schemes import make_scheme
from tests.unit.scheme.fake_engine import FakeEngine

CELLS: Final = {
    "sync": {"num_grad_workers": 2},
    "async": {"num_grad_workers": 2, "grad_mode": "async"},
    "decentralised": {"num_grad_workers": 2, "update_mode": "decentralised"},
}


class Alone:
    """A group of peers in which each is by itself."""

    def __init__(self, *place: Any, **options: Any) -> None: ...

    def sum(self, row: torch.Tensor) -> torch.Tensor:
        return row

    def leave(self) -> None: ...


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setattr(all_reduce, "PeerGroup", Alone)
    monkeypatch.setattr(all_reduce, "open_rendezvous", lambda host, num_peers: (Rendezvous(host, 0, num_peers), None))
    monkeypatch.setattr(engine, "node_address", lambda: "here")
    return FakeEngine(monkeypatch)


def run(scheme: Scheme, num_stages: int) -> None:
    for _ in range(num_stages):
        scheme.update_worker.step()


def handles(scheme: Scheme) -> list[Any]:
    """Handles of the gradient workers that are there now."""
    workers = scheme.gradients.workers  # type: ignore[attr-defined]
    return [workers.handle(index) for index in workers.indices]


def check_storages(scheme: Scheme) -> None:
    """Every step that is counted is in a storage."""
    found = [handle.worker for handle in handles(scheme)]
    counts = [worker.col_worker.num_steps for worker in found]
    assert [len(worker.storage) for worker in found] == counts
    assert [worker.col_worker.counts.num_steps_lost for worker in found] == [0, 0]
    assert sum(counts) >= scheme.num_steps


@pytest.mark.parametrize("cell", CELLS)
def test_a_gradient_worker_that_is_lost_in_a_hot_change_continues_with_what_it_had(fake: FakeEngine, cell: str) -> None:
    scheme = make_scheme("ddqn", "per", workers=CELLS[cell])
    run(scheme, 4)
    handles(scheme)[0].is_dead = True
    num_steps = scheme.num_steps
    scheme.update_algorithm_parameter("gamma", 0.5)
    run(scheme, 3)
    assert scheme.num_steps >= num_steps + 3 * 2 * 8 - 8
    check_storages(scheme)
    assert [handle.worker.algo.gamma for handle in handles(scheme)] == [0.5, 0.5]
    scheme.stop()


@pytest.mark.parametrize("cell", CELLS)
def test_a_checkpoint_holds_what_a_lost_worker_had(fake: FakeEngine, tmp_path: Path, cell: str) -> None:
    scheme = make_scheme("ddqn", "per", workers=CELLS[cell])
    run(scheme, 4)
    handles(scheme)[1].is_dead = True
    scheme.update_storage_parameter("n_step", 3)
    scheme.save_storage(tmp_path)
    resumed = make_scheme("ddqn", "per", workers=CELLS[cell])
    resumed.load_state(scheme.state())
    resumed.load_storage(tmp_path)
    assert resumed.status().num_stored == resumed.num_steps == scheme.num_steps
    check_storages(resumed)
    for each in (scheme, resumed):
        each.stop()


def test_a_worker_that_is_lost_while_a_run_is_resumed_counts_what_was_saved(fake: FakeEngine, tmp_path: Path) -> None:
    scheme = make_scheme("ddqn", "per", workers=CELLS["sync"])
    run(scheme, 4)
    scheme.save_storage(tmp_path)
    resumed = make_scheme("ddqn", "per", workers=CELLS["sync"])
    handles(resumed)[0].is_dead = True
    resumed.load_state(scheme.state())
    resumed.load_storage(tmp_path)
    assert resumed.num_steps == scheme.num_steps
    run(resumed, 1)
    assert resumed.num_steps == scheme.num_steps + 16
    check_storages(resumed)
    for each in (scheme, resumed):
        each.stop()


class Clock:
    """Time goes by where it is waited for what is not ready."""

    def __init__(self, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._ready = fake.ready
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(engine, "ready", self.ready)

    def ready(self, references: Any, timeout_s: float) -> Any:
        found = self._ready(references, timeout_s)
        self.now += 0.0 if found else timeout_s
        return found


def test_who_waits_for_a_collector_that_is_built_is_alive(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As seen by the one that supervises the gradient worker, until the collector takes too long itself."""
    scheme = make_scheme("ddqn", "per", workers={"num_col_workers": 1, "num_grad_workers": 1, "worker_timeout_s": 4})
    (grad_worker,), (collector,) = handles(scheme), collectors(fake)
    clock = Clock(fake, monkeypatch)
    collector.is_stuck = True
    monkeypatch.setattr(CWorker, "progress", lambda self: None)
    seen: list[tuple[float, int]] = []
    ready = engine.ready

    def look(references: Any, timeout_s: float) -> Any:
        seen.append((clock.now, grad_worker.worker.progress()))
        return ready(references, timeout_s)

    monkeypatch.setattr(engine, "ready", look)
    grad_worker.worker.collect()
    first = seen[0][0]
    moves = [before[0] for before, after in itertools.pairwise(seen) if before[1] != after[1]]
    assert collector.is_dead
    assert moves[-1] - first > 170
    assert max(after - before for before, after in itertools.pairwise([first, *moves])) < 3 * 4
    scheme.stop()


def collectors(fake: FakeEngine) -> list[Any]:
    """Handles of all collecting workers that there ever were."""
    return [handle for handle in fake.handles if isinstance(handle.worker, CWorker)]


def fail(*args: Any) -> None:
    raise ValueError("the env broke")


@pytest.mark.parametrize("num_grad_workers", [0, 1])
def test_too_many_restarts_end_a_run_that_can_be_resumed(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, num_grad_workers: int
) -> None:
    """Collectors of a gradient worker are not given up and rebuilt with it, again and again."""
    workers = {"num_col_workers": 1, "num_grad_workers": num_grad_workers, "max_restarts": 2}
    learner = Learner(make_scheme("ddqn", "per", workers=workers), 10_000, tmp_path)
    for _ in range(3):
        learner.step()
    with monkeypatch.context() as patch:
        patch.setattr(CWorker, "collect_piece", fail)
        with pytest.raises(WorkerError, match=r"2 restarts.*\nthe env broke\nThe training so far is saved") as raised:
            learner.step()
    assert str(raised.value).startswith("GWorker 0 cannot continue: " if num_grad_workers else "CWorker 0 failed")
    assert len(collectors(fake)) == 3
    learner.stop()
    resumed = Learner(make_scheme("ddqn", "per", workers=workers), 10_000, tmp_path, resume=True)
    # Updates do not wait for the stage that fails, but for the last one, whose worker tells of it.
    num_updates = 5 if num_grad_workers else 6
    assert (resumed.num_steps, resumed.num_updates) == (learner.num_steps, learner.num_updates) == (24, num_updates)
    assert resumed.scheme.status().num_stored == 24
    resumed.step()
    assert (resumed.num_steps, resumed.num_updates) == (32, num_updates + 2)
    resumed.stop()


def test_counts_of_the_dead_are_kept(fake: FakeEngine) -> None:
    scheme = make_scheme("ddqn", "per", workers={"num_col_workers": 1, "num_grad_workers": 1})
    run(scheme, 2)
    collectors(fake)[-1].is_dead = True
    run(scheme, 2)
    for num_lost in range(3):
        status = scheme.status()
        assert (status.reports[0].restarts, status.reports[0].num_steps) == (1, scheme.num_steps)
        assert worker_metrics(status.reports)["workers/restarts"] == 1
        assert scheme.gradients.report().num_restarts == num_lost
        handles(scheme)[0].is_dead = True
        run(scheme, 1)
        assert scheme.status().reports[0].restarts == 1, "before the successor is heard of too"
        run(scheme, 2)
    scheme.stop()
