"""`Step`: the result of one step of every env."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from recollect.roles import Observation

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


class Step(NamedTuple):
    """What one step of every env brought, the same for every kind of vector env and autoreset mode.

    The arrays are not overwritten by later steps. Where no episode ended, `next_obs` and `obs` may be the
    same array, and so may the flags: do not write to them.

    Attributes
    ----------
    next_obs : array or dict of arrays [num_envs, ...]
        What the action led to: where an episode ended, its true last observation.
    reward : float32 [num_envs, 1]
        Rewards.
    terminated, truncated : bool [num_envs, 1]
        Whether the episode ended in this step, in itself or by a limit from outside.
    cut : bool [num_envs, 1]
        Where the episode was lost without an end, because its env failed and was rebuilt: in this step,
        which then is no transition, or after it.
    skip : bool [num_envs, 1] or None
        Rows that are no transition: the env only began an episode, or failed. None if there are none.
    obs : array or dict of arrays [num_envs, ...]
        What to act on next: where an episode ended, the first observation of the next one.
    infos : mapping
        Infos of this step, in Gymnasium's vector format; read them before the next step.
    is_plain : bool
        Whether all flags are known to be False: no episode ended, began or was lost. False if that is not known.
    """

    next_obs: Observation
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    cut: np.ndarray
    skip: np.ndarray | None
    obs: Observation
    infos: Mapping[str, Any]
    is_plain: bool = False

    @property
    def ended(self) -> np.ndarray:
        """In which envs an episode ended in this step, bool [num_envs, 1]."""
        return self.terminated if self.is_plain else self.terminated | self.truncated

    @property
    def begins(self) -> np.ndarray:
        """Which envs begin an episode with `obs`, so that the hidden state must be reset, bool [num_envs, 1]."""
        if self.is_plain:
            return self.cut
        begins: np.ndarray = self.terminated | self.truncated | self.cut
        return begins if self.skip is None else begins | self.skip


def copy_arrays(obs: Observation) -> Observation:
    """Copy the array, or the nested arrays, of an observation."""
    if isinstance(obs, dict):
        return {key: copy_arrays(inner) for key, inner in obs.items()}
    return obs.copy()


def put_rows(obs: Observation, envs: np.ndarray | np.intp, rows: Observation) -> None:
    """Write the rows of some envs (or of one) into the array, or the nested arrays, of an observation."""
    if isinstance(obs, dict):
        for key, inner in obs.items():
            put_rows(inner, envs, rows[key])
    else:
        obs[envs] = rows
