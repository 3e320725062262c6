"""`ReplayRatio`: how many updates the steps collected so far allow."""

import math
from collections.abc import Mapping
from typing import Any

from recollect.checks import check_number


class ReplayRatio:
    """Keeps updates and collected steps in step; whoever is ahead waits, and nothing is dropped.

    Parameters
    ----------
    updates_per_step : float
        Updates for each collected step.

    Examples
    --------
    >>> ratio = ReplayRatio(0.25)
    >>> ratio.collected(10)
    >>> ratio.due
    2
    >>> ratio.updated(2)
    >>> ratio.due
    0
    """

    def __init__(self, updates_per_step: float) -> None:
        self.updates_per_step = check_number("updates_per_step", updates_per_step, 0.0, above_low=True)
        self._num_steps = 0
        self._num_updates = 0

    @property
    def due(self) -> int:
        """Whole updates that are to be made before more is collected."""
        return max(0, math.floor(self._num_steps * self.updates_per_step + 1e-9) - self._num_updates)

    def collected(self, num_steps: int) -> None:
        """Count steps that came in."""
        self._num_steps += num_steps

    def updated(self, num_updates: int = 1) -> None:
        """Count updates that were made."""
        self._num_updates += num_updates

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"num_steps": self._num_steps, "num_updates": self._num_updates}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self._num_steps, self._num_updates = int(state["num_steps"]), int(state["num_updates"])
