"""Builds the vector envs of each kind."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from recollect import keys
from recollect.agent.envs.catalog import make_native, make_pool
from recollect.agent.envs.failures import FaultTolerantEnv
from recollect.agent.envs.masks import MaskedEnv
from recollect.agent.envs.step import VectorEnv
from recollect.agent.envs.vectors.envpool_vector import EnvPoolVector
from recollect.agent.envs.vectors.native_vector import FaultTolerantVector
from recollect.agent.envs.vectors.processes import WatchedVector
from recollect.errors import ConfigError

if TYPE_CHECKING:
    from recollect.agent.envs.factory import VecEnvFactory

_ANSWER_WITHIN_S: Final = 5.0

EnvBuilder = Callable[[], gym.Env[Any, Any]]
VectorBuilder = Callable[["VecEnvFactory", list[int], bool], VectorEnv]
"""Called with what the envs are made from, a seed for each of them, and whether they are for training."""


@dataclass(frozen=True)
class _InSubprocess:
    """Makes an env. In a subprocess, signals that end a run are left to the parent, which then closes all in order.

    Terminals and schedulers send them to all processes of a run, and the parent may want to finish a step.
    """

    build: EnvBuilder
    parent_id: int

    def __call__(self) -> gym.Env[Any, Any]:
        if os.getpid() != self.parent_id:
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            threading.Thread(target=_end_with_parent, daemon=True).start()
            threading.Thread(target=_follow_parent, args=(self.parent_id,), daemon=True).start()
        return self.build()


def _follow_parent(parent_id: int) -> None:
    """End this process when its parent sends SIGTERM, as `multiprocessing` does at exit; that of others is ignored."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent_id:
        pass
    os._exit(1)


def _end_with_parent() -> None:
    """End this process once its parent has ended, whatever the env is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def build_sync(factory: "VecEnvFactory", seeds: list[int], is_training: bool) -> VectorEnv:
    """Envs that take turns in this process."""
    builders = _tolerant(factory, len(seeds), is_training)
    return SyncVectorEnv(builders, copy=False, autoreset_mode=factory.autoreset_mode or AutoresetMode.NEXT_STEP)


def build_async(factory: "VecEnvFactory", seeds: list[int], is_training: bool) -> VectorEnv:
    """Envs that run side by side, each in a process of its own."""
    builders = [_InSubprocess(build, os.getpid()) for build in _tolerant(factory, len(seeds), is_training)]
    mode = factory.autoreset_mode or AutoresetMode.NEXT_STEP
    return WatchedVector(builders, mode, factory.max_consecutive_failures, factory.env_timeout_s)


def build_native(factory: "VecEnvFactory", seeds: list[int], is_training: bool) -> VectorEnv:
    """A vector env of its own making."""
    build = partial(factory.build_by(partial(make_native, is_training=is_training)), num_envs=len(seeds))
    return FaultTolerantVector(build, factory.autoreset_mode, factory.max_consecutive_failures)


def build_envpool(factory: "VecEnvFactory", seeds: list[int], is_training: bool) -> VectorEnv:
    """Envs in C++ threads."""
    mode = factory.autoreset_mode
    if mode not in (None, AutoresetMode.DISABLED):
        raise ConfigError(f"envs of EnvPool are reset at once, got autoreset_mode={mode}; leave it out")
    build = partial(EnvPoolVector, factory.build_by(partial(make_pool, is_training=is_training)), seeds)
    return FaultTolerantVector(build, None, factory.max_consecutive_failures)


BUILDERS: Final[dict[str, VectorBuilder]] = {
    keys.SYNC: build_sync,
    keys.ASYNC: build_async,
    keys.NATIVE: build_native,
    keys.ENVPOOL: build_envpool,
}


def _tolerant(factory: "VecEnvFactory", num_envs: int, is_training: bool) -> list[EnvBuilder]:
    build = partial(FaultTolerantEnv, factory.build_one(is_training), factory.max_consecutive_failures)
    return [partial(MaskedEnv, build, index) if factory.gives_masks else build for index in range(num_envs)]


def close_vector(vector: VectorEnv) -> None:
    """Close a vector env; processes that do not answer are ended."""
    if not isinstance(vector, AsyncVectorEnv):
        vector.close()
        return
    # Gymnasium would wait for them, or send SIGTERM, which one that holds the interpreter does not receive.
    deadline = threading.Timer(_ANSWER_WITHIN_S, _kill, (vector,))
    deadline.start()
    try:
        vector.close()
    except (EOFError, OSError):
        _kill(vector)
        for process, pipe in zip(vector.processes, vector.parent_pipes, strict=True):
            process.join()
            pipe.close()
        vector.closed = True
    finally:
        deadline.cancel()


def _kill(vector: AsyncVectorEnv) -> None:
    for process in vector.processes:
        process.kill()
