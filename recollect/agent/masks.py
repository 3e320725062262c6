"""Action masks: which actions an environment allows now, as part of its observations.

A mask is a property of an observation, so it lies in it, under the key `action_mask`: storages, workers and messages
carry it without knowing of it. Networks do not see it as an input; policies, critics and random actions obey it.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import gymnasium as gym
import numpy as np

from recollect import keys

# What an observation that is no dict is called once a mask lies beside it.
OBSERVATION: Final = "observation"

Part = TypeVar("Part")


def choice_counts(action_space: gym.Space[Any]) -> list[int]:
    """How many actions each choice of a space has; none where there are no choices."""
    if isinstance(action_space, gym.spaces.Discrete):
        return [int(action_space.n)]
    if isinstance(action_space, gym.spaces.MultiDiscrete):
        return [int(count) for count in action_space.nvec.flatten()]
    return [2] * math.prod(action_space.shape) if isinstance(action_space, gym.spaces.MultiBinary) else []


def choice_starts(action_space: gym.Space[Any]) -> np.ndarray:
    """Where the entries of each choice begin in a mask."""
    return np.cumsum([0, *choice_counts(action_space)[:-1]])


def num_allowed(masks: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """How many actions masks `[rows, entries]` leave to each choice, `[rows, num_choices]`."""
    allowed: np.ndarray = np.add.reduceat(masks != 0, starts, axis=1, dtype=np.int64)
    return allowed


def mask_shape(action_space: gym.Space[Any]) -> tuple[int, ...]:
    """Shape of a mask: an entry for each action of each choice, the choices one after the other."""
    return (sum(choice_counts(action_space)),)


def has_mask(obs_space: gym.Space[Any], action_space: gym.Space[Any]) -> bool:
    """Whether observations hold a mask of actions."""
    return names_mask(obs_space) and bool(choice_counts(action_space))


def names_mask(obs_space: gym.Space[Any]) -> bool:
    """Whether observations have a part that is called a mask."""
    return isinstance(obs_space, gym.spaces.Dict) and keys.ACTION_MASK in obs_space.spaces


def visible_space(obs_space: gym.Space[Any]) -> gym.Space[Any]:
    """Space of what networks see of masked observations."""
    rest = without_mask(obs_space.spaces) if isinstance(obs_space, gym.spaces.Dict) else obs_space
    return gym.spaces.Dict(rest) if isinstance(rest, dict) else rest


def without_mask(parts: Mapping[str, Part]) -> Part | dict[str, Part]:
    """What is left of an observation, or of its space, beside the mask: a dict, or its only part `observation`."""
    rest = {name: part for name, part in parts.items() if name != keys.ACTION_MASK}
    return rest[OBSERVATION] if rest.keys() == {OBSERVATION} else rest
