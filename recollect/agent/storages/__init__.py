"""Storages: where experience is kept and batches come from."""

from typing import Final

from recollect.agent.storages.base import Storage, StorageFactory
from recollect.agent.storages.off_policy import (
    EREBuffer,
    HERBuffer,
    NStepReplayBuffer,
    PERBuffer,
    ReplayBuffer,
)

# Classes with the constructor of `Storage`. `NStepReplayStorage` is made from spaces instead, and is imported
# from its own module, because it loads Gymnasium.
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
    "NStepReplayBuffer",
    "PERBuffer",
    "ReplayBuffer",
    "Storage",
    "StorageFactory",
]
