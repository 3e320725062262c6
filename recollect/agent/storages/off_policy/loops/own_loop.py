"""`OwnLoopSteps`: steps of a custom training loop, made samples of the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels import append_kernels
from recollect.errors import SchemaError
from recollect.roles import Numbers, Observation

_FLOAT64: Final = np.dtype(np.float64)
_BOOL: Final = np.dtype(np.bool_)


@dataclass
class OwnLoop:
    """Stands in for actor, algorithm and envs in a custom training loop."""

    gamma: float
    num_envs: int
    is_recurrent: bool = False

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: float) -> None:
        setattr(self, parameter_name, new_parameter_value)


class OwnLoopSteps:
    """Makes samples of what environments return, and remembers which episodes have ended.

    Parameters
    ----------
    num_envs : int
        Environments that are stepped together.

    Attributes
    ----------
    has_ended : bool
        Whether any episode ended with the step that was read.
    columns : dict of float32 arrays `[num_envs, 1]`
        Rewards and flags of that step by key, always the same arrays.
    """

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._shape = (num_envs,)
        self._was_done = np.ones((num_envs, 1), np.float32)
        self.has_ended = False
        # Rewards, ends and terminations, which one kernel fills.
        self._outcomes = np.empty((3, num_envs, 1), np.float32)
        self._rewards, self._ended, self._terminated = self._outcomes
        self.columns = {
            keys.REWARD: self._rewards,
            keys.DONE: self._was_done,
            keys.NEXT_DONE: self._ended,
            keys.NEXT_TERMINATED: self._terminated,
        }

    def read(
        self,
        obs: Observation,
        action: Observation,
        reward: Numbers,
        next_obs: Observation,
        terminated: Numbers,
        truncated: Numbers,
    ) -> dict[str, Any]:
        """Return the sample of one step, see `ReplayBuffer.add`; the next one overwrites its rewards and flags."""
        if self._are_plain(reward, terminated, truncated):
            self.has_ended = append_kernels.read_outcomes(reward, terminated, truncated, self._outcomes)
        else:
            self._rewards[:], self._terminated[:] = self._column(reward), self._column(terminated)
            self.has_ended = bool(np.maximum(self._terminated, self._column(truncated), out=self._ended).any())
        return {
            keys.OBS: obs if type(obs) is np.ndarray else _as_arrays(obs),
            keys.ACTION: action if type(action) is np.ndarray else _as_arrays(action),
            keys.NEXT_OBS: next_obs if type(next_obs) is np.ndarray else _as_arrays(next_obs),
            **self.columns,
        }

    def advance(self) -> None:
        """Begin the next step, once the one that was read is stored."""
        self._was_done[:] = self._ended

    def _are_plain(self, reward: Numbers, terminated: Numbers, truncated: Numbers) -> bool:
        """Whether they are as Gymnasium's vector environments return them."""
        return (
            type(reward) is type(terminated) is type(truncated) is np.ndarray
            and reward.shape == terminated.shape == truncated.shape == self._shape
            and reward.dtype == _FLOAT64
            and terminated.dtype == truncated.dtype == _BOOL
            and reward.flags.c_contiguous
            and terminated.flags.c_contiguous
            and truncated.flags.c_contiguous
        )

    def _column(self, values: Numbers) -> np.ndarray:
        """One number for each env as float32 `[num_envs, 1]`."""
        if isinstance(values, torch.Tensor):
            # Also from dtypes that NumPy lacks.
            values = values.detach().to("cpu", torch.float32)
        try:
            with np.errstate(over="ignore"):  # the store refuses what is infinite then
                return np.asarray(values, np.float32).reshape(self._num_envs, 1)
        except (TypeError, ValueError):
            got = f"shape {values.shape}" if isinstance(values, np.ndarray | torch.Tensor) else repr(values)
            raise SchemaError(f"expected one number for each of {self._num_envs} envs, got {got}") from None


def _as_arrays(value: Observation) -> Observation:
    if isinstance(value, Mapping):
        return {key: _as_arrays(inner) for key, inner in value.items()}
    try:
        return value if isinstance(value, torch.Tensor) else np.asarray(value)
    except ValueError as error:
        raise SchemaError(f"an observation or action is not an array: {error}") from None
