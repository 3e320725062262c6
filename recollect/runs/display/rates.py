"""Recent speed of a training."""

from collections import deque
from typing import Final

_SECONDS_BETWEEN_MARKS: Final = 0.5
_NUM_MARKS: Final = 20


class Rates:
    """Steps and updates per second over the last ten seconds or so."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=_NUM_MARKS)
        self._now = (0.0, 0, 0)

    def follow(self, elapsed_s: float, num_steps: int, num_updates: int) -> None:
        """Record the present counts."""
        self._now = (elapsed_s, num_steps, num_updates)
        if not self._marks or elapsed_s - self._marks[-1][0] >= _SECONDS_BETWEEN_MARKS:
            self._marks.append(self._now)

    def per_second(self) -> tuple[float, float]:
        """Steps and updates per second; 0 before anything is known."""
        if not self._marks or self._now[0] <= self._marks[0][0]:
            return 0.0, 0.0
        elapsed_s, num_steps, num_updates = (now - then for now, then in zip(self._now, self._marks[0], strict=True))
        return num_steps / elapsed_s, num_updates / elapsed_s
