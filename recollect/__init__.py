"""Recollect: modular deep reinforcement learning around its experience memory.

The names below, and those of the algorithms, are loaded when they are first used: `import recollect` is quick.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recollect.agent.registry import ALGORITHM_MODULES, STORAGE_MODULES, checked_imports

if TYPE_CHECKING:
    from recollect.agent.actors import OffPolicyActor as OffPolicyActor
    from recollect.agent.actors import OnPolicyActor as OnPolicyActor
    from recollect.agent.algorithms.classes import *  # noqa: F403  # the one list of algorithms
    from recollect.agent.envs import VecEnv as VecEnv
    from recollect.agent.envs import make_env as make_env
    from recollect.agent.registry import register as register
    from recollect.agent.storages.classes import *  # noqa: F403  # the one list of storages
    from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage as NStepReplayStorage
    from recollect.agent.storages.snapshots import load_storage as load_storage
    from recollect.agent.storages.snapshots import save_storage as save_storage
    from recollect.api import Agent as Agent
    from recollect.callbacks import Callback as Callback
    from recollect.callbacks import KeepBest as KeepBest
    from recollect.callbacks import RecordVideo as RecordVideo
    from recollect.callbacks import SaveEvery as SaveEvery
    from recollect.callbacks import Schedule as Schedule
    from recollect.callbacks import StopAt as StopAt
    from recollect.callbacks import StopWithoutImprovement as StopWithoutImprovement
    from recollect.data.sources import load_minari as load_minari
    from recollect.data.sources import save_minari as save_minari
    from recollect.export.loading import load_policy as load_policy
    from recollect.learner import Learner as Learner
    from recollect.runs.writers import MLflowWriter as MLflowWriter
    from recollect.runs.writers import WandbWriter as WandbWriter
    from recollect.scheme import Scheme as Scheme

__version__ = "0.1.0"
_MODULES: Final = checked_imports(Path(__file__)) | ALGORITHM_MODULES | STORAGE_MODULES
__all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
