"""Peers add up rows among themselves, and notice when one is lost."""

import multiprocessing
from typing import Any

import pytest
import torch

from recollect.scheme.updates.peer_group import LOOPBACK, Meeting, PeerGroup, PeerLostError, open_meeting


def take_part(meeting: Meeting, rank: int, num_sums: int, results: Any) -> None:
    torch.set_num_threads(1)
    group = PeerGroup(meeting, rank, timeout_s=60)
    for number in range(num_sums):
        results.put((rank, group.sum(torch.full((3,), float(rank + number))).tolist()))


@pytest.fixture(scope="module")
def context() -> Any:
    return multiprocessing.get_context("spawn")


def test_peers_sum_until_one_is_lost(context: Any) -> None:
    meeting, store = open_meeting(LOOPBACK, 2)
    results = context.Queue()
    peer = context.Process(target=take_part, args=(meeting, 1, 2, results), daemon=True)
    peer.start()
    group = PeerGroup(meeting, 0, timeout_s=60, store=store)
    try:
        assert group.sum(torch.zeros(3)).tolist() == [1.0] * 3
        assert group.sum(torch.full((3,), 10.0)).tolist() == [12.0] * 3
        assert results.get(timeout=60) == (1, [1.0] * 3)
        peer.join(60)
        with pytest.raises(PeerLostError, match="a peer is lost"):
            group.sum(torch.zeros(3))
    finally:
        group.leave()


def test_a_group_of_one_needs_nobody() -> None:
    meeting, store = open_meeting(LOOPBACK, 1)
    for _ in range(2):
        group = PeerGroup(meeting, 0, timeout_s=10, store=store)
        assert group.sum(torch.tensor([1.0, 2.0], dtype=torch.float64)).tolist() == [1.0, 2.0]
        group.leave()
        meeting, store = open_meeting(LOOPBACK, 1)
