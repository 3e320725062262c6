"""Peers add up rows among themselves, and notice when one is lost."""

import multiprocessing
import os
import socket
from typing import Any

import pytest
import torch
import torch.distributed as dist

from recollect.scheme.base.engine import LOOPBACK
from recollect.scheme.updates.peer_group import PeerGroup, PeerLostError, Rendezvous, open_rendezvous
from tests.waiting import PATIENCE_S

CPU = torch.device("cpu")


def take_part(meeting: Rendezvous, rank: int, num_sums: int, results: Any) -> None:
    torch.set_num_threads(1)
    results.put((rank, "is there"))
    group = PeerGroup(meeting, rank, timeout_s=PATIENCE_S, device=CPU)
    for number in range(num_sums):
        results.put((rank, group.sum(torch.full((3,), float(rank + number))).tolist()))


@pytest.fixture(scope="module")
def context() -> Any:
    return multiprocessing.get_context("spawn")


def test_peers_sum_until_one_is_lost(context: Any) -> None:
    meeting, store = open_rendezvous(LOOPBACK, 2)
    results = context.Queue()
    peer = context.Process(target=take_part, args=(meeting, 1, 2, results), daemon=True)
    peer.start()
    assert results.get(timeout=PATIENCE_S) == (1, "is there")
    group = PeerGroup(meeting, 0, timeout_s=PATIENCE_S, device=CPU, store=store)
    try:
        assert group.sum(torch.zeros(3)).tolist() == [1.0] * 3
        assert group.sum(torch.full((3,), 10.0)).tolist() == [12.0] * 3
        assert results.get(timeout=PATIENCE_S) == (1, [1.0] * 3)
        peer.join(PATIENCE_S)
        with pytest.raises(PeerLostError, match="a peer is lost"):
            group.sum(torch.zeros(3))
    finally:
        group.leave()


def test_a_group_of_one_needs_nobody() -> None:
    meeting, store = open_rendezvous(LOOPBACK, 1)
    for _ in range(2):
        group = PeerGroup(meeting, 0, timeout_s=10, device=CPU, store=store)
        assert group.sum(torch.tensor([1.0, 2.0], dtype=torch.float64)).tolist() == [1.0, 2.0]
        group.leave()
        meeting, store = open_rendezvous(LOOPBACK, 1)


@pytest.mark.parametrize("chosen", [None, "eth7"])
def test_the_way_back_to_this_machine_is_taken_only_where_all_peers_are_on_it(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    if chosen:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", chosen)
    found = []
    monkeypatch.setattr(
        dist, "init_process_group", lambda *args, **options: found.append(os.environ.get("GLOO_SOCKET_IFNAME"))
    )
    for host in (LOOPBACK, "10.0.0.1"):
        PeerGroup(Rendezvous(host, 0, 1), 0, timeout_s=60, device=CPU, store=Everybody())
    assert found == ([chosen, chosen] if chosen else ["lo", None])


class Everybody:
    """A place to meet at which all have come."""

    def set(self, key: str, value: str) -> None: ...

    def wait(self, keys: list[str], timeout: Any) -> None: ...


def test_a_meeting_listens_on_the_address_of_its_host_alone() -> None:
    meeting, store = open_rendezvous("127.0.0.2", 1)
    store.set("key", "value")
    with socket.create_connection((meeting.host, meeting.port), timeout=5):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", meeting.port), timeout=5)
