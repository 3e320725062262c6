"""The replay buffer of the plain scripts: a ring of arrays, sampled uniformly."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.loops import tasks


class Batch(NamedTuple):
    """Rows of a batch."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor


class Replay:
    """A ring of transitions of one env."""

    def __init__(self, size: int, obs_space: Any, action_shape: tuple[int, ...], action_dtype: Any) -> None:
        dtype = np.uint8 if obs_space.dtype == np.uint8 else np.float32
        self._columns = (
            np.zeros((size, *obs_space.shape), dtype),
            np.zeros((size, *action_shape), action_dtype),
            np.zeros(size, np.float32),
            np.zeros((size, *obs_space.shape), dtype),
            np.zeros(size, np.float32),
        )
        self._size = size
        self._num_added = 0
        self._rng = np.random.default_rng(tasks.SEED)

    def add(self, *transition: Any) -> None:
        """Add observation, action, reward, next observation and whether that was terminal."""
        slot = self._num_added % self._size
        for column, value in zip(self._columns, transition, strict=True):
            column[slot] = value
        self._num_added += 1

    def sample(self, batch: int) -> Batch:
        """Draw rows with replacement."""
        rows = self._rng.integers(0, min(self._num_added, self._size), batch)
        return Batch(*(torch.from_numpy(column[rows]) for column in self._columns))
