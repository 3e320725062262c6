"""Updates per collected step are those of the weights and of all workers, wherever gradients and updates are made."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from recollect.scheme.base.commands import SetAlgorithmParameter
from recollect.scheme.gradients import remote_source
from recollect.scheme.gradients.async_source import AsyncGradientSource
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.status import ResumePoint
from recollect.scheme.gradients.sync_source import SyncGradientSource
from recollect.scheme.updates.all_reduce import PeerWorker
from recollect.scheme.updates.u_worker import UWorker
from recollect.scheme.weights import read_state
from tests.schemes import make_scheme
from tests.unit.scheme.gradients.fakes import WorkersHere
from tests.unit.scheme.updates.joining import join

STEPS_OF_A_STAGE = 8


@pytest.fixture(autouse=True)
def no_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_source.engine, "put", lambda value: value)


def make_worker(index: int, num_workers: int, kind: type[GWorker] = GWorker, **options: Any) -> Any:
    scheme = make_scheme("ddqn", "per", start_steps=0)
    return kind(index, lambda *_: scheme.gradients.col_workers, num_peers=num_workers, **options)


def make_sync(num_workers: int, ratio: float) -> Any:
    workers = [make_worker(index, num_workers) for index in range(num_workers)]
    return SyncGradientSource(make_scheme().col_worker, WorkersHere(workers), ratio)  # type: ignore[arg-type]


def make_async(num_workers: int, ratio: float) -> Any:
    workers = [make_worker(index, num_workers, replay_ratio=ratio) for index in range(num_workers)]
    return AsyncGradientSource(make_scheme().col_worker, WorkersHere(workers))  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [0.3, 1.0])
@pytest.mark.parametrize("num_workers", [1, 2, 4])
@pytest.mark.parametrize("make", [make_sync, make_async])
def test_the_ratio_is_that_of_the_run(make: Callable[[int, float], Any], num_workers: int, ratio: float) -> None:
    gradients = make(num_workers, ratio)
    update = UWorker(0, gradients)
    for _ in range(5):
        update.step()
    assert gradients.num_steps >= 5 * STEPS_OF_A_STAGE * (num_workers if make is make_sync else 1)
    assert (
        abs(update.num_updates - ratio * gradients.num_steps)
        <= num_workers * STEPS_OF_A_STAGE * (make is make_async) + 1
    )
    assert gradients.algo.num_updates == update.num_updates


def test_the_ratio_holds_with_a_worker_that_is_lost_or_collects_less() -> None:
    gradients = make_sync(2, 1.0)
    update = UWorker(0, gradients)
    gradients.workers.workers[1].execute(SetAlgorithmParameter("update_every", 1))
    for stage in range(6):
        if stage == 2:
            gradients.workers.dying.add(1)
        update.step()
    assert gradients.num_steps == 6 * 8 + 5 * 2
    assert update.num_updates == gradients.num_steps


def test_it_is_resumed_after_a_checkpoint_and_with_other_workers() -> None:
    before = make_sync(2, 0.3)
    update = UWorker(0, before)
    update.step()
    assert (before.num_steps, update.num_updates) == (16, 4)
    for other in (make_sync(2, 0.3), make_sync(1, 0.3)):
        other.load_state(before.state())
        assert other.state()["replay_credit"] == pytest.approx(0.8)
    here = make_scheme(start_steps=0, workers={"replay_ratio": 0.3})
    here.gradients.load_state(before.state())
    here.update_worker.step()
    assert here.num_updates == 3, "0.8 of an update was left, and 8 steps make 2.4"
    assert here.gradients.state()["replay_credit"] == pytest.approx(0.2)


def test_a_successor_continues_with_what_was_due() -> None:
    gradients = make_async(1, 0.3)
    update = UWorker(0, gradients)
    update.step()
    collection = gradients.status_of(0).collection
    assert collection["replay_credit"] == pytest.approx(0.4)
    worker = make_worker(0, 1, replay_ratio=0.3)
    worker.resume(ResumePoint(read_state(gradients.algo), collection, is_restart=True))
    worker.collect()
    assert len(list(worker.compute_gradients())) == 2, "0.4 and 2.4 make 2.8"


class Group:
    """Peers that all do as this one does."""

    def __init__(self, num_peers: int) -> None:
        self._num_peers = num_peers

    def sum(self, row: torch.Tensor) -> torch.Tensor:
        return row * self._num_peers


def test_peers_count_the_steps_of_all_and_updates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = make_worker(0, 3, PeerWorker, replay_ratio=0.5)
    join(peer, Group(3), monkeypatch)
    for stage in range(1, 5):
        report = peer.run_stage()
        assert report.version == len(report.infos) * stage == 3 * STEPS_OF_A_STAGE * stage // 2
    successor = make_worker(1, 3, PeerWorker, replay_ratio=0.5)
    state = peer.learner_state()
    state["limits"] = {"replay_credit": 2.5}
    successor.adopt(state)
    assert successor.state()["replay_credit"] == 2.5


class OtherPeers:
    """The others have collected 8 steps, and have so many gradients."""

    def __init__(self, num_gradients: int) -> None:
        self._num_left = num_gradients

    def sum(self, row: torch.Tensor) -> torch.Tensor:
        if len(row) == 1:
            return row + STEPS_OF_A_STAGE
        self._num_left -= 1
        return row + 1 if self._num_left >= 0 else row


def test_a_peer_without_data_counts_the_updates_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = make_worker(0, 2, PeerWorker, replay_ratio=1.0)
    join(peer, OtherPeers(8), monkeypatch)
    peer.col_worker.counts.num_steps_lost = 1000
    report = peer.run_stage()
    assert (report.version, len(report.infos)) == (8, 0)
    assert peer.state()["replay_credit"] == 0
