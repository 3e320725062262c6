"""From observations to one row of float32 features."""

import math
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from recollect.agent.actors.spaces import unknown_space
from recollect.agent.masks import choice_counts
from recollect.errors import ConfigError
from recollect.roles import Observation

_SMALLEST_IMAGE: Final = 36
_CNN_FEATURES: Final = 512


class FlatFeatures(nn.Module):
    """The numbers of an array as they are; bytes become floats from 0 to 1, the space's largest. No weights."""

    def __init__(self, space: gym.spaces.Box | gym.spaces.MultiBinary) -> None:
        super().__init__()
        self.out_features = math.prod(space.shape)
        self._scale = _byte_scale(space)

    def forward(self, obs: Tensor) -> Tensor:
        """`[batch, …]` -> `[batch, out_features]`."""
        return _as_floats(obs if obs.dim() == 2 else obs.reshape(len(obs), -1), self._scale)


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
        positions = obs.reshape(len(obs), -1).long() + self.offsets
        return torch.zeros(len(obs), self.out_features, device=positions.device).scatter_(1, positions, 1.0)


class NatureCNN(nn.Module):
    """The convolutions of Mnih et al. (2015), doi 10.1038/nature14236, for images of at least 36 × 36.

    Bytes become floats here, on the device, once. An image without channels has one; a stack of images has the
    channels of all of them.
    """

    def __init__(self, space: gym.spaces.Box) -> None:
        super().__init__()
        self.out_features = _CNN_FEATURES
        self._num_axes = len(space.shape)
        *stack, first, second, last = (1, *space.shape) if self._num_axes == 2 else space.shape
        self._channels_last = last < first
        self._scale = _byte_scale(space)
        height, width, channels = (first, second, last) if self._channels_last else (second, last, first)
        self.convolutions = nn.Sequential(
            nn.Conv2d(math.prod(stack) * channels, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.output = nn.Linear(64 * _cnn_size(height) * _cnn_size(width), _CNN_FEATURES)

    def forward(self, obs: Tensor) -> Tensor:
        """Images `[batch, …]`, of which all axes but height and width are channels -> `[batch, 512]`."""
        images = obs.unsqueeze(1) if self._num_axes == 2 else obs
        if self._channels_last:
            images = images.movedim(-1, -3)
        if self._num_axes == 4:
            images = images.flatten(1, 2)
        features: Tensor = self.output(self.convolutions(_as_floats(images, self._scale)))
        return features.relu_()

    def orthogonalise(self) -> None:
        """Draw orthogonal weights with gain sqrt(2), and zero biases."""
        for layer in (*self.convolutions, self.output):
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.constant_(layer.get_parameter("bias"), 0.0)


class DictFeatures(nn.Module):
    """The features of each part of a dict observation, side by side."""

    def __init__(self, space: gym.spaces.Dict, *, flat: bool) -> None:
        super().__init__()
        self.names = tuple(space.spaces)
        parts = [build_features(part, flat=flat) for part in space.spaces.values()]
        self.parts = nn.ModuleList(parts)
        self.out_features: int = sum(part.out_features for part in parts)

    def forward(self, obs: Observation) -> Tensor:
        """Dict of `[batch, …]` -> `[batch, out_features]`."""
        return torch.cat([part(obs[name]) for name, part in zip(self.names, self.parts, strict=True)], -1)


def build_features(space: gym.Space[Any], *, flat: bool = False) -> Any:
    """Build the features of an observation space: images through a CNN unless `flat`, the rest without weights."""
    if isinstance(space, gym.spaces.Dict):
        return DictFeatures(space, flat=flat)
    if isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
        return OneHotFeatures(space)
    if isinstance(space, gym.spaces.Box) and not flat and is_image(space):
        return NatureCNN(space)
    if isinstance(space, (gym.spaces.Box, gym.spaces.MultiBinary)):
        return FlatFeatures(space)
    raise unknown_space("observation", space)


def build_flat_features(space: gym.Space[Any]) -> Any:
    """Build features without weights, of images too."""
    return build_features(space, flat=True)


def is_image(space: gym.spaces.Box) -> bool:
    """Whether the CNN fits: three axes, of which all but the channels are long enough.

    Bytes may also lack the channels, or be a stack of images along their first axis. Floats of such shapes are
    not taken for images.
    """
    num_axes, num_long = len(space.shape), sum(length >= _SMALLEST_IMAGE for length in space.shape)
    if num_axes == 3 or space.dtype != np.uint8:
        return num_axes == 3 and num_long >= 2
    if num_axes == 4 and num_long >= 2 and sum(length >= _SMALLEST_IMAGE for length in space.shape[1:]) < 2:
        raise ConfigError(
            f"images must be stacked along their first axis, got {space}; move it there, or use features='flat'"
        )
    return num_axes in (2, 4) and num_long >= 2


def _byte_scale(space: gym.spaces.Box | gym.spaces.MultiBinary) -> float | None:
    """What makes the largest byte of a space 1: 255 of a picture, but 1 where bytes are flags; None if of no bytes."""
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8:
        return None
    return 1 / max(1, int(space.high.max(initial=0)))


def _as_floats(values: Tensor, scale: float | None) -> Tensor:
    """Values as float32, bytes scaled; a second array as large as a batch of images would cost more than the sums."""
    if values.dtype == torch.uint8 and scale is not None:
        return values.float().mul_(scale)
    return values if values.dtype == torch.float32 else values.float()


def _cnn_size(length: int) -> int:
    """Length of an image's side after the three convolutions."""
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        length = (length - kernel) // stride + 1
    return length
