"""Squashed Gaussian samples and their log-probabilities as one autograd function, where a kernel fits."""

import math
from typing import Any, Final

import torch
from torch import Tensor

from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.gaussian_kernels import squash, unsquash

LOG_STD_RANGE: Final = (-20.0, 2.0)
"""Bounds of a deviation's logarithm, those of Haarnoja et al. (2018), arXiv 1801.01290: beyond them only overflows."""
_LOG_4: Final = math.log(4.0)
_HALF_LOG_2PI: Final = 0.5 * math.log(2.0 * math.pi)


def is_squashable(outputs: Tensor) -> bool:
    """Whether a kernel draws from what a network says `[batch, 2 * action]`."""
    return outputs.dim() == 2 and are_fusible(outputs)


def squashed(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions `[batch, action]` and log-probabilities `[batch, 1]` of outputs `[batch, 2 * action]` and noise."""
    if not torch.is_grad_enabled():
        return _by_kernel(outputs, noise)
    found: tuple[Tensor, Tensor] = Squash.apply(outputs, noise)  # type: ignore[no-untyped-call]
    return found


class Squash(torch.autograd.Function):
    """Outputs `[batch, 2 * action]` and noise -> actions `[batch, action]` and log-probabilities `[batch, 1]`."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        outputs = outputs.contiguous()
        actions, log_probs = _by_kernel(outputs, noise)
        ctx.save_for_backward(outputs, noise, actions)
        ctx.set_materialize_grads(False)
        return actions, log_probs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        outputs, noise, actions = ctx.saved_tensors
        if torch.is_grad_enabled():
            results = _by_operators(outputs, noise)
            pairs = [(result, each) for result, each in zip(results, gradients, strict=True) if each is not None]
            of, given = zip(*pairs, strict=True)
            return torch.autograd.grad(of, outputs, given, create_graph=True)[0], None
        slopes = [None if each is None else each.contiguous() for each in gradients]
        found, rows = torch.empty_like(outputs), len(outputs)
        unsquash(
            *(outputs.data_ptr(), noise.data_ptr(), actions.data_ptr(), rows, noise.shape[-1]),
            *LOG_STD_RANGE,
            *(0 if each is None else each.data_ptr() for each in slopes),
            found.data_ptr(),
        )
        return found, None


def log_tanh_slope(raw: Tensor) -> Tensor:
    """Log-derivative of tanh, summed over the action: stable where 1 - tanh² would round to 0."""
    return (_LOG_4 - 2.0 * torch.logaddexp(raw, -raw)).sum(-1, keepdim=True)


def _by_kernel(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    outputs, rows = outputs.contiguous(), len(outputs)
    actions, log_probs = torch.empty_like(noise), noise.new_empty(rows, 1)
    places = actions.data_ptr(), log_probs.data_ptr()
    squash(outputs.data_ptr(), noise.data_ptr(), rows, noise.shape[-1], *LOG_STD_RANGE, *places)
    return actions, log_probs


def _by_operators(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_std = outputs.chunk(2, -1)
    log_std = log_std.clamp(*LOG_STD_RANGE)
    raw = torch.addcmul(mean, log_std.exp(), noise)
    log_prob = -(log_std + _HALF_LOG_2PI + 0.5 * noise.square()).sum(-1, keepdim=True) - log_tanh_slope(raw)
    return raw.tanh(), log_prob
