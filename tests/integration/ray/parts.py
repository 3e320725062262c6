"""Small agents for workers on Ray, and environments that hang or raise where a file says so."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.envs import VecEnv
from recollect.agent.storages import STORAGES
from recollect.scheme.collection.c_worker_set import CWorkerSet, CWorkerSetFactory


class TellTaleEnv(gym.Env[np.ndarray, int]):
    """Its observation tells the process, the episode and the step; files can make it hang or raise.

    Parameters
    ----------
    folder : str
        Where the files `hang` and `raise` are looked for. They are obeyed by the process whose id is their content,
        or by all if they are empty.
    step_s : float
        Seconds that a step takes.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, folder: str = "", step_s: float = 0.0) -> None:
        self._folder = Path(folder) if folder else None
        self._step_s = step_s
        self._episode = -1
        self._time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode += 1
        self._time = 0
        self._length = int(self.np_random.integers(3, 30))
        return self._obs(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._is_told("raise"):
            raise ValueError("the file told me to raise")
        while self._is_told("hang"):
            time.sleep(0.02)
        time.sleep(self._step_s)
        self._time += 1
        ended = self._time >= self._length
        return self._obs(), float(self._time), ended and self._episode % 2 == 0, ended and self._episode % 2 == 1, {}

    def _is_told(self, name: str) -> bool:
        if self._folder is None:
            return False
        file = self._folder / name
        return file.exists() and file.read_text() in ("", str(os.getpid()))

    def _obs(self) -> np.ndarray:
        return np.array([os.getpid(), self._episode, self._time], np.float64)


class ImageEnv(gym.Env[np.ndarray, int]):
    """Its observations are large, and each differs from the others."""

    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self._obs(), 1.0, False, self._time == 7, {}

    def _obs(self) -> np.ndarray:
        return np.full((64, 64, 3), self.np_random.integers(256), np.uint8)


ENVS = {"ddqn": "CartPole-v1", "sac": "Pendulum-v1", "ppo": "CartPole-v1"}


def make_factory(
    num_workers: int,
    algo: str = "ddqn",
    storage: str = "replay",
    *,
    env: Any = None,
    env_kwargs: dict[str, Any] | None = None,
    num_envs: int = 2,
    size: int = 3000,
    numbers: dict[str, Any] | None = None,
    actor_options: dict[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
    **options: Any,
) -> CWorkerSetFactory:
    """Workers with tiny networks; `numbers` are options of the algorithm, `options` those of the set."""
    algorithm = ALGORITHMS.find(algo)
    given: dict[str, Any] = {"update_every": 10, "num_mini_batch": 2, **(numbers or {})}
    if not algorithm.is_on_policy:
        given = {"mini_batch_size": 8, "start_steps": 30, **given}
    envs, action_space, obs_space = VecEnv.create_factory(env or ENVS[algo], env_kwargs, num_envs, seed=1)
    actor_class = OnPolicyActor if algorithm.is_on_policy else OffPolicyActor
    shape = {"seed": 2, "hidden_sizes": (8,), **(actor_options or {})}
    actor = actor_class.create_factory(obs_space, action_space, algorithm, **shape)
    memory = STORAGES[storage].create_factory(size, seed=3, **(storage_options or {}))  # type: ignore[call-arg]
    return CWorkerSet.create_factory(
        num_workers,
        algorithm.create_factory(**given),
        actor,
        memory,
        None,
        envs,
        col_worker_resources=options.pop("col_worker_resources", {"num_cpus": 0.5}),
        **options,
    )


def make_set(num_workers: int, *args: Any, **options: Any) -> CWorkerSet:
    return make_factory(num_workers, *args, **options)("cpu")


def learn(worker: Any) -> list[Any]:
    """One update stage; returns its batches."""
    algo, storage = worker.algo, worker.storage
    if worker.num_steps < algo.start_steps:
        return []
    storage.before_gradients()
    batches = []
    for batch in storage.generate_batches(algo.num_mini_batch, algo.mini_batch_size, algo.num_epochs):
        batches.append({key: value.clone() for key, value in batch.items() if isinstance(value, torch.Tensor)})
        _, info = algo.compute_gradients(batch)
        algo.apply_gradients()
        storage.after_gradients(batch, info)
        worker.counts.actor_version += 1
    return batches
