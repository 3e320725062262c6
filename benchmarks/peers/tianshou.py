"""Tianshou: `Batch`es of NumPy arrays in and out, Numba inside."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.data import (
    Batch,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)

from benchmarks import synthetic
from benchmarks.cartpole import Transitions
from benchmarks.peers.base import Adapter
from benchmarks.synthetic import Array, Chunk, Observation
from benchmarks.workloads import ALPHA, BETA, GAMMA, HER_RATIO, N_STEP, SEQUENCE_LENGTH, Store


class Tianshou(Adapter):
    """Frames are stored once and stacked when sampled, as in its Atari examples.

    Sequences are read with `get(…, stack_num=…)`, which stacks one key at a time.
    """

    title = "Tianshou"
    distribution = "tianshou"
    missing = {"ere": "no ERE"}

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.buffer = _build(store)

    def fill(self) -> None:
        if self.store.num_envs > 1:  # buffers for several environments take single steps only
            for chunk in synthetic.chunks(self.store):
                for step in self._vector_steps(chunk):
                    self.buffer.add(step)
        else:
            for chunk in synthetic.chunks(self.store):
                self.buffer.update(self._chunk_buffer(chunk.flat()))

    def _chunk_buffer(self, chunk: Chunk) -> ReplayBuffer:
        fields = self._fields(chunk)
        fields["done"] = chunk.done
        fields.setdefault("obs_next", fields["obs"])
        source = ReplayBuffer.from_data(**fields)
        if self.store.kind == "frames":
            source._meta.pop("obs_next")  # the buffer to fill does not keep it
        return source

    def prioritise(self) -> None:
        size = len(self.buffer)
        self.buffer.update_weight(np.arange(size), np.random.default_rng(5).random(size, np.float32))

    def sample(self, batch_size: int) -> Any:
        if self.store.kind == "nstep":
            return self._sample_nstep(batch_size)
        if self.store.kind == "sequence":
            return self._sample_sequences(batch_size // SEQUENCE_LENGTH)
        return self.buffer.sample(batch_size)[0]

    def _sample_nstep(self, batch_size: int) -> Any:
        batch, indices = self.buffer.sample(batch_size)
        return Algorithm.compute_nstep_return(batch, self.buffer, indices, _no_bootstrap, GAMMA, N_STEP)

    def _sample_sequences(self, num_sequences: int) -> Any:
        indices = self.buffer.sample_indices(num_sequences)
        keys = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
        return Batch({key: self.buffer.get(indices, key, stack_num=SEQUENCE_LENGTH) for key in keys})

    def draw(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size)

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        self.buffer.update_weight(batch[1], errors)

    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        if self.store.num_envs > 1:
            return [step for chunk in chunks for step in self._vector_steps(chunk)]
        flat = [chunk.flat() for chunk in chunks]
        return [Batch({key: value[0] for key, value in self._fields(chunk).items()}) for chunk in flat]

    def insert(self, step: Any) -> Any:
        return self.buffer.add(step)

    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None:
        self.buffer.add(
            Batch(
                obs=obs[0],
                act=action[0],
                rew=reward[0],
                obs_next=next_obs[0],
                terminated=terminated[0],
                truncated=truncated[0],
            )
        )

    def transitions(self, batch: Any) -> Transitions:
        rows, _ = batch
        discount = torch.from_numpy(GAMMA * ~rows.terminated[:, None]).float()
        return Transitions(
            torch.from_numpy(rows.obs),
            torch.from_numpy(rows.act).view(-1, 1),
            torch.from_numpy(rows.rew).float().view(-1, 1),
            torch.from_numpy(rows.obs_next),
            discount,
            torch.from_numpy(rows.weight).float().view(-1, 1) if self.store.prioritised else None,
        )

    def num_rows(self, batch: Any) -> int:
        rows = batch[0] if isinstance(batch, tuple) else batch
        return int(np.prod(rows.rew.shape))

    def _vector_steps(self, chunk: Chunk) -> list[Batch]:
        fields = self._fields(chunk)
        return [Batch({key: value[step] for key, value in fields.items()}) for step in range(chunk.num_steps)]

    def _fields(self, chunk: Chunk) -> dict[str, Any]:
        fields = {
            "obs": _batched(chunk.obs),
            "act": chunk.action,
            "rew": chunk.reward,
            "terminated": chunk.terminated,
            "truncated": chunk.truncated,
            "obs_next": _batched(chunk.next_obs),
        }
        if self.store.kind == "frames":
            fields["obs"] = chunk.obs[:, -1]
            del fields["obs_next"]
        return fields


def _batched(obs: Observation) -> Any:
    return Batch(obs) if isinstance(obs, dict) else obs


def _no_bootstrap(buffer: ReplayBuffer, indices: NDArray[np.int64]) -> torch.Tensor:
    """Gather the observation to bootstrap from, as every target network needs it, and value it at 0."""
    buffer.get(indices, "obs_next")
    return torch.zeros(len(indices))


def _build(store: Store) -> Any:
    size, envs = store.num_steps, store.num_envs
    if store.kind == "per":
        options = {"alpha": ALPHA, "beta": BETA}
        if envs > 1:
            return PrioritizedVectorReplayBuffer(size, envs, **options)
        return PrioritizedReplayBuffer(size, **options)
    if store.kind == "her":
        return HERReplayBuffer(size, synthetic.compute_reward, store.episode_length, future_k=HER_RATIO + 1)
    if store.kind == "frames":
        return ReplayBuffer(size, stack_num=synthetic.NUM_FRAMES, ignore_obs_next=True, save_only_last_obs=True)
    return VectorReplayBuffer(size, envs) if envs > 1 else ReplayBuffer(size)


ADAPTER = Tianshou
