"""The mini-batches of an epoch: single steps, or sequences of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch


class Picked(NamedTuple):
    """Steps of a mini-batch by their position among all steps, and which of them are to be learned from."""

    positions: np.ndarray  # [batch], or [num_seq, length]
    mask: np.ndarray | None = None  # [num_seq, length]


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

    def __len__(self) -> int:
        return len(self._starts)

    def pick(self, part: np.ndarray) -> Picked:
        """The steps of some of the sequences."""
        lengths = self._lengths[part, None]
        offsets = np.arange(lengths.max())
        positions = self._starts[part, None] + np.minimum(offsets, lengths - 1)
        return Picked(positions, (offsets >= self._num_warm[part, None]) & (offsets < lengths))


class Rollout(NamedTuple):
    """Steps that are ready to be learned from: their ids, what was computed for them, and their sequences, if any."""

    ids: np.ndarray  # [num_steps]
    computed: dict[str, torch.Tensor]  # [num_steps, 1] by key
    sequences: StepSequences | None

    def epoch(self, rng: np.random.Generator | None, num_parts: int) -> Iterator[Picked]:
        """Deal all rows out to `num_parts` mini-batches, or fewer if there are fewer rows, in random order.

        Without a generator they come in the order of lanes and time.
        """
        num_rows = len(self.ids if self.sequences is None else self.sequences)
        order = np.arange(num_rows) if rng is None else rng.permutation(num_rows)
        for part in np.array_split(order, min(num_parts, num_rows)):
            yield Picked(part) if self.sequences is None else self.sequences.pick(part)
