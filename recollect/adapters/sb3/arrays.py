"""Stored steps as the arrays of Stable-Baselines3's buffers: `[buffer_size, n_envs, ...]`, by ring position."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer


class EndFlags(np.ndarray):
    """A copy of the flags of all steps, which tells when one is set."""

    on_set: Callable[[np.ndarray], None] | None = None

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        if self.on_set is not None:
            self.on_set(np.asarray(self))


class StoredArrays:
    """Reads a storage back as SB3's arrays; positions without a step are zeros.

    They are copies: to read them all costs as much memory as SB3's buffer. Only the flags are read alone.
    """

    def __init__(self, memory: ReplayBuffer) -> None:
        self._memory = memory

    def read(self, key: str) -> Any:
        """One column, of a dict observation a dict of them, read-only."""
        if len(self._memory) == 0:
            views = self._memory.data
            return map_arrays(self._blank, views[keys.OBS if key == keys.NEXT_OBS else key])
        stored: Mapping[str, Any] = self._memory.get_all_buffer_data()
        return map_arrays(self._placed, stored[key])

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Which steps ended an episode, and which terminated it: float32 `[buffer_size, n_envs]`."""
        shape = (self._memory.max_size, self._memory.num_envs)
        ended, terminated = np.zeros((2, *shape), np.float32)
        where = self._positions()
        ended[where], terminated[where] = columns.ends(self._memory.store)
        return ended, terminated

    def _positions(self) -> np.ndarray:
        memory = self._memory
        return (memory.step - memory.size + np.arange(memory.size)) % memory.max_size

    def _placed(self, tensor: torch.Tensor) -> np.ndarray:
        values = tensor.numpy()
        array = np.zeros((self._memory.max_size, *values.shape[1:]), values.dtype)
        array[self._positions()] = values
        array.flags.writeable = False
        return array

    def _blank(self, view: torch.Tensor) -> np.ndarray:
        lanes, _, *shape = view.shape
        return np.zeros((self._memory.max_size, lanes, *shape), view.numpy().dtype)
