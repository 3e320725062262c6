"""`CheckpointPace`: when the next checkpoint is due, by env steps and by time."""

import math
import time
from typing import Final

from recollect import units
from recollect.checks import check_number

# A checkpoint that could not be written is tried again so much sooner than the next one is due.
_TRIES_A_CHECKPOINT: Final = 10


class CheckpointPace:
    """When checkpoints are due: by env steps, by seconds, and on request.

    Parameters
    ----------
    every : int
        Env steps between two; they fall on multiples of it.
    every_minutes : float, optional
        Minutes between two at most.
    """

    def __init__(self, every: int, every_minutes: float | None = None) -> None:
        self._every = every
        self._every_s = math.inf
        if every_minutes is not None:
            self._every_s = units.MINUTE_S * check_number("checkpoint_minutes", every_minutes, 0, above_low=True)
        self._next = every
        self._next_s = math.inf
        self._is_requested = False

    def begin(self, num_steps: int) -> None:
        """Count from here on."""
        self.took(num_steps)

    def request(self) -> None:
        """Let one be due now."""
        self._is_requested = True

    def is_due(self, num_steps: int) -> bool:
        """Whether it is time for a checkpoint."""
        return self._is_requested or num_steps >= self._next or self._now() >= self._next_s

    def took(self, num_steps: int) -> None:
        """Wait for the next one."""
        self._is_requested = False
        self._next = next_multiple(num_steps, self._every)
        self._next_s = self._now() + self._every_s

    def retry(self, num_steps: int) -> None:
        """Let the next one be due soon, because the last one failed."""
        self._next = min(self._next, num_steps + max(1, self._every // _TRIES_A_CHECKPOINT))
        self._next_s = min(self._next_s, self._now() + self._every_s / _TRIES_A_CHECKPOINT)

    def _now(self) -> float:
        """Seconds, if anything depends on them."""
        return 0.0 if self._every_s == math.inf else time.monotonic()


def next_multiple(number: int, every: int) -> int:
    """The next whole multiple: what is written, and when, does not depend on where a run was resumed."""
    return (number // every + 1) * every
