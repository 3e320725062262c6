"""`ReplayRatio`: how many updates the steps collected so far allow."""

import math
from collections.abc import Mapping
from typing import Any, Final

from recollect.checks import check_number
from recollect.files.records import as_number

# Updates that are due, or less than one on the way to it.
_CREDIT: Final = "replay_credit"


class ReplayRatio:
    """Keeps updates and collected steps in step; whoever is ahead waits, and nothing is dropped.

    Updates are those of the weights that are learned, and steps those of all workers whose data an update is made
    of. So there is one for gradient workers that make each update together, and one for each of those that
    make updates of their own.

    Parameters
    ----------
    updates_per_step : float or None
        Updates for each collected step; None sets no limit.

    Examples
    --------
    >>> ratio = ReplayRatio(0.25)
    >>> ratio.collected(10)
    >>> ratio.due
    2
    >>> ratio.updated()
    >>> ratio.due
    1
    """

    def __init__(self, updates_per_step: float | None) -> None:
        if updates_per_step is not None:
            check_number("updates_per_step", updates_per_step, 0.0, above_low=True)
        self.updates_per_step = updates_per_step
        self._credit = 0.0
        self._num_steps = 0
        self._num_updates = 0

    @property
    def due(self) -> int | None:
        """Whole updates that are to be made before more is collected; None without a limit."""
        if self.updates_per_step is None:
            return None
        allowed = self._credit + self._num_steps * self.updates_per_step
        return max(0, math.floor(allowed + 1e-9) - self._num_updates)

    def collected(self, num_steps: int) -> None:
        """Count steps that came in."""
        self._num_steps += num_steps

    def updated(self) -> None:
        """Count an update that was made."""
        self._num_updates += 1

    def state(self) -> dict[str, float]:
        """What a checkpoint needs, in one number, so that it is of use with another ratio or other workers too."""
        if self.updates_per_step is None:
            return {}
        return {_CREDIT: self._credit + self._num_steps * self.updates_per_step - self._num_updates}

    def load_state(self, state: Mapping[str, Any], num_steps: int) -> None:
        """Resume from `state`, or from nothing if it was saved without a ratio.

        `num_steps` were collected in all, so that no more updates can be due than those allow.
        """
        most = 1.0 + num_steps * (self.updates_per_step or 0.0)
        credit = as_number(state.get(_CREDIT, 0.0))
        self._credit, self._num_steps, self._num_updates = min(max(credit, -most), most), 0, 0
