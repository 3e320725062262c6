"""Recollect's buffers for Stable-Baselines3, sb3-contrib and SBX, and algorithms that use their weights.

Users import them; no other room does.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from recollect.errors import ConfigError
from recollect.extras import the_extra

if find_spec("stable_baselines3") is None:
    raise ConfigError(f"recollect.adapters.sb3 needs {the_extra('sb3')}")

from recollect.adapters.sb3 import algorithms
from recollect.adapters.sb3.algorithms import DQN, SAC, TD3
from recollect.adapters.sb3.buffers import EREBuffer, NStepBuffer, PERBuffer, ReplayBuffer
from recollect.adapters.sb3.her import HERBuffer

if TYPE_CHECKING:
    from recollect.adapters.sb3.algorithms import TQC

__all__ = ["DQN", "SAC", "TD3", "TQC", "EREBuffer", "HERBuffer", "NStepBuffer", "PERBuffer", "ReplayBuffer"]


def __getattr__(name: str) -> Any:
    if name == "TQC":
        # Only if it is asked for, because it needs sb3-contrib.
        return getattr(algorithms, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
