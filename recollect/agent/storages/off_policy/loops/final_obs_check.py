"""`FinalObsCheck`: warns where episodes seem to continue after their ends."""

import warnings
from hashlib import blake2b
from typing import Final

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.store.schema.planning import to_numpy, walk
from recollect.errors import RecollectWarning
from recollect.roles import Observation, Sample

Ends = dict[int, bytes]
"""What the last step of each env that is at an end led to, by the env's number, as `fingerprint` tells it."""

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
        self._ends: Ends = {}

    def follow(self, sample: Sample, *, has_ended: bool = True) -> None:
        """Compare what a step of all envs starts from with what the last ends led to, and keep its own ends.

        One that is known not to have any costs nothing where there is nothing to compare it with.
        """
        if self._num_ends >= _ENDS_WATCHED or not (has_ended or self._ends):
            return
        obs = sample[keys.OBS]
        self._num_ends += len(self._ends)
        self._num_repeated += sum(fingerprint(obs, env) == led_to for env, led_to in self._ends.items())
        if self._num_repeated == self._num_ends >= _ENDS_WATCHED:
            warnings.warn(
                f"after every end the next observation is what the last step led to. {self._advice}",
                RecollectWarning,
                stacklevel=3,
            )
        # Where observations do not change at all, there is nothing to tell.
        self._ends = {env: led_to for env, led_to in ends_of(sample).items() if fingerprint(obs, env) != led_to}


def ends_of(sample: Sample) -> Ends:
    """The ends of a step of all envs."""
    return {int(env): fingerprint(sample[keys.NEXT_OBS], env) for env in np.flatnonzero(sample[keys.NEXT_DONE])}


def fingerprint(observations: Observation, env: int | np.integer) -> bytes:
    """What tells the observation of one env from others, bit for bit."""
    rows = [to_numpy(values)[env].tobytes() for _, values in sorted(walk((), observations), key=lambda entry: entry[0])]
    return blake2b(b"".join(rows), digest_size=16).digest()
