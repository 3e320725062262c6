"""What actors need to know about Gymnasium's spaces."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from recollect.errors import ConfigError
from recollect.roles import Array, Observation


def map_observation(change: Callable[[Any], Array], obs: Observation) -> Observation:
    """Apply `change` to each array of a (nested) observation."""
    if isinstance(obs, Mapping):
        return {key: map_observation(change, value) for key, value in obs.items()}
    return change(obs)


def first_observations(space: gym.Space[Any], num: int) -> Observation:
    """Observations `[num, …]` to try networks with: zeros, or where whole numbers begin later, the first of them."""
    if isinstance(space, gym.spaces.Dict):
        return {name: first_observations(part, num) for name, part in space.items()}
    start = torch.as_tensor(np.asarray(getattr(space, "start", 0), space.dtype))
    return start.expand(num, *(space.shape or ())).clone()


def is_vector(space: gym.Space[Any]) -> bool:
    """Whether observations are single numbers or vectors, also several by name; images are not."""
    if isinstance(space, gym.spaces.Dict):
        return all(is_vector(inner) for inner in space.values())
    return len(space.shape or ()) <= 1


def first_array(obs: Observation) -> Any:
    """Return any one array of a (nested) observation."""
    while isinstance(obs, Mapping):
        obs = next(iter(obs.values()))
    return obs


def as_tensor(array: Array, device: torch.device) -> Tensor:
    """Put an array on the device; float32 is copied, since networks take it as it is, all else only if it must be.

    The last bits of a product of few rows depend on the alignment of its operands, on some processors. PyTorch aligns
    its memory and NumPy does not; a run that is repeated or resumed must give the same bits.
    """
    if type(array) is not np.ndarray:
        return array if type(array) is Tensor and array.device == device else torch.as_tensor(array, device=device)
    tensor = torch.from_numpy(array)
    if tensor.device != device:
        return tensor.to(device)
    return tensor.clone() if tensor.dtype is torch.float32 else tensor


def action_width(space: gym.Space[Any]) -> int:
    """How many numbers an action has."""
    if isinstance(space, gym.spaces.Discrete):
        return 1
    if isinstance(space, (gym.spaces.Box, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)):
        return math.prod(space.shape)
    raise unknown_space("action", space)


def unknown_space(role: str, space: gym.Space[Any]) -> ConfigError:
    """Make the error for a space that actors cannot handle."""
    known = "Box, Discrete, MultiDiscrete, MultiBinary" + (" and Dict" if role == "observation" else "")
    return ConfigError(f"actors cannot handle the {role} space {space}; expected {known}: wrap the environment")
