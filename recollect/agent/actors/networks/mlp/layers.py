"""Batched layers with modes for training and exploration: batch renormalisation, dropout, noise."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import Generator, Tensor, nn

from recollect.agent.actors.networks.mlp.dense import EnsembleMLP

# Of batch renormalisation, as in CrossQ (Bhatt et al., 2024).
_EPSILON: Final = 1e-3
_MOMENTUM: Final = 0.99
_R_MAX: Final = 3.0
_D_MAX: Final = 5.0
_WARM_UP: Final = 100_000


class LearningPart(nn.Module, ABC):
    """Part of a network that an actor tells when it learns; at all other times it is a fixed function."""

    @abstractmethod
    def begin(self, generator: Generator) -> None:
        """Behave as in learning from now on; chance comes from `generator`."""

    @abstractmethod
    def end(self) -> None:
        """Be a fixed function again."""


@contextmanager
def running_statistics(network: nn.Module) -> Iterator[None]:
    """Let batch renormalisation in a network use its running statistics inside, and leave them as they are."""
    norms = [part for part in network.modules() if isinstance(part, BatchRenorm)]
    before = [norm.is_learning for norm in norms]
    for norm in norms:
        norm.is_learning = False
    try:
        yield
    finally:
        for norm, was_learning in zip(norms, before, strict=True):
            norm.is_learning = was_learning


class EnsembleLinear(EnsembleMLP):
    """A dense layer of each of `num` networks, with first weights as those of `nn.Linear`."""

    def __init__(self, num: int, in_features: int, out_features: int) -> None:
        super().__init__(num, (in_features, out_features))

    @property
    def weight(self) -> Tensor:
        """Weight `[num, in, out]`, a view of the parameter."""
        return self.weights[0]

    @property
    def bias(self) -> Tensor:
        """Bias `[num, 1, out]`, a view of the parameter."""
        return self.biases[0]

    def _rows(self) -> dict[str, list[str]]:
        return {"flat": ["weight", "bias"]}


class NoisyLinear(EnsembleLinear, LearningPart):
    """Dense layers whose weights carry learned noise (Fortunato et al., 2018, https://arxiv.org/abs/1706.10295).

    Noise is factorised and drawn once for each batch of learning and each step of exploring; without it the layer
    computes with its mean weights.

    Parameters
    ----------
    std : float
        Deviation of the noise at first, times the root of `in_features`; 0.5 in the paper.
    """

    _noise: Tensor | None = None

    def __init__(self, num: int, in_features: int, out_features: int, std: float) -> None:
        super().__init__(num, in_features, out_features)
        self.flat_std = nn.Parameter(torch.full_like(self.flat, std / math.sqrt(max(in_features, 1))))

    def begin(self, generator: Generator) -> None:
        num, wide, narrow = self.weight.shape
        rows, columns = self._draw(generator, num, wide, 1), self._draw(generator, num, 1, narrow)
        self._noise = torch.cat([(rows * columns).flatten(), columns.flatten()])

    def end(self) -> None:
        self._noise = None

    def _row(self) -> Tensor:
        return self.flat if self._noise is None else torch.addcmul(self.flat, self.flat_std, self._noise)

    def _rows(self) -> dict[str, list[str]]:
        return {**super()._rows(), "flat_std": ["weight_std", "bias_std"]}

    def _draw(self, generator: Generator, *shape: int) -> Tensor:
        """Draw signed roots of standard normal numbers."""
        drawn = torch.empty(shape, device=self.flat.device).normal_(generator=generator)
        return drawn.sign() * drawn.abs().sqrt()


class Dropout(LearningPart):
    """Sets a share of the numbers to zero while learning, and scales up the others."""

    _generator: Generator | None = None

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def begin(self, generator: Generator) -> None:
        self._generator = generator

    def end(self) -> None:
        self._generator = None

    def forward(self, inputs: Tensor) -> Tensor:
        """`[num, batch, size]` -> the same shape."""
        if self._generator is None:
            return inputs
        kept = 1.0 - self.share
        return inputs * torch.empty_like(inputs).bernoulli_(kept, generator=self._generator).div_(kept)


class BatchRenorm(LearningPart):
    """Normalises each number over a batch, corrected towards the running statistics (Ioffe, 2017).

    https://arxiv.org/abs/1702.03275. The first 100,000 batches are normalised by their own statistics alone. Outside
    of learning, and in target networks, the running statistics are used.
    """

    mean: Tensor
    variance: Tensor
    num_batches: Tensor

    def __init__(self, num: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(num, 1, size))
        self.bias = nn.Parameter(torch.zeros(num, 1, size))
        self.register_buffer("mean", torch.zeros(num, 1, size))
        self.register_buffer("variance", torch.ones(num, 1, size))
        self.register_buffer("num_batches", torch.zeros((), dtype=torch.int64))
        self.is_learning = False

    def begin(self, generator: Generator) -> None:
        self.is_learning = self.weight.requires_grad

    def end(self) -> None:
        self.is_learning = False

    def forward(self, inputs: Tensor) -> Tensor:
        """`[num, batch, size]` -> the same shape, in the precision of the statistics."""
        inputs = inputs.to(self.mean.dtype)
        mean = inputs.mean(1, keepdim=True) if self.is_learning else self.mean
        centred = inputs - mean
        if self.is_learning:
            # `torch.var_mean` takes five times as long along this axis.
            variance = centred.square().mean(1, keepdim=True)
            scale, shift = self._correction(mean.detach(), variance.detach())
            self._follow(mean.detach(), variance.detach())
            scale, shift = scale * self.weight, torch.addcmul(self.bias, shift, self.weight)
        else:
            variance, scale, shift = self.variance, self.weight, self.bias
        return torch.addcmul(shift, centred, (variance + _EPSILON).rsqrt() * scale)

    def _correction(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and shift `[num, 1, size]` from the statistics of a batch to the running ones, within bounds."""
        std = (self.variance + _EPSILON).sqrt()
        is_warm = self.num_batches >= _WARM_UP
        scale = ((variance + _EPSILON).sqrt() / std).clamp(1 / _R_MAX, _R_MAX)
        shift = ((mean - self.mean) / std).clamp(-_D_MAX, _D_MAX)
        return torch.where(is_warm, scale, 1.0), torch.where(is_warm, shift, 0.0)

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        self.mean.lerp_(mean, 1 - _MOMENTUM)
        self.variance.lerp_(variance, 1 - _MOMENTUM)
        self.num_batches.add_(1)
