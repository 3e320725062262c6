"""`Staging`: copies batches to an accelerator while it computes.

There was no accelerator to run this on: it is tested with stand-ins for devices and streams.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from threading import Lock
from typing import Final, Protocol, TypeVar

import numpy as np
import torch

from recollect.agent.storages.experience.sampling.tensor_pool import host_tensor

Name = TypeVar("Name", bound=Hashable)

# Devices with streams that copy from pinned memory beside other work.
_STREAMING: Final = ("cuda", "xpu")


class Arrival(Protocol):
    """What says whether copies have arrived."""

    def query(self) -> bool:
        """Whether they have, without waiting for it."""
        ...


class SideStream:
    """A stream of a device beside the one that computes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.Stream(device)

    def make_tensor(self, shape: tuple[int, ...], dtype: np.dtype) -> torch.Tensor:
        """A tensor in pinned memory, which the device reads without the processor."""
        return torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype, pin_memory=True)

    def copy(self, tensors: Iterable[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor], Arrival]:
        """Start to copy tensors; what is computed next waits for them, on the device.

        Returns
        -------
        sources : list of Tensor
            Pinned tensors that must not change until the copies have arrived.
        copies : list of Tensor
            On the device.
        arrival : Arrival
            Says whether they have.
        """
        sources = [tensor if tensor.is_pinned() else tensor.pin_memory() for tensor in tensors]
        computing = torch.accelerator.current_stream(self._device)
        with self._stream:
            copies = [source.to(self._device, non_blocking=True) for source in sources]
        arrival = self._stream.record_event()
        computing.wait_event(arrival)
        for each in copies:
            # They belong to the side stream, which must not reuse their memory while the other one computes.
            each.record_stream(computing)
        return sources, copies, arrival


def side_stream_of(device: torch.device) -> SideStream | None:
    """A side stream of a device that has such; None of others."""
    return SideStream(device) if device.type in _STREAMING else None


class Staging:
    """Hands batches over to a device; the processor waits for nothing, and prepares the next batch meanwhile.

    Batches are gathered into pinned tensors. Those that are on their way are kept here, so that no other batch is
    gathered into them: the pool reuses only what nobody refers to (ADR 0011). Dtypes stay, so that bytes are bytes on
    the wire, and frames that two stacks share travel once.

    Parameters
    ----------
    device : torch.device
        Where batches go; to the CPU they go as they are.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = side_stream_of(device)
        self._is_here = device.type == "cpu"
        self._lock = Lock()
        self._under_way: deque[tuple[Arrival, list[torch.Tensor]]] = deque()

    def make_tensor(self, shape: tuple[int, ...], dtype: np.dtype) -> torch.Tensor:
        """A tensor to gather a batch into."""
        return host_tensor(shape, dtype) if self._side is None else self._side.make_tensor(shape, dtype)

    def send(self, batch: dict[Name, torch.Tensor]) -> dict[Name, torch.Tensor]:
        """The tensors of a batch on the device."""
        if self._is_here:
            return batch
        wholes = {id(whole): whole for whole in map(_whole, batch.values())}
        copies = dict(zip(wholes, self._copy(list(wholes.values())), strict=True))
        return {name: _part_of(copies[id(_whole(tensor))], tensor) for name, tensor in batch.items()}

    def _copy(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._side is None:
            return [tensor.to(self._device) for tensor in tensors]
        with self._lock:
            while self._under_way and self._under_way[0][0].query():
                self._under_way.popleft()
            sources, copies, arrival = self._side.copy(tensors)
            self._under_way.append((arrival, sources))
        return copies


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor is a view of, or itself."""
    return tensor if tensor._base is None else tensor._base


def _part_of(copy: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The view of a copy that a tensor is of the original."""
    return copy if tensor._base is None else copy.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
