"""Which stored steps make up the mini-batches of an epoch: single steps, or sequences of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from recollect.agent.storages.base import Batch


class Picked(NamedTuple):
    """Steps of a mini-batch by their position among all steps, and which of them are no padding."""

    positions: np.ndarray  # [batch], or [num_seq, length]
    mask: np.ndarray | None = None  # [num_seq, length]


class SingleSteps:
    """Every step is a row of its own.

    Parameters
    ----------
    num_steps : int
        Steps to pick from.
    """

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps

    def epoch(self, rng: np.random.Generator, num_parts: int) -> Iterator[Picked]:
        """Deal all steps out to `num_parts` mini-batches, or fewer if there are fewer steps, in random order."""
        for part in _deal(rng, self._num_steps, num_parts):
            yield Picked(part)


class StepSequences:
    """Neighbouring steps make a sequence, the shorter ones padded with their last step.

    Parameters
    ----------
    is_begin : bool array [num_steps]
        Where sequences begin; the first step does.
    """

    def __init__(self, is_begin: np.ndarray) -> None:
        self._begins = np.flatnonzero(is_begin)
        self._lengths = np.diff(self._begins, append=len(is_begin))

    def epoch(self, rng: np.random.Generator, num_parts: int) -> Iterator[Picked]:
        """Deal all sequences out to `num_parts` mini-batches, or fewer if there are fewer, in random order."""
        for part in _deal(rng, len(self._begins), num_parts):
            lengths = self._lengths[part, None]
            offsets = np.arange(lengths.max())
            positions = self._begins[part, None] + np.minimum(offsets, lengths - 1)
            yield Picked(positions, offsets < lengths)


class Rollout(NamedTuple):
    """Steps that are ready to be learned from: their ids, what was computed for them, and how to deal them out."""

    ids: np.ndarray  # [num_steps]
    computed: dict[str, torch.Tensor]  # [num_steps, 1] by key
    choice: SingleSteps | StepSequences


def shaped(rows: Batch, shape: tuple[int, ...]) -> Batch:
    """Give the rows of a (nested) batch the leading axes `shape` instead of one."""
    return {
        key: shaped(value, shape) if isinstance(value, dict) else value.reshape(*shape, *value.shape[1:])
        for key, value in rows.items()
    }


def _deal(rng: np.random.Generator, num_rows: int, num_parts: int) -> list[np.ndarray]:
    return np.array_split(rng.permutation(num_rows), min(num_parts, num_rows))
