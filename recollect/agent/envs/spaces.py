"""Supported spaces, and the form in which actions are passed to envs."""

from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch

from recollect import keys
from recollect.agent.masks import has_mask, mask_shape
from recollect.errors import ConfigError, SchemaError
from recollect.roles import Observation

_PLAIN: Final = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
_PLAIN_NAMES: Final = ", ".join(kind.__name__ for kind in _PLAIN)


def check_spaces(observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
    """Refuse an env whose observations or actions no actor understands."""
    if not isinstance(action_space, _PLAIN):
        raise ConfigError(f"the action space is {action_space}; it must be one of {_PLAIN_NAMES}")
    _check_observation_space(observation_space)
    if isinstance(observation_space, gym.spaces.Dict) and has_mask(observation_space, action_space):
        found, expected = observation_space[keys.ACTION_MASK].shape, mask_shape(action_space)
        if found != expected:
            raise ConfigError(
                f"{keys.ACTION_MASK!r} of the observation space has the shape {found}, expected {expected} for "
                f"{action_space}: an entry for each action"
            )


def _check_observation_space(space: gym.Space[Any]) -> None:
    if isinstance(space, gym.spaces.Dict):
        for inner in space.values():
            _check_observation_space(inner)
    elif not isinstance(space, _PLAIN):
        raise ConfigError(
            f"the observation space has the part {space}; it must be one of {_PLAIN_NAMES}, or a Dict of them: "
            "wrap the env, for instance in gymnasium.wrappers.FlattenObservation"
        )


def have_same_form(one: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Whether what is in one space can be taken for what is in the other, whatever the bounds of numbers."""
    if isinstance(one, gym.spaces.Dict) and isinstance(other, gym.spaces.Dict):
        return one.keys() == other.keys() and all(have_same_form(one[name], other[name]) for name in one)
    if isinstance(one, gym.spaces.Box) and isinstance(other, gym.spaces.Box):
        return one.shape == other.shape and one.dtype == other.dtype
    return bool(one == other)


def find_misfit(space: gym.Space[Any], obs: Observation, name: str = "observation") -> str | None:
    """Say which part of an observation has another shape than its space, and which; None if none has."""
    if isinstance(space, gym.spaces.Dict):
        parts = (find_misfit(inner, obs[key], f"{name}[{key!r}]") for key, inner in space.items() if key in obs)
        return next((misfit for misfit in parts if misfit is not None), None)
    shape = np.shape(obs)
    return None if shape == space.shape else f"{name} has the shape {shape}, expected {space.shape}"


class ActionFormat:
    """Gives actions the shape and dtype that a vector env takes, from the action space of one env."""

    def __init__(self, space: gym.Space[Any], num_envs: int) -> None:
        if space.shape is None or space.dtype is None:
            raise ConfigError(f"the action space is {space}; it must have a shape and a dtype")
        self._shape = (num_envs, *space.shape)
        self._dtype = np.dtype(space.dtype)
        self._is_whole = isinstance(space, gym.spaces.Box) and np.issubdtype(self._dtype, np.integer)
        self._bounds = _bounds_beyond_float32(space)

    def __call__(self, action: torch.Tensor | np.ndarray) -> np.ndarray:
        """Turn actions `[num_envs, numbers]`, in the env's units, into an array `[num_envs, ...]`."""
        if type(action) is torch.Tensor and action.is_cpu and not action.requires_grad:
            array = action.numpy()
        else:
            array = action.numpy(force=True) if isinstance(action, torch.Tensor) else np.asarray(action)
        try:
            array = array.reshape(self._shape)
        except ValueError:
            raise SchemaError(f"actions must fit the shape {self._shape}, got {array.shape}") from None
        if self._is_whole:
            array = np.rint(array)
        if self._bounds is not None:
            array = np.clip(array, *self._bounds)
        return array.astype(self._dtype, copy=False)


def _bounds_beyond_float32(space: gym.Space[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds of a Box that policies do not know exactly: they think in float32, where 0.1 is more than 0.1.

    A Box of whole numbers has its actions rounded to them: a cast would take all of them towards 0.
    """
    if not isinstance(space, gym.spaces.Box) or space.dtype in (np.float32, np.float16):
        return None
    return space.low.astype(np.float64), space.high.astype(np.float64)
