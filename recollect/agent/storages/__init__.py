"""Storages: where experience is kept and batches come from."""

from typing import Final

from recollect.agent.storages.base import Storage, StorageFactory
from recollect.agent.storages.off_policy import EREBuffer, HERBuffer, NStepReplayBuffer, PERBuffer, ReplayBuffer
from recollect.agent.storages.on_policy import GAEBuffer, VTraceBuffer

# Classes with the constructor of `Storage`. `NStepReplayStorage` is made from spaces instead, and is imported
# from its own module, because it loads Gymnasium.
OFF_POLICY_STORAGES: Final[dict[str, type[ReplayBuffer]]] = {
    "replay": ReplayBuffer,
    "nstep": NStepReplayBuffer,
    "per": PERBuffer,
    "ere": EREBuffer,
    "her": HERBuffer,
}
ON_POLICY_STORAGES: Final[dict[str, type[GAEBuffer | VTraceBuffer]]] = {
    "gae": GAEBuffer,
    "vtrace": VTraceBuffer,
}
STORAGES: Final[dict[str, type[Storage]]] = {**OFF_POLICY_STORAGES, **ON_POLICY_STORAGES}

__all__ = [
    "OFF_POLICY_STORAGES",
    "ON_POLICY_STORAGES",
    "STORAGES",
    "EREBuffer",
    "GAEBuffer",
    "HERBuffer",
    "NStepReplayBuffer",
    "PERBuffer",
    "ReplayBuffer",
    "Storage",
    "StorageFactory",
    "VTraceBuffer",
]
