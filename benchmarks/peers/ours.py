"""Recollect: through the documented methods, with their default settings, validation included."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import synthetic
from benchmarks.cartpole import Transitions
from benchmarks.peers.base import Adapter, fields_of
from benchmarks.synthetic import Array, Chunk, Observation
from benchmarks.workloads import ALPHA, BETA, EPSILON, ETA, GAMMA, HER_RATIO, N_STEP, SEQUENCE_LENGTH, Store
from recollect import keys
from recollect.agent.storages.off_policy.ere_buffer import EREBuffer
from recollect.agent.storages.off_policy.her_buffer import HERBuffer
from recollect.agent.storages.off_policy.nstep_buffer import NStepReplayBuffer
from recollect.agent.storages.off_policy.per_buffer import PERBuffer
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer

HIDDEN_SIZE = 64
ERE_BATCHES = 50
"""Batches of one ERE call: the window shrinks over the whole range from the first to the last."""
PRIORITISE_ROWS, PRIORITISE_BATCHES = 100_000, 30


class Recollect(Adapter):
    """Steps go in by `insert_transition` or `add`, batches out by `sample`, errors by `update_priorities`."""

    title = "Recollect"
    distribution = "recollect"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.buffer = _build(store)
        self._batches: Iterator[Any] = iter(())

    def fill(self) -> None:
        for chunk in synthetic.chunks(self.store):
            if self.store.is_small:  # as `add` stores them, so that it may continue
                for row in range(chunk.num_steps):
                    self.add(*fields_of(chunk.rows(row, row + 1)))
                continue
            self.buffer.insert_data_slice(self._sample_of(chunk))

    def prioritise(self) -> None:
        """Draw large batches and answer with random errors; new steps come first, so nearly all get one."""
        rng = np.random.default_rng(5)
        rows = min(PRIORITISE_ROWS, self.store.num_steps)
        num_batches = max(PRIORITISE_BATCHES, 3 * self.store.num_steps // rows)
        for batch in self.buffer.generate_batches(num_batches, rows):
            self.answer(batch, rng.random(len(batch[keys.REWARD]), np.float32))

    def sample(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size)

    def draw(self, batch_size: int) -> Any:
        if self.store.kind != "ere":
            return self.sample(batch_size)
        batch = next(self._batches, None)
        if batch is None:
            self._batches = self.buffer.generate_batches(ERE_BATCHES, batch_size)
            batch = next(self._batches)
        return batch

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        self.buffer.update_priorities(batch, torch.from_numpy(errors))

    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        return [self._sample_of(chunk, time=0) for chunk in chunks]

    def torch_steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        return [{key: _tensors(value) for key, value in step.items()} for step in self.steps(chunks)]

    def insert(self, step: Any) -> Any:
        return self.buffer.insert_transition(step)

    def add(self, *step: Array) -> None:
        self.buffer.add(*step)

    def transitions(self, batch: Any) -> Transitions:
        return Transitions(
            batch[keys.OBS],
            batch[keys.ACTION].view(-1, 1),
            batch[keys.REWARD],
            batch[keys.NEXT_OBS],
            batch[keys.DISCOUNT],
            batch[keys.PER_WEIGHTS] if self.store.prioritised else None,
        )

    def num_rows(self, batch: Any) -> int:
        if keys.MASK in batch:  # positions beyond the sequence only complete the n-step windows
            return int(batch[keys.MASK].sum())
        return len(batch[keys.REWARD])

    def counters(self) -> dict[str, int]:
        visited = getattr(getattr(self.buffer, "tree", None), "nodes_visited", None)
        return {} if visited is None else {"nodes_visited": int(visited)}

    def _sample_of(self, chunk: Chunk, time: int | None = None) -> dict[str, Any]:
        part: Any = slice(None) if time is None else time
        sample = {
            keys.OBS: synthetic.map_obs(lambda x: x[part], chunk.obs),
            keys.ACTION: chunk.action[part],
            keys.REWARD: chunk.reward[part][..., None],
            keys.NEXT_OBS: synthetic.map_obs(lambda x: x[part], chunk.next_obs),
            keys.NEXT_DONE: chunk.done[part][..., None],
            keys.NEXT_TERMINATED: chunk.terminated[part][..., None],
        }
        if self.store.kind == "sequence":
            sample[keys.DONE] = np.roll(chunk.done, 1, axis=0)[part][..., None]
            sample[keys.RHS] = np.zeros((*chunk.reward[part].shape, HIDDEN_SIZE), np.float32)
        return sample


def _tensors(value: Observation) -> Any:
    if isinstance(value, dict):
        return {key: _tensor(part) for key, part in value.items()}
    return _tensor(value)


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _build(store: Store) -> Any:
    size = store.steps_per_env
    common: dict[str, Any] = {"num_envs": store.num_envs, "gamma": GAMMA}
    priorities: dict[str, Any] = {"epsilon": EPSILON, "alpha": ALPHA, "beta": BETA}
    match store.kind:
        case "nstep":
            return NStepReplayBuffer.standalone(size, **common, n_step=N_STEP)
        case "per":
            return PERBuffer.standalone(size, **common, **priorities)
        case "ere":
            return EREBuffer.standalone(size, **common, **priorities, eta=ETA)
        case "her":
            share = HER_RATIO / (HER_RATIO + 1)
            return HERBuffer.standalone(size, **common, share=share, compute_reward=synthetic.compute_reward)
        case "sequence":
            return ReplayBuffer.standalone(size, **common, sequence_length=SEQUENCE_LENGTH)
        case "frames":
            return ReplayBuffer.standalone(size, **common, frame_stack=synthetic.NUM_FRAMES)
        case _:
            return ReplayBuffer.standalone(size, **common)


ADAPTER = Recollect
