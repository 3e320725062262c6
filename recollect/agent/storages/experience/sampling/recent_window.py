"""`RecentWindow`: how far back a draw may reach when recent experience is emphasised."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from recollect.files.records import MAX_COUNTED, as_count, as_number, as_whole

# The paper's scale of k / K, and K before the first span of updates is over.
_SCALE: Final = 1000.0
_FIRST_SPAN: Final = 1000
# Training returns that say how fast an agent improves.
_NUM_RETURNS: Final = 20


class RecentWindow:
    """The newest `c_k = max(N * eta ** (1000 k / K), cmin)` steps, for the k-th of K updates.

    A call that draws several batches has its own k and K. Calls that draw one count k since the last
    episode end and take K from the span before.

    Parameters
    ----------
    eta : float
        1 takes all data alike, smaller values emphasise recent data.
    cmin : int
        Fewest steps to draw from.

    Attributes
    ----------
    initial_eta : float
        The eta that was asked for, from which `adapt` goes towards 1.
    """

    def __init__(self, eta: float, cmin: int) -> None:
        self.eta = self.initial_eta = eta
        self.cmin = cmin
        self._drawn = 0
        self._span = _FIRST_SPAN
        self._num_ends = 0

    def progress(self, k: int, num_batches: int, num_ends: int) -> float:
        """Return k / K for the next batch, the `k`-th of a call that draws `num_batches`.

        `num_ends` counts the episodes that have ended so far.
        """
        if num_batches > 1:
            return k / num_batches
        if num_ends != self._num_ends:
            self._num_ends = num_ends
            if self._drawn > 0:
                self._span, self._drawn = self._drawn, 0
        self._drawn += 1
        return min(self._drawn / self._span, 1.0)

    def reach(self, num_steps: int, progress: float) -> float:
        """Steps to draw from, of `num_steps` stored."""
        reach: float = num_steps * self.eta ** (_SCALE * progress)
        return min(float(num_steps), max(reach, float(self.cmin)))

    def adapt(self, ratio: float | None) -> None:
        """Emphasise recent data as far as `ratio`, from 0 for not at all to 1; None changes nothing."""
        if ratio is not None:
            self.eta = self.initial_eta * ratio + (1.0 - ratio)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {
            "drawn": self._drawn,
            "span": self._span,
            "num_ends": self._num_ends,
            "eta": self.eta,
            "initial_eta": self.initial_eta,
        }

    def load_state(self, state: dict[str, Any], ratio: float | None) -> None:
        """Resume from `state`; with another `initial_eta` than it had, eta is adapted to `ratio` instead."""
        drawn, num_ends = as_count(state["drawn"]), as_count(state["num_ends"])
        span, eta = as_whole(state["span"], 1, MAX_COUNTED), as_number(state["eta"], 0.0, 1.0)
        self._drawn, self._span, self._num_ends = drawn, span, num_ends
        if state["initial_eta"] == self.initial_eta:
            self.eta = eta
        else:
            self.adapt(ratio)


class LearningPace:
    """How fast training returns improve, relative to the fastest seen: 1 at best, 0 at rest or worse.

    Improvement is the mean slope of the last twenty returns.
    """

    def __init__(self) -> None:
        self._returns: list[float] = []
        self._fastest = 0.0

    def add(self, returns: float | Sequence[float] | np.ndarray) -> None:
        """Take one return, or several; those that are NaN or infinite say nothing of a pace."""
        values = np.atleast_1d(np.asarray(returns, np.float64)).ravel()
        for value in values[np.isfinite(values)]:
            self._returns = [*self._returns, float(value)][-_NUM_RETURNS:]
            if len(self._returns) > 1:
                self._fastest = max(self._fastest, self._slope())

    def ratio(self) -> float | None:
        """Present pace over the fastest one; None before two returns are known."""
        if len(self._returns) < 2:
            return None
        return min(max(self._slope() / self._fastest, 0.0), 1.0) if self._fastest > 0 else 0.0

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"returns": self._returns, "fastest": self._fastest}

    def load_state(self, state: dict[str, Any]) -> None:
        """Resume from `state`."""
        returns, fastest = [as_number(value) for value in state["returns"]], as_number(state["fastest"], 0.0)
        self._returns, self._fastest = returns[-_NUM_RETURNS:], fastest

    def _slope(self) -> float:
        return (self._returns[-1] - self._returns[0]) / (len(self._returns) - 1)
