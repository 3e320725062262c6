"""Recollect: modular deep reinforcement learning around the best experience memory.

The names below are loaded when they are first used, so that `import recollect` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from recollect.agent.storages import EREBuffer as EREBuffer
    from recollect.agent.storages import HERBuffer as HERBuffer
    from recollect.agent.storages import NStepReplayBuffer as NStepReplayBuffer
    from recollect.agent.storages import PERBuffer as PERBuffer
    from recollect.agent.storages import ReplayBuffer as ReplayBuffer
    from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage as NStepReplayStorage

__version__ = "0.1.0"
__all__ = [
    "EREBuffer",
    "HERBuffer",
    "NStepReplayBuffer",
    "NStepReplayStorage",
    "PERBuffer",
    "ReplayBuffer",
    "__version__",
]


_MODULES: Final = {
    **dict.fromkeys(
        ("EREBuffer", "HERBuffer", "NStepReplayBuffer", "PERBuffer", "ReplayBuffer"), "recollect.agent.storages"
    ),
    "NStepReplayStorage": "recollect.agent.storages.off_policy.nstep_replay_storage",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")
