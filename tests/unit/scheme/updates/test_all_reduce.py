"""Peers apply the same updates, whoever has gradients, and give up a stage when one of them is lost."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from recollect.config import build, resolve
from recollect.errors import NotFiniteError
from recollect.scheme.normaliser_sums import take_sums
from recollect.scheme.updates.all_reduce import PeerWorker
from recollect.scheme.updates.peer_group import PeerLostError
from tests.schemes import make_scheme
from tests.unit.scheme.updates.joining import join


class Peers:
    """A group in which others do what they are told: add `others[k]` to the k-th row, nothing behind the last."""

    def __init__(
        self, share: float = 0.0, others: list[torch.Tensor] | None = None, lost_at: int | None = None
    ) -> None:
        self.share = share
        self.others = others or []
        self.lost_at = lost_at
        self.num_sums = 0
        self.is_left = False

    def sum(self, row: torch.Tensor) -> torch.Tensor:
        self.num_sums += 1
        if self.num_sums == self.lost_at:
            raise PeerLostError("a peer is lost")
        row = row * (1.0 + self.share)
        return row + self.others.pop(0) if self.others else row

    def leave(self) -> None:
        self.is_left = True


Make = Callable[..., PeerWorker]


@pytest.fixture
def make_peer(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(group: Peers, algo: str = "sac") -> PeerWorker:
        scheme: Any = make_scheme(algo, "per", start_steps=8)
        peer = PeerWorker(0, lambda *_: scheme.gradients.col_workers, num_peers=1 + round(group.share))
        join(peer, group, monkeypatch)
        return peer

    return make


@pytest.mark.parametrize("algo", ["sac", "crossq"])
def test_peers_that_all_do_the_same_are_as_one_here(make_peer: Make, algo: str) -> None:
    """With the statistics of batches, which CrossQ acts by."""
    here = make_scheme(algo, "per", start_steps=8)
    alone, twin = make_peer(Peers(), algo), make_peer(Peers(share=1.0), algo)
    for _ in range(3):
        here.update_worker.step()
        reports = [peer.run_stage() for peer in (alone, twin)]
    assert [report.version for report in reports] == [6, 6]
    assert all(report.reason is None and len(report.infos) == 2 for report in reports)
    for name, weight in here.actor.state_dict().items():
        assert torch.equal(alone.algo.actor.state_dict()[name], weight), name
        assert torch.equal(twin.algo.actor.state_dict()[name], weight), name
        assert (reports[0].weights.actor[name] == weight.numpy()).all()  # type: ignore[union-attr]


def test_a_peer_goes_along_while_others_have_gradients(make_peer: Make) -> None:
    group = Peers()
    peer = make_peer(group)
    parameters = peer.algo.optimiser.parameters
    ones = torch.ones(sum(parameter.numel() for parameter in parameters) + len(parameters))
    group.others = [torch.zeros_like(ones), torch.zeros_like(ones), ones, ones]
    report = peer.run_stage()
    assert len(report.infos) == 2, "its own gradients"
    assert report.version == peer.algo.num_updates == 4
    assert peer.col_worker.actor_version == 4


def test_normalisers_of_all_peers_see_what_any_of_them_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"update_every": 8, "num_envs": 2, "num_test_envs": 1, "normalise_observations": True, "test_every": 0}
    scheme: Any = build(resolve("ppo", "Pendulum-v1", preset="none", overrides=options))
    peer = PeerWorker(0, lambda *_: scheme.gradients.col_workers)
    join(peer, Peers(share=1.0), monkeypatch)
    for stage in (1, 2):
        peer.run_stage()
        (sums,) = take_sums(peer.algo.actor).values()
        assert sums[0].tolist() == [2 * 2 * 8 * stage] * 3, "steps of this peer and of its twin"


def test_a_stage_without_a_peer_is_given_up(make_peer: Make) -> None:
    group = Peers(lost_at=2)
    peer = make_peer(group)
    report = peer.run_stage()
    assert report.reason is not None
    assert report.version == 1
    assert report.weights is None
    assert group.is_left
    assert report.status.num_steps == 8, "what was collected is kept"
    assert peer.run_stage().reason is not None, "there is no group any more"


def test_a_loss_that_is_not_finite_is_reported_when_all_are_done(make_peer: Make) -> None:
    peer = make_peer(Peers())

    def broken(batch: Any, grads_to_cpu: bool = True) -> Any:
        raise NotFiniteError("loss_q is nan")

    peer.algo.compute_gradients = broken
    report = peer.run_stage()
    assert report.failure == "loss_q is nan"
    assert report.batch is not None
    assert report.reason is None


def test_waiting_for_peers_moves_the_heartbeat(make_peer: Make) -> None:
    group = Watched()
    peer = group.peer = make_peer(group)
    peer.run_stage()
    assert len(group.beats) >= 3
    assert all(before != after for before, after in group.beats)
    assert peer.progress() == peer.progress(), "it waits no more"


class Watched(Peers):
    """Notes the heartbeat of the peer while it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.peer: PeerWorker | None = None
        self.beats: list[tuple[int | None, int | None]] = []

    def sum(self, row: torch.Tensor) -> torch.Tensor:
        assert self.peer is not None
        self.beats.append((self.peer.progress(), self.peer.progress()))
        return super().sum(row)
