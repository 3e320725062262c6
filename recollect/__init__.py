"""Recollect: modular deep reinforcement learning around the best experience memory.

The names below are loaded when they are first used, so that `import recollect` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.agent.storages import EREBuffer as EREBuffer
    from recollect.agent.storages import HERBuffer as HERBuffer
    from recollect.agent.storages import NStepReplayBuffer as NStepReplayBuffer
    from recollect.agent.storages import NStepReplayStorage as NStepReplayStorage
    from recollect.agent.storages import PERBuffer as PERBuffer
    from recollect.agent.storages import ReplayBuffer as ReplayBuffer

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


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("recollect.agent.storages"), name)
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")
