"""Environments that take their time, so that two cores can hold many workers, and what is needed to act in them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from recollect.agent.envs import VecEnv
from recollect.agent.storages import ReplayBuffer

EPISODE = 200


class SleepingEnv(gym.Env[np.ndarray, int]):
    """An env whose step takes a given time and does nothing else."""

    def __init__(self, sleep_s: float = 0.0, obs_size: int = 8) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (obs_size,), np.float32)
        self.action_space = gym.spaces.Discrete(2)  # type: ignore[assignment]
        self._sleep_s = sleep_s
        self._time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self._sleep_s)
        self._time += 1
        return self._obs(), 1.0, False, self._time == EPISODE, {}

    def _obs(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self._time / EPISODE, np.float32)


@dataclass(frozen=True)
class OneIsSlow:
    """Makes the envs of all workers alike, but for those of worker 0, which are slower."""

    usual: Callable[..., Any]
    slow: Callable[..., Any]

    def __call__(self, device: Any, index_worker: int = 0, index_parent: int = 0, mode: str = "train") -> Any:
        factory = self.slow if index_worker == 0 else self.usual
        return factory(device, index_worker, index_parent, mode)


def make_parts(sleep_s: float, update_every: int, *, slow_factor: float = 1.0, obs_size: int = 8) -> dict[str, Any]:
    """Factories of a small agent in such envs, as `CWorkerSet` takes them."""
    options = {"sleep_s": sleep_s, "obs_size": obs_size}
    envs, action_space, obs_space = VecEnv.create_factory(SleepingEnv, options, seed=1)
    slow, _, _ = VecEnv.create_factory(SleepingEnv, {**options, "sleep_s": slow_factor * sleep_s}, seed=1)
    return {
        "algo_factory": DDQN.create_factory(update_every=update_every, start_steps=0, epsilon_steps=1),
        "actor_factory": OffPolicyActor.create_factory(obs_space, action_space, DDQN, seed=1, hidden_sizes=(16,)),
        "storage_factory": ReplayBuffer.create_factory(20_000, seed=1),
        "train_envs_factory": envs if slow_factor == 1.0 else OneIsSlow(envs, slow),
    }
