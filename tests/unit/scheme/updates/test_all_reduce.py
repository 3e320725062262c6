"""Peers apply the same updates, whoever has gradients, and give up a stage when one of them is lost."""

from typing import Any

import torch

from recollect.errors import NotFiniteError
from recollect.scheme.updates.all_reduce import PeerWorker
from recollect.scheme.updates.peer_group import PeerLostError
from tests.schemes import make_scheme


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


def make_peer(group: Peers) -> PeerWorker:
    scheme = make_scheme("sac", "per", start_steps=8)
    peer = PeerWorker(0, lambda *_: scheme.gradients.worker.col_workers)
    peer._group = group  # type: ignore[assignment]
    return peer


def test_peers_that_all_do_the_same_are_as_one_here() -> None:
    here = make_scheme("sac", "per", start_steps=8)
    alone, twin = make_peer(Peers()), make_peer(Peers(share=1.0))
    for _ in range(3):
        here.update_worker.step()
        reports = [peer.run_stage() for peer in (alone, twin)]
    assert [report.version for report in reports] == [6, 6]
    assert all(report.is_complete and len(report.infos) == 2 for report in reports)
    for name, weight in here.actor.state_dict().items():
        assert torch.equal(alone.algo.actor.state_dict()[name], weight), name
        assert torch.equal(twin.algo.actor.state_dict()[name], weight), name
        assert (reports[0].learned.actor[name] == weight.numpy()).all()  # type: ignore[union-attr]


def test_a_peer_goes_along_while_others_have_gradients() -> None:
    group = Peers()
    peer = make_peer(group)
    parameters = peer.algo.optimiser.parameters
    ones = torch.ones(sum(parameter.numel() for parameter in parameters) + len(parameters))
    group.others = [torch.zeros_like(ones), torch.zeros_like(ones), ones, ones]
    report = peer.run_stage()
    assert len(report.infos) == 2, "its own gradients"
    assert report.version == peer.algo.num_updates == 4
    assert peer.col_worker.actor_version == 4


def test_a_stage_without_a_peer_is_given_up() -> None:
    group = Peers(lost_at=2)
    peer = make_peer(group)
    report = peer.run_stage()
    assert not report.is_complete
    assert report.version == 1
    assert report.learned is None
    assert group.is_left
    assert report.status.num_steps == 8, "what was collected is kept"
    assert not peer.run_stage().is_complete, "there is no group any more"


def test_a_loss_that_is_not_finite_is_reported_when_all_are_done() -> None:
    peer = make_peer(Peers())

    def broken(batch: Any, grads_to_cpu: bool = True) -> Any:
        raise NotFiniteError("loss_q is nan")

    peer.algo.compute_gradients = broken
    report = peer.run_stage()
    assert report.failure == "loss_q is nan"
    assert report.batch is not None
    assert report.is_complete


def test_waiting_for_peers_is_a_sign_of_life() -> None:
    peer = make_peer(Peers())
    before = peer.progress()
    assert peer.progress() == before
    peer._is_waiting = True
    assert peer.progress() != before
