"""Builds the vector envs of each kind."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from recollect import keys
from recollect.agent.envs.catalog import make_native, make_pool, make_test_env, make_training_env
from recollect.agent.envs.envpool_vector import EnvPoolVector
from recollect.agent.envs.failures import FaultTolerantEnv
from recollect.agent.envs.native_vector import FaultTolerantVector
from recollect.agent.envs.step import VectorEnv
from recollect.errors import ConfigError
from recollect.roles import EnvFunction

_ANSWER_WITHIN_S: Final = 5.0

EnvBuilder = Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True)
class VectorPlan:
    """What a vector env is made from.

    Attributes
    ----------
    env_fn : callable or str
        Makes one env from `env_kwargs`; for native envs and EnvPool it makes the vector env from
        `env_kwargs` and `num_envs` (and `seed`, for EnvPool). Or an id.
    env_kwargs : mapping
        Options of the env.
    num_envs : int
        How many envs.
    autoreset_mode : AutoresetMode or None
        How it begins new episodes; None is the kind's own way.
    max_consecutive_failures : int
        One more without a good step in between is an `EnvError`.
    is_training : bool
        Whether the envs are for training and not for tests.
    """

    env_fn: EnvFunction | str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    num_envs: int = 1
    autoreset_mode: AutoresetMode | None = None
    max_consecutive_failures: int = 5
    is_training: bool = True

    @property
    def build_one(self) -> partial[Any]:
        """What makes one env."""
        return self.build_by(make_training_env if self.is_training else make_test_env)

    def build_by(self, make: EnvFunction) -> partial[Any]:
        """What makes the env (or vector env): `make` from an id, or the caller's own function."""
        if isinstance(self.env_fn, str):
            return partial(make, self.env_fn, **self.env_kwargs)
        return partial(self.env_fn, **self.env_kwargs)


@dataclass(frozen=True)
class _InSubprocess:
    """Makes an env. In a subprocess, Ctrl-C is left to the parent, which then closes all in order."""

    build: EnvBuilder
    parent_id: int

    def __call__(self) -> gym.Env[Any, Any]:
        if os.getpid() != self.parent_id:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return self.build()


def build_sync(plan: VectorPlan, seeds: list[int]) -> VectorEnv:
    """Envs that take turns in this process."""
    mode = plan.autoreset_mode or AutoresetMode.NEXT_STEP
    return SyncVectorEnv(_tolerant_builders(plan), copy=False, autoreset_mode=mode)


def build_async(plan: VectorPlan, seeds: list[int]) -> VectorEnv:
    """Envs that run side by side, each in a process of its own."""
    builders = [_InSubprocess(build, os.getpid()) for build in _tolerant_builders(plan)]
    return AsyncVectorEnv(builders, copy=False, autoreset_mode=plan.autoreset_mode or AutoresetMode.NEXT_STEP)


def build_native(plan: VectorPlan, seeds: list[int]) -> VectorEnv:
    """A vector env of its own making."""
    build = partial(plan.build_by(partial(make_native, is_training=plan.is_training)), num_envs=plan.num_envs)
    return FaultTolerantVector(build, plan.autoreset_mode, plan.max_consecutive_failures)


def build_envpool(plan: VectorPlan, seeds: list[int]) -> VectorEnv:
    """Envs in C++ threads."""
    if plan.autoreset_mode not in (None, AutoresetMode.DISABLED):
        raise ConfigError(f"envs of EnvPool are reset at once, got autoreset_mode={plan.autoreset_mode}; leave it out")
    make = partial(make_pool, is_training=plan.is_training)
    build = partial(EnvPoolVector, plan.build_by(make), seeds)
    return FaultTolerantVector(build, None, plan.max_consecutive_failures)


BUILDERS: Final[dict[str, Callable[[VectorPlan, list[int]], VectorEnv]]] = {
    keys.SYNC: build_sync,
    keys.ASYNC: build_async,
    keys.NATIVE: build_native,
    keys.ENVPOOL: build_envpool,
}


def close_vector(vector: VectorEnv) -> None:
    """Close a vector env; processes that do not answer are ended."""
    if not isinstance(vector, AsyncVectorEnv):
        vector.close()
        return
    try:
        vector.close(timeout=_ANSWER_WITHIN_S)
    except (EOFError, OSError):
        vector.close(terminate=True)


def env_fns_of(kind: str, plan: VectorPlan) -> list[EnvBuilder]:
    """What makes each single env; none where there are no single envs."""
    return [plan.build_one] * plan.num_envs if kind in (keys.SYNC, keys.ASYNC) else []


def _tolerant_builders(plan: VectorPlan) -> list[EnvBuilder]:
    return [partial(FaultTolerantEnv, plan.build_one, plan.max_consecutive_failures)] * plan.num_envs
