"""The experience that every competitor stores: the same steps, generated from a fixed seed.

A chunk holds whole steps of all environments, `[time, num_envs, …]`. Within an episode the next
observation of a step is the observation of the following one, as in any environment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import Store

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Observation = Any
"""An array, or a dict of arrays."""
Pair = tuple[Observation, Observation]

OBS_SIZE, ACTION_SIZE = 17, 6
SMALL_OBS_SIZE, NUM_SMALL_ACTIONS = 4, 2
GOAL_OBS_SIZE, GOAL_SIZE, GOAL_ACTION_SIZE = 10, 3, 4
NUM_FRAMES, FRAME_SIDE = 4, 84
GOAL_THRESHOLD = 0.05
CHUNK_STEPS = 100_000
CHUNK_FRAMES = 2_000
SEED = 7


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Consecutive steps of all environments."""

    obs: Observation  # [time, num_envs, …]
    action: Array  # [time, num_envs, action]
    reward: NDArray[np.float32]  # [time, num_envs]
    next_obs: Observation  # [time, num_envs, …]
    terminated: Flags  # [time, num_envs]
    truncated: Flags  # [time, num_envs]

    @property
    def num_steps(self) -> int:
        """Time steps, each of all environments."""
        return len(self.reward)

    @property
    def done(self) -> Flags:
        return self.terminated | self.truncated

    def rows(self, start: int, stop: int) -> "Chunk":
        """Return the steps from `start` to `stop`, as views."""
        part = slice(start, stop)
        return Chunk(
            obs=map_obs(lambda x: x[part], self.obs),
            action=self.action[part],
            reward=self.reward[part],
            next_obs=map_obs(lambda x: x[part], self.next_obs),
            terminated=self.terminated[part],
            truncated=self.truncated[part],
        )

    def flat(self) -> "Chunk":
        """Return the steps without the axis of environments, environment after environment."""

        def merge(array: Array) -> Array:
            return np.ascontiguousarray(array.swapaxes(0, 1)).reshape(-1, *array.shape[2:])

        return Chunk(
            obs=map_obs(merge, self.obs),
            action=merge(self.action),
            reward=merge(self.reward),
            next_obs=map_obs(merge, self.next_obs),
            terminated=merge(self.terminated),
            truncated=merge(self.truncated),
        )


def map_obs(function: Callable[[Array], Array], obs: Observation) -> Observation:
    """Apply a function to an observation or to each of its parts."""
    if isinstance(obs, dict):
        return {key: function(part) for key, part in obs.items()}
    return function(obs)


def compute_reward(achieved: Array, desired: Array, info: object = None) -> NDArray[np.float32]:
    """Reward of a reaching task: 0 within the threshold of the goal, else −1."""
    distance = np.linalg.norm(achieved - desired, axis=-1)
    return -(distance > GOAL_THRESHOLD).astype(np.float32)


def chunks(store: Store) -> Iterator[Chunk]:
    """Generate the steps that fill a store, in chunks that end with episodes."""
    rng = np.random.default_rng(SEED)
    length = store.episode_length
    limit = CHUNK_FRAMES if store.kind == "frames" else CHUNK_STEPS
    episodes = max(1, limit // (length * store.num_envs))
    left = store.steps_per_env
    while left > 0:
        chunk = _chunk(store, rng, episodes)
        yield chunk if chunk.num_steps <= left else chunk.rows(0, left)
        left -= chunk.num_steps


def episodes(store: Store) -> Iterator[Chunk]:
    """Generate the steps that fill a store one episode after another, without the axis of environments."""
    for chunk in chunks(store):
        length = min(store.episode_length, chunk.num_steps)
        flat = chunk.flat()
        for start in range(0, flat.num_steps, length):
            yield flat.rows(start, start + length)


def step_cycle(store: Store, num_episodes: int = 10) -> list[Chunk]:
    """Generate single steps to insert one after another, over and over; they end with an episode."""
    chunk = _chunk(store, np.random.default_rng(SEED + 1), num_episodes)
    return [chunk.rows(t, t + 1) for t in range(chunk.num_steps)]


def _chunk(store: Store, rng: np.random.Generator, episodes: int) -> Chunk:
    flat = partial(_flat_observations, SMALL_OBS_SIZE if store.is_small else OBS_SIZE)
    observe = {"her": _goal_observations, "frames": _frame_observations}.get(store.kind, flat)
    length, envs = store.episode_length, store.num_envs
    obs, next_obs = observe(rng, episodes, length, envs)
    shape = (episodes * length, envs)
    terminated, truncated = _ends(episodes, length, envs, goals=store.kind == "her")
    if isinstance(next_obs, dict):
        reward = compute_reward(next_obs["achieved_goal"], next_obs["desired_goal"])
    else:
        reward = rng.standard_normal(shape, np.float32)
    action = _actions(store, rng, shape)
    return Chunk(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)


def _actions(store: Store, rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    if store.kind == "frames":
        return rng.integers(0, 6, (*shape, 1))
    if store.is_small:
        return rng.integers(0, NUM_SMALL_ACTIONS, shape)
    size = GOAL_ACTION_SIZE if store.kind == "her" else ACTION_SIZE
    return rng.standard_normal((*shape, size), np.float32)


def _ends(episodes: int, length: int, envs: int, *, goals: bool) -> tuple[Flags, Flags]:
    """Episodes end by truncation and termination in turn; goal tasks by truncation only."""
    terminated = np.zeros((episodes, length, envs), bool)
    truncated = np.zeros_like(terminated)
    truncated[:, -1] = True
    if not goals:
        terminated[::2, -1] = True
        truncated[::2, -1] = False
    return terminated.reshape(-1, envs), truncated.reshape(-1, envs)


def _windows(states: Array) -> tuple[Array, Array]:
    """Split `[episodes, length + 1, …]` into observations and next observations, time merged."""
    shape = (-1, *states.shape[2:])
    return states[:, :-1].reshape(shape), states[:, 1:].reshape(shape)


def _flat_observations(size: int, rng: np.random.Generator, episodes: int, length: int, envs: int) -> Pair:
    return _windows(rng.standard_normal((episodes, length + 1, envs, size), np.float32))


def _goal_observations(rng: np.random.Generator, episodes: int, length: int, envs: int) -> Pair:
    shape = (episodes, length + 1, envs)
    achieved = np.cumsum(rng.standard_normal((*shape, GOAL_SIZE), np.float32) * np.float32(0.03), axis=1)
    desired = np.repeat(rng.standard_normal((episodes, 1, envs, GOAL_SIZE), np.float32), length + 1, axis=1)
    parts = {
        "observation": rng.standard_normal((*shape, GOAL_OBS_SIZE), np.float32),
        "achieved_goal": achieved,
        "desired_goal": desired,
    }
    split = {key: _windows(part) for key, part in parts.items()}
    return {key: pair[0] for key, pair in split.items()}, {key: pair[1] for key, pair in split.items()}


def _frame_observations(rng: np.random.Generator, episodes: int, length: int, envs: int) -> Pair:
    """Stack four frames as Gymnasium's wrapper does: the first frame pads the first stacks."""
    frames = rng.integers(0, 256, (episodes, length + 1, envs, FRAME_SIDE, FRAME_SIDE), np.uint8)
    newest = np.arange(length + 1)[:, None]
    stacked = np.maximum(newest + np.arange(1 - NUM_FRAMES, 1), 0)  # [length + 1, depth]
    return _windows(np.moveaxis(frames[:, stacked], 2, 3))
