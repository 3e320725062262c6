"""Storages: where experience is kept and batches come from.

Configs and schemes import from here; `classes.py` lists what `STORAGES` knows by name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from recollect.agent.registry import STORAGE_MODULES
from recollect.agent.registry import STORAGES as STORAGES
from recollect.agent.storages.base import Storage as Storage
from recollect.agent.storages.base import StorageFactory as StorageFactory
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer as ReplayBuffer
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer

if TYPE_CHECKING:
    from recollect.agent.storages.classes import *  # noqa: F403

_BUILT_IN: Final = {name: STORAGES[name] for name in STORAGES.built_in}
OFF_POLICY_STORAGES: Final = {name: cls for name, cls in _BUILT_IN.items() if issubclass(cls, ReplayBuffer)}
ON_POLICY_STORAGES: Final = {name: cls for name, cls in _BUILT_IN.items() if issubclass(cls, RolloutBuffer)}


def __getattr__(name: str) -> Any:
    if name in STORAGE_MODULES:
        return getattr(import_module(STORAGE_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
