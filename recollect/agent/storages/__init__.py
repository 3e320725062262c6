"""Storages: where experience is kept and batches come from."""

from typing import Final

from recollect.agent.storages.base import Storage, StorageFactory
from recollect.agent.storages.off_policy import (
    EREBuffer,
    HERBuffer,
    NStepReplayBatch,
    NStepReplayBuffer,
    NStepReplayStorage,
    PERBuffer,
    ReplayBuffer,
)

# Classes with the constructor of `Storage`; `NStepReplayStorage` is made from spaces instead.
STORAGES: Final[dict[str, type[ReplayBuffer]]] = {
    "replay": ReplayBuffer,
    "nstep": NStepReplayBuffer,
    "per": PERBuffer,
    "ere": EREBuffer,
    "her": HERBuffer,
}

__all__ = [
    "STORAGES",
    "EREBuffer",
    "HERBuffer",
    "NStepReplayBatch",
    "NStepReplayBuffer",
    "NStepReplayStorage",
    "PERBuffer",
    "ReplayBuffer",
    "Storage",
    "StorageFactory",
]
