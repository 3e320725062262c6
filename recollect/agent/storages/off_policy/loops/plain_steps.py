"""`PlainSteps`: steps of a custom training loop that need no second look: arrays of the shapes and dtypes of before."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.store.intake import Intake
from recollect.roles import Observation

_GIVEN: Final = (keys.OBS, keys.ACTION, keys.NEXT_OBS)


class PlainSteps:
    """Reads steps of the keys that `ReplayBuffer.add` gives, and of no others.

    Parameters
    ----------
    intake : Intake
        Reads all samples of the store.
    columns : mapping of arrays
        Where the other columns of a step are read, by key: from these arrays, as they are then.

    Attributes
    ----------
    addresses : int64 [inputs]
        Where the arrays of a step are once it was read.
    """

    def __init__(self, intake: Intake, columns: Mapping[str, np.ndarray]) -> None:
        stages = intake.stages()
        self._obs, self._action, self._next_obs = (stages[key] for key in _GIVEN)
        self.addresses = intake.addresses_with(columns)

    @classmethod
    def of(cls, intake: Intake, columns: Mapping[str, np.ndarray]) -> "PlainSteps | None":
        """Return what reads plain steps; None if the store has other keys, or what is too large to be copied first."""
        stages = intake.stages()
        fits = stages.keys() == {*_GIVEN, *columns} and all(
            stages[key].dtype == column.dtype and stages[key].shape == column.shape for key, column in columns.items()
        )
        return cls(intake, columns) if fits else None

    def read(self, obs: Observation, action: Observation, next_obs: Observation) -> bool:
        """Copy what fits the store as it is; returns whether it does."""
        if type(obs) is type(action) is type(next_obs) is np.ndarray and (
            obs.shape == next_obs.shape == self._obs.shape
            and obs.dtype == next_obs.dtype == self._obs.dtype
            and action.shape == self._action.shape
            and action.dtype == self._action.dtype
        ):
            self._obs[...], self._action[...], self._next_obs[...] = obs, action, next_obs
            return True
        return False
