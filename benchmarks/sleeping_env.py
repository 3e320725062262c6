"""An environment that takes its time; it needs Gymnasium alone, so that any library can act in it."""

import time
from typing import Any

import gymnasium as gym
import numpy as np

EPISODE = 200


class SleepingEnv(gym.Env[np.ndarray, int]):
    """An env whose step takes a given time and does nothing else."""

    def __init__(self, sleep_s: float = 0.0, obs_size: int = 8) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (obs_size,), np.float32)
        self.action_space = gym.spaces.Discrete(2)  # type: ignore[assignment]
        self._sleep_s = sleep_s
        self._obs_size = obs_size
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
        return np.full(self._obs_size, self._time / EPISODE, np.float32)
