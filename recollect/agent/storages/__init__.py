"""Storages: where experience is kept and batches come from."""

from typing import Final

from recollect.agent.registry import Registry
from recollect.agent.storages.base import Storage as Storage
from recollect.agent.storages.base import StorageFactory as StorageFactory
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.agent.storages.off_policy.ere_buffer import EREBuffer as EREBuffer
from recollect.agent.storages.off_policy.her_buffer import HERBuffer as HERBuffer
from recollect.agent.storages.off_policy.nstep_buffer import NStepReplayBuffer as NStepReplayBuffer
from recollect.agent.storages.off_policy.per_buffer import PERBuffer as PERBuffer
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer as ReplayBuffer
from recollect.agent.storages.on_policy.gae_buffer import GAEBuffer as GAEBuffer
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer
from recollect.agent.storages.on_policy.vtrace_buffer import VTraceBuffer as VTraceBuffer

# The registry: all else that goes by a storage's name is read from here. `NStepReplayStorage` is made from spaces
# instead, and is imported from its own module, because it loads Gymnasium.
_PLACES: Final = {
    "replay": "off_policy.replay_buffer:ReplayBuffer",
    "nstep": "off_policy.nstep_buffer:NStepReplayBuffer",
    "per": "off_policy.per_buffer:PERBuffer",
    "ere": "off_policy.ere_buffer:EREBuffer",
    "her": "off_policy.her_buffer:HERBuffer",
    "gae": "on_policy.gae_buffer:GAEBuffer",
    "vtrace": "on_policy.vtrace_buffer:VTraceBuffer",
}
STORAGES: Final = Registry[type[BaseBuffer]](
    "storage", {name: f"{__name__}.{place}" for name, place in _PLACES.items()}
)
OFF_POLICY_STORAGES: Final = {name: cls for name, cls in STORAGES.items() if issubclass(cls, ReplayBuffer)}
ON_POLICY_STORAGES: Final = {name: cls for name, cls in STORAGES.items() if issubclass(cls, RolloutBuffer)}
