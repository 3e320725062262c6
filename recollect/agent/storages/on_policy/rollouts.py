"""Which stored steps make up the mini-batches of an epoch: single steps, or sequences of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from recollect.agent.storages.experience.sampling.outputs import Nested


class Picked(NamedTuple):
    """Steps of a mini-batch by their position among all steps, and which of them are to be learned from."""

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

    Every step is in one sequence to be learned from. A sequence may have steps of the one before it in front, to
    warm a memory up.

    Parameters
    ----------
    run_positions : int array [num_steps]
        How many steps of the same run come before each step.
    length : int
        Most steps of a sequence.
    overlap : int
        Most steps in front of a sequence that are not learned from; there are fewer where a run begins.
    """

    def __init__(self, run_positions: np.ndarray, length: int, overlap: int = 0) -> None:
        begins = np.flatnonzero(run_positions % (length - overlap) == 0)
        self._num_warm = np.minimum(run_positions[begins], overlap)
        self._starts = begins - self._num_warm
        self._lengths = np.diff(begins, append=len(run_positions)) + self._num_warm

    def epoch(self, rng: np.random.Generator, num_parts: int) -> Iterator[Picked]:
        """Deal all sequences out to `num_parts` mini-batches, or fewer if there are fewer, in random order."""
        for part in _deal(rng, len(self._starts), num_parts):
            lengths = self._lengths[part, None]
            offsets = np.arange(lengths.max())
            positions = self._starts[part, None] + np.minimum(offsets, lengths - 1)
            yield Picked(positions, (offsets >= self._num_warm[part, None]) & (offsets < lengths))


class Rollout(NamedTuple):
    """Steps that are ready to be learned from: their ids, what was computed for them, and how to deal them out."""

    ids: np.ndarray  # [num_steps]
    computed: dict[str, torch.Tensor]  # [num_steps, 1] by key
    choice: SingleSteps | StepSequences


def shaped(rows: Nested, shape: tuple[int, ...]) -> Nested:
    """Give the rows of a (nested) dict of tensors the leading axes `shape` instead of one."""
    return {
        key: shaped(value, shape) if isinstance(value, dict) else value.reshape(*shape, *value.shape[1:])
        for key, value in rows.items()
    }


def _deal(rng: np.random.Generator, num_rows: int, num_parts: int) -> list[np.ndarray]:
    return np.array_split(rng.permutation(num_rows), min(num_parts, num_rows))
