"""`EnvPoolVector`: EnvPool's envs as a Gymnasium vector env."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from recollect import keys
from recollect.agent.envs.step import put_rows
from recollect.roles import Observation


class EnvPoolVector(gym.vector.VectorEnv[Any, Any, Any]):
    """A pool of envs in C++ threads that can be reset one by one, by the option "reset_mask".

    EnvPool would spend the step after an end on the reset; asked in time, it does not.

    Parameters
    ----------
    make_pool : callable
        `make_pool(num_envs=..., seed=...)` with one seed for each env.
    seeds : sequence of int
        The first seeds. Pools are seeded when they are made, so a reset with other seeds makes a new one.
    """

    metadata = {keys.AUTORESET_MODE: AutoresetMode.DISABLED}

    def __init__(self, make_pool: Callable[..., Any], seeds: Sequence[int]) -> None:
        self.num_envs = len(seeds)
        self._make_pool = make_pool
        self._obs: Observation = None
        self._open(list(seeds))
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._seed(seed)
        mask = (options or {}).get(keys.RESET_MASK)
        if mask is None:
            self._obs, infos = self._pool.reset()
        else:
            first_obs, infos = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
            put_rows(self._obs, infos["env_id"], first_obs)
        return self._obs, infos

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._obs, reward, terminated, truncated, infos = self._pool.step(actions)
        return self._obs, reward, terminated, truncated, infos

    def render(self) -> Any:
        return self._pool.render()

    def close_extras(self, **kwargs: object) -> None:
        self._pool.close()

    def _open(self, seeds: list[int]) -> None:
        self._seeds = seeds
        self._pool = self._make_pool(num_envs=self.num_envs, seed=seeds)

    def _seed(self, seed: int | list[int | None] | None) -> None:
        if seed is None or seed == self._seeds:
            return
        self._pool.close()
        self._open([seed + env for env in range(self.num_envs)] if isinstance(seed, int) else [s or 0 for s in seed])
