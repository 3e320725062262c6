"""CNNs: one row of float32 features for each image."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from recollect.agent.kernels.fusible import are_fusible
from recollect.errors import ConfigError

_SMALLEST_IMAGE: Final = 36


class ConvolutionalFeatures(nn.Module, ABC):
    """Base of the CNNs, for images of at least 36 × 36.

    Bytes become floats here, on the device, once. An image without channels has one; a stack of images has the
    channels of all of them.
    """

    out_features: int

    def __init__(self, space: gym.spaces.Box) -> None:
        super().__init__()
        self._num_axes = len(space.shape)
        *stack, first, second, last = (1, *space.shape) if self._num_axes == 2 else space.shape
        self._channels_last = last < first
        self._scale = byte_scale(space)
        height, width, channels = (first, second, last) if self._channels_last else (second, last, first)
        self._build(math.prod(stack) * channels, height, width)

    @abstractmethod
    def _build(self, channels: int, height: int, width: int) -> None:
        """Make the layers, and say `out_features`."""

    @abstractmethod
    def _encode(self, images: Tensor) -> Tensor:
        """Float images `[batch, channels, height, width]` -> `[batch, out_features]`."""

    def forward(self, obs: Tensor) -> Tensor:
        """Images `[batch, …]`, of which all axes but height and width are channels -> `[batch, out_features]`."""
        images = obs.unsqueeze(1) if self._num_axes == 2 else obs
        if self._channels_last:
            images = images.movedim(-1, -3)
        if self._num_axes == 4:
            images = images.flatten(1, 2)
        images = as_floats(images, self._scale)
        # On the processor convolutions sum over neighbouring channels: residual networks take half the time.
        return self._encode(images.contiguous(memory_format=torch.channels_last) if are_fusible(images) else images)

    def orthogonalise(self) -> None:
        """Draw orthogonal weights with gain sqrt(2), and zero biases."""
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.constant_(layer.get_parameter("bias"), 0.0)


class NatureCNN(ConvolutionalFeatures):
    """The convolutions of Mnih et al. (2015), doi 10.1038/nature14236, and their dense layer of 512."""

    # Filters, length of a side and stride of each convolution.
    shapes: ClassVar[tuple[tuple[int, int, int], ...]] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    num_dense: ClassVar[int] = 512

    def _build(self, channels: int, height: int, width: int) -> None:
        layers: list[nn.Module] = []
        for filters, side, stride in self.shapes:
            layers += [nn.Conv2d(channels, filters, side, stride=stride), nn.ReLU()]
            channels, height, width = filters, (height - side) // stride + 1, (width - side) // stride + 1
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        size = channels * height * width
        self.output = nn.Linear(size, self.num_dense) if self.num_dense else None
        self.out_features = self.num_dense or size

    def _encode(self, images: Tensor) -> Tensor:
        features: Tensor = self.convolutions(images)
        return features if self.output is None else self.output(features).relu_()


class DataEfficientCNN(NatureCNN):
    """The two convolutions of data-efficient Rainbow (van Hasselt et al., 2019, https://arxiv.org/abs/1906.05243)."""

    shapes: ClassVar[tuple[tuple[int, int, int], ...]] = ((32, 5, 5), (64, 5, 5))
    num_dense: ClassVar[int] = 0


class ImpalaCNN(ConvolutionalFeatures):
    """The residual network of IMPALA (Espeholt et al., 2018, https://arxiv.org/abs/1802.01561), with 256 features."""

    depths: ClassVar[tuple[int, ...]] = (16, 32, 32)

    def _build(self, channels: int, height: int, width: int) -> None:
        layers: list[nn.Module] = []
        for depth in self.depths:
            layers += [nn.Conv2d(channels, depth, 3, padding=1), nn.MaxPool2d(3, 2, 1)]
            layers += [_Residual(depth), _Residual(depth)]
            channels, height, width = depth, (height + 1) // 2, (width + 1) // 2
        self.convolutions = nn.Sequential(*layers, nn.ReLU(), nn.Flatten())
        self.out_features = 256
        self.output = nn.Linear(channels * height * width, self.out_features)

    def _encode(self, images: Tensor) -> Tensor:
        features: Tensor = self.output(self.convolutions(images))
        return features.relu_()


class _Residual(nn.Module):
    """Two convolutions, each behind a ReLU, beside a way around them."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(depth, depth, 3, padding=1) for _ in range(2))

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = self.second(self.first(images.relu()).relu_())
        return images + changed


ImageBuilder = Callable[[gym.spaces.Box], ConvolutionalFeatures]


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


def image_axes(space: gym.spaces.Box) -> tuple[int, int]:
    """Axes of an image's height and width, among those of one observation."""
    first, last = len(space.shape) - 3, len(space.shape) - 1
    if len(space.shape) > 2 and space.shape[last] < space.shape[first]:
        return first, first + 1
    return last - 1, last


def byte_scale(space: gym.spaces.Box | gym.spaces.MultiBinary) -> float | None:
    """What makes the largest byte of a space 1: 255 of a picture, but 1 where bytes are flags; None if of no bytes."""
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8:
        return None
    return 1 / max(1, int(space.high.max(initial=0)))


def as_floats(values: Tensor, scale: float | None) -> Tensor:
    """Values as float32, bytes scaled; a second array as large as a batch of images would cost more than the sums."""
    if values.dtype == torch.uint8 and scale is not None:
        return values.float().mul_(scale)
    return values if values.dtype == torch.float32 else values.float()
