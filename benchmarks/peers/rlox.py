"""rlox: NumPy arrays in and out, Rust inside. All that it stores is float32."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import rlox
import torch
from numpy.typing import NDArray

from benchmarks import synthetic
from benchmarks.cartpole import Transitions
from benchmarks.peers.base import Adapter
from benchmarks.synthetic import Array, Chunk
from benchmarks.workloads import ALPHA, BETA, GAMMA, HER_RATIO, SEQUENCE_LENGTH, Store

HER_SHARE = HER_RATIO / (HER_RATIO + 1)


class Rlox(Adapter):
    """Only the plain buffer takes several steps at once; each draw is given a seed of its own."""

    title = "rlox"
    distribution = "rlox"
    missing = {"ere": "no ERE", "nstep": "no n-step buffer", "frames": "keeps float32 vectors, no frames"}

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.buffer = _build(store)
        self._seeds = count()

    def fill(self) -> None:
        for chunk in synthetic.chunks(self.store):
            if self.store.kind == "uniform":
                self.buffer.push_batch(*_columns(chunk))
            else:
                for step in self._rows(chunk):
                    self.buffer.push(*step)

    def prioritise(self) -> None:
        size = len(self.buffer)
        self.buffer.update_priorities(np.arange(size, dtype=np.uint64), np.random.default_rng(5).random(size))

    def sample(self, batch_size: int) -> Any:
        seed = next(self._seeds)
        if self.store.kind == "sequence":
            return self.buffer.sample_sequences(batch_size // SEQUENCE_LENGTH, SEQUENCE_LENGTH, seed)
        if self.store.kind == "her":
            return self.buffer.sample(batch_size, HER_SHARE, seed)
        return self.buffer.sample(batch_size, seed)

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        self.buffer.update_priorities(batch["indices"], errors.astype(np.float64))

    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        if self.store.kind == "uniform":
            return [_columns(chunk) for chunk in chunks]
        return [self._rows(chunk) for chunk in chunks]

    def insert(self, step: Any) -> Any:
        if self.store.kind == "uniform":
            return self.buffer.push_batch(*step)
        for row in step:
            self.buffer.push(*row)
        return None

    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None:
        numbers = float(reward[0]), bool(terminated[0]), bool(truncated[0])
        self.buffer.push(obs[0], action.astype(np.float32), *numbers, next_obs[0])

    def transitions(self, batch: Any) -> Transitions:
        obs, next_obs, reward = (torch.from_numpy(batch[key]) for key in ("obs", "next_obs", "rewards"))
        return Transitions(
            obs,
            torch.from_numpy(batch["actions"]).long().view(-1, 1),
            reward.view(-1, 1),
            next_obs,
            torch.from_numpy(GAMMA * (1 - batch["terminated"])).float().view(-1, 1),
            torch.from_numpy(batch["weights"]).view(-1, 1) if self.store.prioritised else None,
        )

    def num_rows(self, batch: Any) -> int:
        return int(batch["rewards"].size)

    def _rows(self, chunk: Chunk) -> list[tuple[Any, ...]]:
        """What `push` takes of each step; its buffers disagree about where the next observation stands."""
        obs, next_obs = _flat(chunk.obs), _flat(chunk.next_obs)
        action = chunk.action.reshape(len(obs), -1).astype(np.float32)
        reward, terminated, truncated = chunk.reward.ravel(), chunk.terminated.ravel(), chunk.truncated.ravel()
        numbers = zip(reward.tolist(), terminated.tolist(), truncated.tolist(), strict=True)
        if self.store.prioritised:
            return [(*row, *rest, after) for *row, rest, after in zip(obs, action, numbers, next_obs, strict=True)]
        return [(*row, *rest) for *row, rest in zip(obs, next_obs, action, numbers, strict=True)]


def _columns(chunk: Chunk) -> tuple[Array, ...]:
    """What `push_batch` takes of a chunk: everything flat."""
    flags = chunk.terminated.ravel().view(np.uint8), chunk.truncated.ravel().view(np.uint8)
    action = chunk.action.ravel().astype(np.float32)
    return chunk.obs.ravel(), chunk.next_obs.ravel(), action, chunk.reward.ravel(), *flags


def _flat(obs: Any) -> Array:
    """Observations `[rows, …]`; the parts of goal observations one after another."""
    if isinstance(obs, dict):
        parts = [obs[key] for key in ("observation", "achieved_goal", "desired_goal")]
        obs = np.concatenate(parts, axis=-1)
    return obs.reshape(-1, obs.shape[-1])


def _build(store: Store) -> Any:
    size = store.num_steps
    shape = (synthetic.SMALL_OBS_SIZE, 1) if store.is_small else (synthetic.OBS_SIZE, synthetic.ACTION_SIZE)
    match store.kind:
        case "per":
            return rlox.PrioritizedReplayBuffer(size, *shape, ALPHA, BETA)
        case "sequence":
            return rlox.SequenceReplayBuffer(size, *shape)
        case "her":
            goal, achieved = synthetic.GOAL_SIZE, synthetic.GOAL_OBS_SIZE
            sizes = (achieved + 2 * goal, synthetic.GOAL_ACTION_SIZE, goal, achieved, achieved + goal)
            return rlox.HERBuffer(size, *sizes, "future", HER_RATIO, synthetic.GOAL_THRESHOLD)
        case _:
            return rlox.ReplayBuffer(size, *shape)


ADAPTER = Rlox
