"""Peers that meet nobody: what stands for their group is as a test says."""

from typing import Any

import pytest

from recollect.scheme.base.engine import LOOPBACK
from recollect.scheme.updates import all_reduce
from recollect.scheme.updates.all_reduce import PeerWorker
from recollect.scheme.updates.peer_group import Rendezvous


def join(peer: PeerWorker, group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a peer join a group."""
    monkeypatch.setattr(all_reduce, "PeerGroup", lambda *place, **options: group)
    assert peer.join(Rendezvous(LOOPBACK, 0, 1), 0, 60.0) is None
