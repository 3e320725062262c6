"""`PeerGroup`: processes that all-reduce rows of numbers, by `torch.distributed`."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from recollect.errors import WorkerError
from recollect.scheme.base.engine import LOOPBACK

_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
_PRESENT: Final = "present-"
# Peers have been built when they are asked to join: they come at once, or not at all.
_JOIN_TIMEOUT: Final = timedelta(seconds=60)


class PeerLostError(WorkerError):
    """A peer did not take part: it died, or left the group."""


class Rendezvous(NamedTuple):
    """Where the peers of a group find each other."""

    host: str
    port: int
    num_peers: int


class PeerGroup:
    """One process of a group.

    Parameters
    ----------
    rendezvous : Rendezvous
        Where the peers find each other.
    rank : int
        Which of them this one is.
    timeout_s : float
        Seconds after which a peer that does not take part counts as lost.
    device : torch.device
        Where numbers are added up: they travel by gloo from the memory of the CPU, by NCCL from that of GPUs.
    store : torch.distributed.TCPStore, optional
        The rendezvous store itself, in the peer that has opened it.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        rank: int,
        *,
        timeout_s: float,
        device: torch.device,
        store: TCPStore | None = None,
    ) -> None:
        backend = "nccl" if device.type == "cuda" else "gloo"
        try:
            store = store or TCPStore(rendezvous.host, rendezvous.port, is_master=False, timeout=_JOIN_TIMEOUT)
            _wait_for_all(store, rendezvous, rank)
            timeout = timedelta(seconds=timeout_s)
            with _interface_for(rendezvous):
                dist.init_process_group(
                    backend, store=store, rank=rank, world_size=rendezvous.num_peers, timeout=timeout
                )
        except RuntimeError as error:
            raise PeerLostError(f"the peers did not all come together: {error}") from error
        self._device = device

    def sum(self, row: torch.Tensor) -> torch.Tensor:
        """Sum of the rows of all peers; every one of them has to call it."""
        row = row.to(self._device)
        try:
            dist.all_reduce(row)
        except RuntimeError as error:
            raise PeerLostError(f"gradients cannot be averaged, a peer is lost: {error}") from error
        return row.cpu()

    def leave(self) -> None:
        """Leave the group, whole or not."""
        dist.destroy_process_group()


def open_rendezvous(host: str, num_peers: int) -> tuple[Rendezvous, TCPStore]:
    """Open a rendezvous on this machine; returns it and the store that keeps it open.

    By itself a store listens on all addresses, so that it gets a socket that listens on this one alone.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    port = listener.getsockname()[1]
    store = TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    return Rendezvous(host, port, num_peers), store


def _wait_for_all(store: TCPStore, rendezvous: Rendezvous, rank: int) -> None:
    """Wait until every peer has come; one that was lost on the way is missed soon."""
    store.set(f"{_PRESENT}{rank}", "")
    store.wait([f"{_PRESENT}{peer}" for peer in range(rendezvous.num_peers)], _JOIN_TIMEOUT)


@contextmanager
def _interface_for(rendezvous: Rendezvous) -> Iterator[None]:
    """Have gloo use the interface that leads back to this machine, if all peers are on it; a user's choice stands.

    The next rendezvous may be with peers on other machines, so that the choice is for this one alone.
    """
    if rendezvous.host != LOOPBACK or _INTERFACE in os.environ:
        yield
        return
    os.environ[_INTERFACE] = _loopback_interface()
    try:
        yield
    finally:
        del os.environ[_INTERFACE]


def _loopback_interface() -> str:
    """Name of the network interface that leads back to this machine, `lo` on most."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")
