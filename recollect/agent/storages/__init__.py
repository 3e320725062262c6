"""Storages: where experience is kept and batches come from."""

from typing import Final

from recollect.agent.registry import STORAGES as STORAGES
from recollect.agent.storages.base import Storage as Storage
from recollect.agent.storages.base import StorageFactory as StorageFactory
from recollect.agent.storages.off_policy.ere_buffer import EREBuffer as EREBuffer
from recollect.agent.storages.off_policy.her_buffer import HERBuffer as HERBuffer
from recollect.agent.storages.off_policy.mixed_buffer import MixedBuffer as MixedBuffer
from recollect.agent.storages.off_policy.nstep_buffer import NStepReplayBuffer as NStepReplayBuffer
from recollect.agent.storages.off_policy.per_buffer import PERBuffer as PERBuffer
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer as ReplayBuffer
from recollect.agent.storages.on_policy.gae_buffer import GAEBuffer as GAEBuffer
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer
from recollect.agent.storages.on_policy.vtrace_buffer import VTraceBuffer as VTraceBuffer

_BUILT_IN: Final = {name: STORAGES[name] for name in STORAGES.built_in}
OFF_POLICY_STORAGES: Final = {name: cls for name, cls in _BUILT_IN.items() if issubclass(cls, ReplayBuffer)}
ON_POLICY_STORAGES: Final = {name: cls for name, cls in _BUILT_IN.items() if issubclass(cls, RolloutBuffer)}
