"""`StepLayout`: the shapes and dtypes in which Stable-Baselines3 and CleanRL store steps, derived from spaces."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import torch
from gymnasium import spaces

from recollect import keys
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer
from recollect.errors import ConfigError, SchemaError
from recollect.roles import Observation

_NO_SEQUENCES: Final = ("sequence_length", "sequence_overlap")


@dataclass(frozen=True)
class Field:
    """Shape `[num_envs, ...]` and dtype of one column of a step."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def fit(self, value: Observation) -> np.ndarray:
        """The values in this shape and dtype; those that have both come back as they are."""
        if type(value) is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            return value
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        try:
            return np.asarray(value, self.dtype).reshape(self.shape)
        except (TypeError, ValueError):
            raise SchemaError(
                f"{self.name}: expected {self.shape} values of its space, got shape {np.shape(value)}"
            ) from None


class StepLayout:
    """Puts steps into the shapes and dtypes that spaces give: numbers get an axis, actions lose all but one.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        Those of one environment.
    num_envs : int
        Environments that are stepped together.
    """

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], num_envs: int) -> None:
        self._observation: Field | dict[str, Field]
        if isinstance(observation_space, spaces.Dict):
            self._observation = {
                name: _field(f"{keys.OBS}{keys.PATH_SEPARATOR}{name}", inner, num_envs)
                for name, inner in observation_space.items()
            }
        else:
            self._observation = _field(keys.OBS, observation_space, num_envs)
        action = _field(keys.ACTION, action_space, num_envs)
        # As both libraries do: networks answer in float32.
        dtype = np.dtype(np.float32) if action.dtype == np.float64 else action.dtype
        self._action = Field(action.name, (num_envs, prod(action.shape[1:])), dtype)
        # Rewards, ends and terminations of the step at hand, [num_envs, 1].
        self.reward, self.ended, self.terminated = np.zeros((3, num_envs, 1), np.float32)

    def observations(self, values: Observation) -> Observation:
        """Observations `[num_envs, ...]`, of a dict space a dict of them."""
        if isinstance(self._observation, Field):
            return self._observation.fit(values)
        if not isinstance(values, Mapping) or values.keys() != self._observation.keys():
            got = sorted(values) if isinstance(values, Mapping) else type(values).__name__
            raise SchemaError(f"observations must have the entries {sorted(self._observation)}, got {got}")
        return {name: field.fit(values[name]) for name, field in self._observation.items()}

    def actions(self, values: Observation) -> np.ndarray:
        """Actions `[num_envs, numbers]`."""
        return self._action.fit(values)

    def replaced(self, values: Observation, envs: np.ndarray, others: Observation) -> Observation:
        """A copy of observations in which those of `envs` are `others`, by the number of the env."""
        if isinstance(values, Mapping):
            return {name: _replaced(np.asarray(array), envs, _of_entry(others, name)) for name, array in values.items()}
        return _replaced(np.asarray(values), envs, others)

    def sample(self, obs: Observation, next_obs: Observation, action: Observation) -> dict[str, Any]:
        """One step as a storage takes it; rewards and flags are those in the attributes."""
        return {
            keys.OBS: self.observations(obs),
            keys.ACTION: self.actions(action),
            keys.REWARD: self.reward,
            keys.NEXT_OBS: self.observations(next_obs),
            keys.NEXT_DONE: self.ended,
            keys.NEXT_TERMINATED: self.terminated,
        }

    def blank(self) -> dict[str, Any]:
        """A step of zeros, from which a storage learns keys, shapes and dtypes."""
        fields = self._observation
        if isinstance(fields, Field):
            obs: Any = np.zeros(fields.shape, fields.dtype)
        else:
            obs = {name: np.zeros(field.shape, field.dtype) for name, field in fields.items()}
        self.reward[:], self.ended[:], self.terminated[:] = 0, 0, 0
        return self.sample(obs, obs, np.zeros(self._action.shape, self._action.dtype))


def _replaced(array: np.ndarray, envs: np.ndarray, others: Observation) -> np.ndarray:
    array = array.copy()
    for env in envs:
        array[env] = np.reshape(others[env], array.shape[1:])
    return array


def _of_entry(finals: Observation, name: str) -> Observation:
    """One entry of the dict observations of all envs, which come as a dict of arrays or as an array of dicts."""
    if isinstance(finals, Mapping):
        return finals[name]
    return [None if final is None else final[name] for final in finals]


def make_memory(
    storage_class: type[ReplayBuffer], num_steps: int, num_envs: int, seed: int | None, options: Mapping[str, Any]
) -> ReplayBuffer:
    """Make a storage for single steps.

    Without a seed, it takes one from NumPy's global generator, which the scripts of these libraries seed.
    """
    for name in _NO_SEQUENCES:
        if options.get(name) is not None:
            raise ConfigError(f"{name}: this library learns from single steps; leave it out")
    if seed is None:
        seed = int(np.random.randint(2**31))  # noqa: NPY002
    return storage_class.standalone(num_steps, num_envs=num_envs, seed=seed, **options)


def _field(name: str, space: spaces.Space[Any], num_envs: int) -> Field:
    if isinstance(space, spaces.Discrete):
        return Field(name, (num_envs, 1), np.dtype(space.dtype))
    if not isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ConfigError(
            f"{name} has the space {space}; known are Box, Discrete, MultiDiscrete, MultiBinary, and of observations a "
            "Dict of them"
        )
    shape = (num_envs, prod(space.shape)) if isinstance(space, spaces.MultiDiscrete) else (num_envs, *space.shape)
    return Field(name, shape, np.dtype(space.dtype))
