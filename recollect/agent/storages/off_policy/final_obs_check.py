"""`FinalObsCheck`: warns where episodes seem to continue after their ends."""

import warnings
from typing import Final

import numpy as np

from recollect.agent.storages.experience.store.schema import KeyPath, to_numpy, walk
from recollect.errors import RecollectWarning
from recollect.roles import Observation

_ENDS_WATCHED: Final = 10


class FinalObsCheck:
    """Warns once if after each of the first ends the next step starts from what the last one led to.

    Then either that step only begins an episode, and is no transition, or it was the new episode's first
    observation that was given as the old one's last.

    Parameters
    ----------
    advice : str
        What to do about both, for the warning.
    """

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._num_ends = 0
        self._num_repeated = 0
        self._ended: np.ndarray = np.empty(0, np.int64)
        self._led_to: dict[KeyPath, np.ndarray] = {}

    @property
    def is_over(self) -> bool:
        """Whether enough ends were seen."""
        return self._num_ends >= _ENDS_WATCHED

    def follow(self, obs: Observation, next_obs: Observation, ended: np.ndarray) -> None:
        """Compare what a step starts from with what the last ends led to, and keep its own ends `[num_envs, 1]`."""
        if len(self._ended):
            self.count(len(self._ended), int(are_at(self._ended, self._led_to, obs).sum()))
        envs = self._ended = np.flatnonzero(ended)
        if len(envs) == 0:
            return
        led_to = {path: to_numpy(values)[envs] for path, values in walk((), next_obs)}
        # Where observations do not change at all, there is nothing to tell.
        moved = ~are_at(envs, led_to, obs)
        self._ended = envs[moved]
        self._led_to = {path: rows[moved] for path, rows in led_to.items()}

    def count(self, num_ends: int, num_repeated: int) -> None:
        """Count ends, and those after which the next step starts from what the last one led to."""
        self._num_ends += num_ends
        self._num_repeated += num_repeated
        if self.is_over and self._num_repeated == self._num_ends:
            warnings.warn(
                f"after every end the next observation is what the last step led to. {self._advice}",
                RecollectWarning,
                stacklevel=4,
            )


def are_at(envs: np.ndarray, led_to: dict[KeyPath, np.ndarray], observations: Observation) -> np.ndarray:
    """Whether each of `envs` is where its newest step led to, bit for bit."""
    same = np.ones(len(envs), np.bool_)
    for path, values in walk((), observations):
        pairs = zip(to_numpy(values)[envs], to_numpy(led_to[path]), strict=True)
        same &= np.array([left.tobytes() == right.tobytes() for left, right in pairs], np.bool_)
    return same
