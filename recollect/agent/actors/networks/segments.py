"""Sequences cut where episodes begin, so that a memory runs over all of them in one call."""

import torch
from torch import Tensor


class EpisodeSegments:
    """Splits sequences into segments of one episode each.

    A segment ends where the next episode begins; segments are padded at their ends to the longest.

    Parameters
    ----------
    begins : Tensor
        Whether an episode begins with a step, bool `[num_seq, length]`.
    """

    def __init__(self, begins: Tensor) -> None:
        num_seq, length = begins.shape
        steps = torch.arange(length, device=begins.device).expand(num_seq, -1)
        starts = begins | (steps == 0)
        self._segment = starts.flatten().cumsum(0).view(num_seq, length) - 1
        self._step = steps - torch.where(starts, steps, 0).cummax(1).values  # since the segment's start
        self._first_segment = self._segment[:, 0]
        self.num = int(self._segment[-1, -1]) + 1
        self.length = int(self._step.max()) + 1

    def split(self, rows: Tensor) -> Tensor:
        """`[num_seq, length, …]` -> `[num, longest, …]`, with zeros after a segment's end."""
        padded = rows.new_zeros(self.num, self.length, *rows.shape[2:])
        return padded.index_put((self._segment, self._step), rows)

    def split_states(self, states: Tensor) -> Tensor:
        """States before sequences `[num_seq, …]` -> before segments `[num, …]`: zero where an episode begins."""
        return states.new_zeros(self.num, *states.shape[1:]).index_put((self._first_segment,), states)

    def join(self, padded: Tensor) -> Tensor:
        """`[num, longest, …]` -> `[num_seq, length, …]`."""
        return padded[self._segment, self._step]
