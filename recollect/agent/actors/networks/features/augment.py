"""Random shifts of images during training."""

from typing import Any

import gymnasium as gym
import torch
from torch import Generator, Tensor

from recollect.agent.actors.networks.features.images import image_axes, is_image
from recollect.agent.actors.networks.mlp.layers import LearningPart
from recollect.errors import ConfigError
from recollect.roles import Observation


class RandomShift(LearningPart):
    """Shifts images by up to some pixels in each direction while learning (DrQ; Kostrikov et al., 2020).

    https://arxiv.org/abs/2004.13649. Every row of a batch gets a shift of its own, which a sequence keeps, burn-in
    included; what windows led to gets others. Where the paper averages over several shifts there is one. Pixels from
    beyond the border repeat those at it. Images are copied, never changed.

    Parameters
    ----------
    space : gymnasium.Space
        Observations; all their images are shifted.
    pixels : int
        Longest shift; 4 in the paper.
    """

    _generator: Generator | None = None
    _seed: int | None = None

    def __init__(self, space: gym.Space[Any], pixels: int) -> None:
        super().__init__()
        self._space = space
        self._pixels = pixels
        if not _has_image(space):
            raise ConfigError(f"random_shift={pixels} shifts images, and observations have none: {space}; leave it out")

    def begin(self, generator: Generator) -> None:
        self._generator = generator

    def end(self) -> None:
        self._generator = self._seed = None

    def forward(self, obs: Observation) -> Observation:
        """Observations `[batch, …]` -> the same shapes."""
        return obs if self._generator is None else self._shift(obs, self._space, self._generator)

    def shift_sequences(self, obs: Observation) -> Observation:
        """Steps of sequences `[num_seq, length, …]` -> the same shapes; other steps of them get the same shifts."""
        if self._generator is None:
            return obs
        device = self._generator.device
        if self._seed is None:
            self._seed = int(torch.randint(2**62, (), generator=self._generator, device=device))
        return self._shift(obs, self._space, Generator(device).manual_seed(self._seed))

    def _shift(self, obs: Observation, space: gym.Space[Any], generator: Generator) -> Observation:
        if isinstance(space, gym.spaces.Dict):
            return {name: self._shift(obs[name], part, generator) for name, part in space.spaces.items()}
        if not _has_image(space):
            return obs
        assert isinstance(space, gym.spaces.Box)
        for axis in image_axes(space):
            obs = self._shift_along(obs, axis - len(space.shape), generator)
        return obs

    def _shift_along(self, images: Tensor, axis: int, generator: Generator) -> Tensor:
        """Shift each row of `images` along one axis, counted from the end."""
        length, num_rows, most = images.shape[axis], len(images), self._pixels
        shifts = torch.randint(-most, most + 1, (num_rows, 1), generator=generator, device=images.device)
        places = (torch.arange(length, device=images.device) + shifts).clamp_(0, length - 1)  # [batch, length]
        shape = [1] * images.dim()
        shape[0], shape[axis] = num_rows, length
        return images.gather(axis, places.view(shape).expand_as(images))


def _has_image(space: gym.Space[Any]) -> bool:
    if isinstance(space, gym.spaces.Dict):
        return any(_has_image(part) for part in space.spaces.values())
    return isinstance(space, gym.spaces.Box) and is_image(space)
