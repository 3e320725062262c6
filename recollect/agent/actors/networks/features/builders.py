"""Feature extractors by observation space: one row of float32 features for each observation."""

import math
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect.agent.actors.networks.features.images import (
    DataEfficientCNN,
    ImageBuilder,
    ImpalaCNN,
    NatureCNN,
    as_floats,
    byte_scale,
    is_image,
)
from recollect.agent.actors.spaces import unknown_space
from recollect.agent.masks import choice_counts
from recollect.roles import Observation


class FlatFeatures(nn.Module):
    """The numbers of an array as they are; bytes become floats from 0 to 1, the space's largest. No weights."""

    def __init__(self, space: gym.spaces.Box | gym.spaces.MultiBinary) -> None:
        super().__init__()
        self.out_features = math.prod(space.shape)
        self._scale = byte_scale(space)

    def forward(self, obs: Tensor) -> Tensor:
        """`[batch, …]` -> `[batch, out_features]`."""
        return as_floats(obs if obs.dim() == 2 else obs.reshape(obs.shape[0], -1), self._scale)


class OneHotFeatures(nn.Module):
    """Whole numbers, each as a row with a single 1. No weights."""

    offsets: Tensor

    def __init__(self, space: gym.spaces.Discrete | gym.spaces.MultiDiscrete) -> None:
        super().__init__()
        counts = choice_counts(space)
        starts = torch.as_tensor(space.start).reshape(-1)
        offsets = torch.tensor([sum(counts[:index]) for index in range(len(counts))])
        self.out_features = sum(counts)
        self.register_buffer("offsets", offsets - starts, persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """`[batch]` or `[batch, num_choices]` -> `[batch, out_features]`."""
        positions = obs.reshape(obs.shape[0], -1).long() + self.offsets
        return torch.zeros(obs.shape[0], self.out_features, device=positions.device).scatter_(1, positions, 1.0)


class DictFeatures(nn.Module):
    """The features of each part of a dict observation, side by side."""

    def __init__(self, space: gym.spaces.Dict, image: ImageBuilder | None) -> None:
        super().__init__()
        self.names = tuple(space.spaces)
        parts = [_build(part, image) for part in space.spaces.values()]
        self.parts = nn.ModuleList(parts)
        self.out_features: int = sum(part.out_features for part in parts)

    def forward(self, obs: Observation) -> Tensor:
        """Dict of `[batch, …]` -> `[batch, out_features]`."""
        return torch.cat([part(obs[name]) for name, part in zip(self.names, self.parts, strict=True)], -1)


def build_features(space: gym.Space[Any]) -> Any:
    """Build the features of an observation space: images through the Nature CNN, the rest without weights."""
    return _build(space, NatureCNN)


def build_impala_features(space: gym.Space[Any]) -> Any:
    """Build features with the residual CNN of IMPALA."""
    return _build(space, ImpalaCNN)


def build_data_efficient_features(space: gym.Space[Any]) -> Any:
    """Build features with the small CNN of data-efficient Rainbow."""
    return _build(space, DataEfficientCNN)


def build_flat_features(space: gym.Space[Any]) -> Any:
    """Build features without weights, of images too."""
    return _build(space, None)


def _build(space: gym.Space[Any], image: ImageBuilder | None) -> Any:
    if isinstance(space, gym.spaces.Dict):
        return DictFeatures(space, image)
    if isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
        return OneHotFeatures(space)
    if isinstance(space, gym.spaces.Box) and image is not None and is_image(space):
        return image(space)
    if isinstance(space, (gym.spaces.Box, gym.spaces.MultiBinary)):
        return FlatFeatures(space)
    raise unknown_space("observation", space)
