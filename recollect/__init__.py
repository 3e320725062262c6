"""Recollect: modular deep reinforcement learning around its experience memory.

The names below are loaded when they are first used, so that `import recollect` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from recollect.agent.actors import OffPolicyActor as OffPolicyActor
    from recollect.agent.actors import OnPolicyActor as OnPolicyActor
    from recollect.agent.algorithms.off_policy.ddpg import DDPG as DDPG
    from recollect.agent.algorithms.off_policy.ddqn import DDQN as DDQN
    from recollect.agent.algorithms.off_policy.mpo import MPO as MPO
    from recollect.agent.algorithms.off_policy.sac import SAC as SAC
    from recollect.agent.algorithms.off_policy.sac_discrete import SACDiscrete as SACDiscrete
    from recollect.agent.algorithms.off_policy.td3 import TD3 as TD3
    from recollect.agent.algorithms.on_policy.ppo import PPO as PPO
    from recollect.agent.envs import VecEnv as VecEnv
    from recollect.agent.envs import make_env as make_env
    from recollect.agent.storages import EREBuffer as EREBuffer
    from recollect.agent.storages import GAEBuffer as GAEBuffer
    from recollect.agent.storages import HERBuffer as HERBuffer
    from recollect.agent.storages import NStepReplayBuffer as NStepReplayBuffer
    from recollect.agent.storages import PERBuffer as PERBuffer
    from recollect.agent.storages import ReplayBuffer as ReplayBuffer
    from recollect.agent.storages import VTraceBuffer as VTraceBuffer
    from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage as NStepReplayStorage
    from recollect.agent.storages.snapshots import load_storage as load_storage
    from recollect.agent.storages.snapshots import save_storage as save_storage
    from recollect.api import Agent as Agent
    from recollect.learner import Learner as Learner
    from recollect.scheme import Scheme as Scheme

__version__ = "0.1.0"
_ALGORITHMS: Final = "recollect.agent.algorithms"
_STORAGES: Final = "recollect.agent.storages"
_NAMES: Final = {
    "recollect.agent.actors": ("OffPolicyActor", "OnPolicyActor"),
    "recollect.agent.envs": ("VecEnv", "make_env"),
    "recollect.api": ("Agent",),
    "recollect.learner": ("Learner",),
    "recollect.scheme": ("Scheme",),
    f"{_ALGORITHMS}.off_policy.ddpg": ("DDPG",),
    f"{_ALGORITHMS}.off_policy.ddqn": ("DDQN",),
    f"{_ALGORITHMS}.off_policy.mpo": ("MPO",),
    f"{_ALGORITHMS}.off_policy.sac": ("SAC",),
    f"{_ALGORITHMS}.off_policy.sac_discrete": ("SACDiscrete",),
    f"{_ALGORITHMS}.off_policy.td3": ("TD3",),
    f"{_ALGORITHMS}.on_policy.ppo": ("PPO",),
    _STORAGES: (
        "EREBuffer",
        "GAEBuffer",
        "HERBuffer",
        "NStepReplayBuffer",
        "PERBuffer",
        "ReplayBuffer",
        "VTraceBuffer",
    ),
    f"{_STORAGES}.off_policy.nstep_replay_storage": ("NStepReplayStorage",),
    f"{_STORAGES}.snapshots": ("load_storage", "save_storage"),
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}
__all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
