"""Stable-Baselines3: NumPy arrays in, tensors out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

from benchmarks import synthetic
from benchmarks.cartpole import Transitions
from benchmarks.peers.base import Adapter, UnsupportedError
from benchmarks.synthetic import Array, Chunk
from benchmarks.workloads import GAMMA, HER_RATIO, N_STEP, Store


class StableBaselines3(Adapter):
    """Frames are stored once (`optimize_memory_usage`), for which truncation must count as termination."""

    title = "SB3"
    distribution = "stable-baselines3"
    missing = {"per": "no prioritised replay", "ere": "no ERE", "sequence": "no off-policy sequences"}

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.buffer = _build(store)

    def fill(self) -> None:
        """Write the arrays in bulk: `add` would leave the same, a thousand times slower."""
        start = 0
        for chunk in synthetic.chunks(self.store):
            self._write(slice(start, start + chunk.num_steps), chunk)
            start += chunk.num_steps
        self.buffer.pos, self.buffer.full = 0, True

    def _write(self, part: slice, chunk: Chunk) -> None:
        buffer = self.buffer
        for target, source in self._columns(chunk):
            target[part] = source
        buffer.actions[part] = chunk.action.reshape(buffer.actions[part].shape)
        buffer.rewards[part], buffer.dones[part] = chunk.reward, chunk.done
        if buffer.handle_timeout_termination:
            buffer.timeouts[part] = chunk.truncated
        if isinstance(buffer, HerReplayBuffer):
            length = self.store.episode_length
            steps = np.arange(part.start, part.stop)[:, None]
            buffer.ep_start[part], buffer.ep_length[part] = steps // length * length, length

    def _columns(self, chunk: Chunk) -> list[tuple[Array, Array]]:
        buffer = self.buffer
        if isinstance(chunk.obs, dict):
            pairs = [(buffer.observations, chunk.obs), (buffer.next_observations, chunk.next_obs)]
            return [(columns[key], obs[key]) for columns, obs in pairs for key in obs]
        columns = [(buffer.observations, chunk.obs)]
        if not buffer.optimize_memory_usage:
            columns.append((buffer.next_observations, chunk.next_obs))
        return columns

    def prioritise(self) -> None:
        raise UnsupportedError(self.missing["per"])

    def sample(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size)

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        raise UnsupportedError(self.missing["per"])

    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        return [
            (
                chunk.obs[0],
                chunk.next_obs[0],
                chunk.action[0],
                chunk.reward[0],
                chunk.done[0],
                [{"TimeLimit.truncated": bool(flag)} for flag in chunk.truncated[0]],
            )
            for chunk in chunks
        ]

    def insert(self, step: Any) -> Any:
        return self.buffer.add(*step)

    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None:
        infos = [{"TimeLimit.truncated": bool(flag)} for flag in truncated]
        self.buffer.add(obs, next_obs, action, reward, terminated | truncated, infos)

    def transitions(self, batch: Any) -> Transitions:
        discount = GAMMA * (1 - batch.dones)
        return Transitions(batch.observations, batch.actions, batch.rewards, batch.next_observations, discount, None)

    def num_rows(self, batch: Any) -> int:
        return len(batch.rewards)


class _RewardEnv:
    """The one method of a vector environment that the hindsight buffer calls."""

    def env_method(self, name: str, *args: Any, indices: Any = None) -> list[Array]:
        return [synthetic.compute_reward(*args)]


def _box(*shape: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def _build(store: Store) -> Any:
    options: dict[str, Any] = {"device": "cpu", "n_envs": store.num_envs}
    if store.kind == "frames":
        shape = (synthetic.NUM_FRAMES, synthetic.FRAME_SIDE, synthetic.FRAME_SIDE)
        options |= {"optimize_memory_usage": True, "handle_timeout_termination": False}
        frames = spaces.Box(0, 255, shape, np.uint8)
        return ReplayBuffer(store.num_steps, frames, spaces.Discrete(6), **options)
    if store.kind == "her":
        goal = _box(synthetic.GOAL_SIZE)
        parts: dict[str, spaces.Space[Any]] = {
            "observation": _box(synthetic.GOAL_OBS_SIZE),
            "achieved_goal": goal,
            "desired_goal": goal,
        }
        options |= {"env": _RewardEnv(), "n_sampled_goal": HER_RATIO, "goal_selection_strategy": "future"}
        return HerReplayBuffer(store.num_steps, spaces.Dict(parts), _box(synthetic.GOAL_ACTION_SIZE), **options)
    if store.is_small:
        small = (_box(synthetic.SMALL_OBS_SIZE), spaces.Discrete(synthetic.NUM_SMALL_ACTIONS))
        return ReplayBuffer(store.num_steps, *small, **options)
    sizes = (_box(synthetic.OBS_SIZE), _box(synthetic.ACTION_SIZE))
    if store.kind == "nstep":
        return NStepReplayBuffer(store.num_steps, *sizes, n_steps=N_STEP, gamma=GAMMA, **options)
    return ReplayBuffer(store.num_steps, *sizes, **options)


ADAPTER = StableBaselines3
